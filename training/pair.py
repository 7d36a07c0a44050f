"""Trains the reader and ranker of pair_model.py: first spans in the gold texts alone, then the gold text and hard
negatives of BM25 with one softmax over all texts of a question (Clark & Gardner 2017), for spans and for relevance.

A checkpoint (work/pair.pt, with a moving average of the weights) is written every few minutes; --resume goes on from it.
"""

import copy
import time

import numpy as np
import torch
import torch.nn.functional as F

import bm25
import corpora
import head
import shipped
import wordpiece
from pair_data import HELD_OUT, TRAIN, Data
from pair_measure import measure
from pair_model import MASKED, Pair, initial

BLOCK = 24  # batches that are sorted by length together


def build(args, data):
    torch.manual_seed(args.seed)
    frequency, texts = data.frequency()
    vectors = shipped.Encoder(args.pack).table[:, : -head.CUES]  # the last entries serve the segmenter
    table, importance, stems = initial(vectors, data.vocabulary, frequency, texts, bm25.stem, args.entries)
    return Pair(table, importance, stems, args.width, args.drop)


def batch_of(order, data, step, size, args):
    """The questions of a step: blocks of the epoch's order, sorted by length inside, so that little is padding."""
    per_epoch = len(order) // size
    epoch, at = divmod(step, per_epoch)
    shuffled = np.random.default_rng([args.seed, size, epoch]).permutation(order)
    block = at // BLOCK
    part = shuffled[block * BLOCK * size : min((block + 1) * BLOCK, per_epoch) * size]
    gold = data.gold[part]
    part = part[np.argsort(data.texts_offsets[gold + 1] - data.texts_offsets[gold], kind="stable")]
    places = np.random.default_rng([args.seed, size, epoch, block]).permutation(len(part) // size)
    at = places[at - block * BLOCK]
    return part[at * size : (at + 1) * size]


def losses(parts, spans, holds, mask, asked):
    """Mean losses of spans, relevance and has_answer; a question's texts share one normalisation."""
    group = len(holds) // asked
    known = spans[:, 0] >= 0
    width = mask.shape[1]
    span = parts["start"].new_zeros(())
    if known.any():
        for name, place in (("start", 0), ("end", 1)):
            logits = parts[name].view(asked, group, width)
            # Other texts that hold the answer's words may be right: they are neither for nor against.
            other = holds.view(asked, group, 1).clone()
            other[:, 0] = 0
            logits = (logits + MASKED * other).view(asked, -1)
            span = span + F.cross_entropy(logits[known], spans[known, place]) / 2
    relevance, answers = span.new_zeros(()), span.new_zeros(())
    if group > 1:
        relevance = F.cross_entropy(parts["relevance"].view(asked, group), torch.zeros(asked, dtype=torch.long, device=holds.device))
        answers = F.binary_cross_entropy_with_logits(parts["auxiliary"].view(-1), holds)
    return span, relevance, answers


def read_by_length(model, q, qm, t, tm, parts=4):
    """model.read, the shorter texts apart from the longer ones, so that less is padding."""
    lengths = tm.sum(1)
    order = torch.argsort(lengths, stable=True)
    found = []
    for rows in order.chunk(parts):
        width = int(lengths[rows].max())
        read = model.read(q[rows], qm[rows], t[rows, :width], tm[rows, :width])
        for name in ("start", "end"):
            read[name] = F.pad(read[name], (0, t.shape[1] - width), value=MASKED)
        found.append(read)
    back = torch.argsort(order)
    return {name: torch.cat([read[name] for read in found])[back] for name in ("start", "end", "relevance", "auxiliary")}


def rate(step, total, warm=150):
    return min(1, (step + 1) / warm) * max(0.03, 0.5 * (1 + np.cos(np.pi * step / total)))


def train(args):
    torch.set_num_threads(args.threads)
    tokenizer = wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer"))
    data = Data(args.work, tokenizer)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(args, data).to(device)
    average = {name: value.detach().clone() for name, value in model.state_dict().items()}
    table = [model.table, model.importance]
    rest = [p for n, p in model.named_parameters() if n not in ("table", "importance") and not n.startswith("labels")]
    optimizer = torch.optim.Adam(
        [{"params": table, "lr": args.rate * args.table_rate}, {"params": rest, "lr": args.rate}], betas=(0.9, 0.98), foreach=True
    )
    bases = [group["lr"] for group in optimizer.param_groups]
    reading = data.asked(TRAIN, spans_only=True)
    ranking = data.with_fewer_medical(data.asked(TRAIN), args.medical, args.seed)
    print(f"{len(reading)} questions with spans, {len(ranking)} in all; {sum(p.numel() for p in rest)} weights beside the table", flush=True)

    checkpoint, step = args.work / "pair.pt", 0
    if args.resume and checkpoint.exists():
        state = torch.load(checkpoint, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        average, step = state["average"], state["step"]
    total = args.reader_steps + args.steps
    began, seen = time.time(), []

    def save():
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "average": average, "step": step, "args": vars(args)}
        torch.save(state, checkpoint.with_suffix(".new"))
        checkpoint.with_suffix(".new").replace(checkpoint)

    while step < total:
        model.train()
        torch.manual_seed(args.seed * 1_000_003 + step)  # dropout, so that a resumed run goes on as it would have
        rng = np.random.default_rng([args.seed, 1, step])
        negatives = 0 if step < args.reader_steps else args.negatives
        if negatives:
            asked = batch_of(ranking, data, step - args.reader_steps, args.questions, args)
        else:
            asked = batch_of(reading, data, step, args.reader_questions, args)
        q, qm, t, tm, spans, holds = (x.to(device) for x in data.train_batch(asked, negatives, rng, args))
        parts = read_by_length(model, q, qm, t, tm) if negatives else model.read(q, qm, t, tm)
        span, relevance, answers = losses(parts, spans, holds, tm, len(asked))
        loss = args.span_weight * span + relevance + 0.5 * answers if negatives else span
        for group, base in zip(optimizer.param_groups, bases):
            group["lr"] = base * rate(step, total)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(rest, 5.0)
        optimizer.step()
        step += 1
        keep = min(args.keep, (1 + step) / (10 + step))
        current = model.state_dict()
        for name, value in average.items():
            if value.dtype.is_floating_point:
                value.lerp_(current[name], 1 - keep)
        seen.append([span.item(), relevance.item(), answers.item()])
        if step % args.report == 0 or step == total:
            means = np.mean(seen, 0)
            print(
                f"step {step}/{total}: span {means[0]:.3f}, relevance {means[1]:.3f}, has_answer {means[2]:.3f}, "
                f"{(time.time() - began) / len(seen):.2f} s a step", flush=True
            )
            began, seen = time.time(), []
            save()
        if step % args.check == 0 or step == total:
            check(model, average, data, args)
            began = time.time()


def check(model, average, data, args):
    """Prints figures of the weights' moving average on some held-out questions."""
    judged = copy.deepcopy(model).cpu()
    judged.load_state_dict(average)
    some = np.random.default_rng(3).permutation(data.asked(HELD_OUT))[: args.checked]
    print("   held out: " + measure(judged, data, some, 20, label="auxiliary"), flush=True)


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--pack", type=corpora.Path, default=corpora.TRAINING.parent / "models" / "default", help="where the encoder is read from when work/ has none")
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--entries", type=int, default=128, help="size of a token's vector")
    parser.add_argument("--drop", type=float, default=0.1)
    parser.add_argument("--rate", type=float, default=0.002)
    parser.add_argument("--table-rate", type=float, default=0.5, help="rate of token vectors, relative to --rate")
    parser.add_argument("--keep", type=float, default=0.998, help="how much of the moving average a step keeps")
    parser.add_argument("--reader-steps", type=int, default=2300)
    parser.add_argument("--reader-questions", type=int, default=64)
    parser.add_argument("--steps", type=int, default=2200, help="steps with negatives, after the others")
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--negatives", type=int, default=3)
    parser.add_argument("--span-weight", type=float, default=0.5)
    parser.add_argument("--medical", type=float, default=0.5, help="share of the medical pairs used")
    parser.add_argument("--keywords", type=float, default=0.1, help="share of questions given as keywords")
    parser.add_argument("--titled", type=float, default=0.85, help="share of questions whose texts have their title")
    parser.add_argument("--short", type=float, default=0.15, help="share of questions whose texts are 1 to 5 sentences")
    parser.add_argument("--caps", type=int, nargs="+", default=[112, 160, 256], help="longest text of a batch, in tokens")
    parser.add_argument("--caps-share", type=float, nargs="+", default=[0.4, 0.4, 0.2])
    parser.add_argument("--report", type=int, default=100)
    parser.add_argument("--check", type=int, default=500)
    parser.add_argument("--checked", type=int, default=400, help="held-out questions looked at in a check")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="a few steps, to see that it runs")
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()
    if args.smoke:
        args.reader_steps, args.steps, args.report, args.check, args.checked = 10, 10, 5, 10, 20
    train(args)


if __name__ == "__main__":
    main()
