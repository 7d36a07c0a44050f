"""Trains the fuser of fuser_model.py: FunnelRAG's FiD learns to answer from all passages of a question together.

A question is read with its gold text and BM25's best others. Two losses: every head of the decoder should lie on the
answer's first or last token, wherever the answer's words stand in any passage (FiD's likelihood of the answer, for a
decoder that copies); and eq. 3's score of the gold text should be above the others' (ours, for the ranking it is used for).
The encoder starts as the trained reader, work/pair.pt, whose token vectors stay as they are.

A checkpoint (work/fuser.pt, with a moving average of the weights) is written every few minutes; --resume goes on from it.
"""

import copy
import time

import numpy as np
import torch
import torch.nn.functional as F

import corpora
import fuser_model
import wordpiece
from fuser_model import HEADS, LAYERS, passage_scores
from pair import batch_of, rate
from pair_data import HELD_OUT, LABEL, TRAIN, Data, pad
from pair_model import MASKED


class Batches:
    """Rows of questions with their passages, and where the answers stand in them."""

    def __init__(self, data, tokenizer):
        self.data = data
        self.inner = np.array([piece.startswith(wordpiece.PREFIX) and len(piece) > 2 for piece in tokenizer.ids])

    def places(self, ids, answer, head):
        """First tokens of all places of the answer in a row's ids, at word boundaries, not in its title."""
        hay, needle = ids.astype(np.uint16).tobytes(), answer.astype(np.uint16).tobytes()
        out, at = [], hay.find(needle)
        while at >= 0 and len(needle):
            first, after = at // 2, at // 2 + len(answer)
            if at % 2 == 0 and first >= head and (after == len(ids) or not self.inner[ids[after]]):
                out.append(first)
            at = hay.find(needle, at + 1)
        return out

    def make(self, asked, group, rng, settings):
        """Questions [n, q], texts [n x group, t], answers' first and last tokens [n x group, t], and which texts hold one."""
        data = self.data
        questions, texts, marks = [], [], []
        cap = rng.choice(settings.caps, p=settings.caps_share)
        for q in asked:
            question = data.question(q)
            if rng.random() < settings.keywords:
                question = data.thin(question, rng)
            questions.append(question)
            titled, short = rng.random() < settings.titled, rng.random() < settings.short
            answer = data.answers[data.answers_offsets[q] : data.answers_offsets[q + 1]]
            listed = data.candidates[q][: settings.depth]
            others = listed[(listed >= 0) & (listed != data.gold[q])]
            chosen = [data.gold[q], *rng.permutation(others)[: group - 1]]
            chosen += list(rng.integers(len(data.kind), size=group - len(chosen)))
            for place, text in enumerate(chosen):
                span = (data.start[q], data.end[q]) if place == 0 else (-1, -1)
                ids, found = data.row(text, titled, cap, rng, short, span)
                head = len(data.heading(text)) if titled else 0
                starts = set(self.places(ids, answer, head))
                ends = {s + len(answer) - 1 for s in starts}
                if found[0] >= 0:
                    starts.add(found[0])
                    ends.add(found[1])
                texts.append(ids)
                marks.append((sorted(starts), sorted(ends)))
        text_ids, text_mask = pad(texts)
        question_ids, question_mask = pad(questions)
        wanted = torch.zeros(2, *text_ids.shape)
        for row, places in enumerate(marks):
            for side in (0, 1):
                wanted[side, row, [int(p) for p in places[side]]] = 1
        return question_ids, question_mask, text_ids, text_mask, wanted


def memories(model, question_ids, question_mask, text_ids, text_mask, parts=4):
    """model.memory of questions with a group of texts each; the shorter texts run apart from the longer ones."""
    group = len(text_ids) // len(question_ids)
    q, qm = question_ids.repeat_interleave(group, 0), question_mask.repeat_interleave(group, 0)
    lengths = text_mask.sum(1)
    order = torch.argsort(lengths, stable=True)
    sides = [[], [], []]
    for rows in order.chunk(parts):
        width = int(lengths[rows].max())
        of_question, of_text, about = model.memory(q[rows], qm[rows], text_ids[rows, :width], text_mask[rows, :width])
        of_text = F.pad(of_text, (0, 0, 0, text_ids.shape[1] - width))
        for side, found in zip(sides, (of_question, of_text, about)):
            side.append(found)
    back = torch.argsort(order)
    of_question, of_text, about = (torch.cat(side)[back] for side in sides)
    return of_question, of_text, about[::group], qm


def attend(model, question_ids, question_mask, text_ids, text_mask):
    """Raw scores [layers x heads, asked, group, q + t] and the mask [asked, group, q + t]."""
    asked = len(question_ids)
    of_question, of_text, about, qm = memories(model, question_ids, question_mask, text_ids, text_mask)
    memory = torch.cat([of_question, of_text], dim=1)
    mask = torch.cat([qm, text_mask], dim=1).float()
    raw = model.decode(memory.view(asked, -1, model.size), mask.view(asked, -1), about)
    return raw.view(LAYERS * HEADS, asked, -1, memory.shape[1]), mask.view(asked, -1, memory.shape[1])


def losses(raw, mask, wanted, width):
    """(copying, ranking): means over questions; width: columns of the question."""
    heads, asked, group, long = raw.shape
    hidden = raw + MASKED * (1 - mask)
    total = torch.logsumexp(hidden.flatten(2), dim=2)  # [heads, asked]
    wanted = wanted.view(2, asked, group, long - width)
    side = torch.arange(heads) % 2
    right = hidden[..., width:] + MASKED * (1 - wanted[side])
    has = wanted[0].flatten(1).amax(1) > 0
    copying = (total - torch.logsumexp(right.flatten(2), dim=2))[:, has]
    copying = copying.mean() if has.any() else raw.sum() * 0
    scores = passage_scores(raw[..., width:], mask[..., width:])
    other = wanted[0].amax(2).clone()  # other texts that hold the answer's words may be right: neither for nor against
    other[:, 0] = 0
    ranking = F.cross_entropy(scores + MASKED * other, torch.zeros(asked, dtype=torch.long))
    return copying, ranking


def train(args):
    torch.set_num_threads(args.threads)
    tokenizer = wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer"))
    data = Data(args.work, tokenizer)
    batches = Batches(data, tokenizer)
    reader = torch.load(corpora.intermediate(args.work, args.reader, "pair-train"), map_location="cpu")
    torch.manual_seed(args.seed)
    model = fuser_model.from_reader(reader)
    settings = {"width": reader["args"]["width"], "drop": reader["args"]["drop"], **vars(args)}
    del reader
    model.table.requires_grad = model.importance.requires_grad = False
    unused = ("table", "importance", "labels", "auxiliary", "relevance")
    new = ("whole", "ask_text", "answer_question", "mix_question", "norm_question", "begin", "queries", "values", "norms", "inner")
    named = [(n, p) for n, p in model.named_parameters() if not n.startswith(unused)]
    decoder, encoder = ([p for n, p in named if n.startswith(new) == kind] for kind in (True, False))
    optimizer = torch.optim.Adam(
        [{"params": decoder, "lr": args.rate}, {"params": encoder, "lr": args.rate * args.encoder_rate}], betas=(0.9, 0.98), foreach=True
    )
    bases = [group["lr"] for group in optimizer.param_groups]
    average = {name: value.detach().clone() for name, value in model.state_dict().items()}
    asked = np.concatenate([data.asked(split, spans_only=True) for split in (TRAIN, LABEL)])
    print(f"{len(asked)} questions; {sum(p.numel() for p in decoder)} weights of the decoder, {sum(p.numel() for p in encoder)} of the encoder", flush=True)

    checkpoint, step = args.work / "fuser.pt", 0
    if args.resume and checkpoint.exists():
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        average, step = state["average"], state["step"]
        args.pair_seen = True
    else:
        check(model, average, data, args)
    began, seen = time.time(), []

    def save():
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "average": average, "step": step, "args": settings}
        torch.save(state, checkpoint.with_suffix(".new"))
        checkpoint.with_suffix(".new").replace(checkpoint)

    while step < args.steps:
        model.train()
        torch.manual_seed(args.seed * 1_000_003 + step)  # dropout, so that a resumed run goes on as it would have
        rng = np.random.default_rng([args.seed, 1, step])
        q, qm, t, tm, wanted = batches.make(batch_of(asked, data, step, args.questions, args), args.passages, rng, args)
        raw, mask = attend(model, q, qm, t, tm)
        copying, ranking = losses(raw, mask, wanted, q.shape[1])
        loss = copying + args.ranking * ranking
        for group, base in zip(optimizer.param_groups, bases):
            group["lr"] = base * rate(step, args.steps)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(decoder + encoder, 5.0)
        optimizer.step()
        step += 1
        keep = min(args.keep, (1 + step) / (10 + step))
        current = model.state_dict()
        for name, value in average.items():
            if value.dtype.is_floating_point:
                value.lerp_(current[name], 1 - keep)
        seen.append([copying.item(), ranking.item()])
        if step % args.report == 0 or step == args.steps:
            means = np.mean(seen, 0)
            print(f"step {step}/{args.steps}: copying {means[0]:.3f}, ranking {means[1]:.3f}, {(time.time() - began) / len(seen):.2f} s a step", flush=True)
            began, seen = time.time(), []
            save()
        if step % args.check == 0 or step == args.steps:
            check(model, average, data, args)
            began = time.time()


@torch.no_grad()
def check(model, average, data, args, depth=16):
    """Prints how often a text that holds the answer is ranked first, on some held-out questions."""
    judged = copy.deepcopy(model)
    judged.load_state_dict(average)
    judged.eval()
    some = np.random.default_rng(3).permutation(data.asked(HELD_OUT, spans_only=True))[: args.checked]
    found = {"BM25": [], "pair": [], "fuser": []}
    for q in some:
        texts = data.candidates[q][:depth]
        texts = texts[texts >= 0]
        holds = data.holds[q][: len(texts)] | (texts == data.gold[q])
        question_ids, question_mask, text_ids, text_mask = data.plain_batch(q, texts, args.caps[-1])
        raw, mask = attend(judged, question_ids[:1], question_mask[:1], text_ids, text_mask)
        width = question_ids.shape[1]
        scores = passage_scores(raw[..., width:], mask[..., width:])[0]
        orders = {"BM25": np.arange(len(texts)), "fuser": (-scores).argsort().numpy()}
        if not args.pair_seen:
            parts = judged.read(question_ids, question_mask, text_ids, text_mask)
            orders["pair"] = (-parts["relevance"][:, 0]).argsort().numpy()
        for name, order in orders.items():
            found[name].append([holds[order[0]], holds[order[:4]].any(), texts[order[0]] == data.gold[q]])
    args.pair_seen = True  # its weights move on with the fuser's: only what it was at first is the pair model
    figures = "; ".join(f"{name} AR@1 %.4f AR@4 %.4f gold first %.4f" % tuple(np.mean(rows, 0)) for name, rows in found.items() if rows)
    print(f"   held out, best {depth} of BM25: {figures}", flush=True)


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--reader", default="pair.pt", help="checkpoint of pair.py in --work")
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--encoder-rate", type=float, default=0.4, help="rate of the reader's weights, relative to --rate")
    parser.add_argument("--keep", type=float, default=0.99, help="how much of the moving average a step keeps")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--questions", type=int, default=10)
    parser.add_argument("--passages", type=int, default=8)
    parser.add_argument("--depth", type=int, default=24, help="the others are among so many of BM25")
    parser.add_argument("--ranking", type=float, default=1.0, help="weight of the loss of eq. 3's scores")
    parser.add_argument("--keywords", type=float, default=0.1, help="share of questions given as keywords")
    parser.add_argument("--titled", type=float, default=0.85, help="share of questions whose texts have their title")
    parser.add_argument("--short", type=float, default=0.15, help="share of questions whose texts are 1 to 5 sentences")
    parser.add_argument("--caps", type=int, nargs="+", default=[112, 144, 192], help="longest text of a batch, in tokens")
    parser.add_argument("--caps-share", type=float, nargs="+", default=[0.4, 0.4, 0.2])
    parser.add_argument("--report", type=int, default=50)
    parser.add_argument("--check", type=int, default=250)
    parser.add_argument("--checked", type=int, default=150, help="held-out questions looked at in a check")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="a few steps, to see that it runs")
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()
    args.pair_seen = False
    if args.smoke:
        args.steps, args.questions, args.report, args.check, args.checked = 6, 4, 3, 6, 10
    train(args)


if __name__ == "__main__":
    main()
