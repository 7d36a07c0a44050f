"""Trains the reranker's scorer, which computes the scores where no spans are wanted, in less time.

It shares the reranker's first layers. Behind them the vectors of the text's tokens stay as they are: the scorer's own layers compute those
of [CLS], the question and [SEP] alone, which attend to all tokens, and the last layer computes [CLS] alone. It starts from the reranker's
other layers, and learns the reranker's scores of training questions with BM25's candidates. What it shares is the graph that ships, in eight
bits, so it needs no gradients and runs once for each text.

Work of the last minutes is in work/NAME.pt; reranker_scorer_export.py puts the scorer into a pack.
"""

import copy
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnxruntime as ort
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import bert
import corpora
import reranker_export
import reranker_graph
import reranker_model
import wordpiece
from pair_data import HELD_OUT, TRAIN, Data
from pair_measure import hits

CANDIDATES = 12  # of BM25, among which a training question's texts are chosen
SPECIAL = 3  # tokens around a question and a text


class Scorer(nn.Module):
    """(asking [n, a, width], mask [n, a], text [n, t, width], mask [n, t]) -> relevance, has_answer, llm_prefer [n, 3].

    Asking has the vectors of [CLS], the question and [SEP], text those of the text and [SEP], both from the shared layers. Products run in
    `kind`, all else in fp32. `seen` is called with what products read, by name.
    """

    def __init__(self, layers, dense, scores):
        super().__init__()
        self.layers, self.dense, self.scores = layers, dense, scores
        self.kind, self.seen = torch.float32, lambda name, values: None

    def product(self, x, weight, bias):
        return F.linear(x.to(self.kind), weight.to(self.kind), bias.to(self.kind))

    def forward(self, asking, asking_mask, text, text_mask):
        n, width, heads = len(asking), asking.shape[2], self.layers[0].heads
        part = lambda x: x.view(n, -1, heads, width // heads).transpose(1, 2)
        bias = torch.cat([asking_mask, text_mask], 1)[:, None, None, :]
        bias = torch.zeros(bias.shape).masked_fill(~bias, reranker_model.MASKED)
        of_text = self.product(text, *(torch.cat([getattr(layer.qkv, name)[width:] for layer in self.layers]) for name in ("weight", "bias")))
        of_text = [part(x) for x in of_text.split(width, 2)]
        for number, layer in enumerate(self.layers):
            weight, shift = layer.qkv.weight, layer.qkv.bias
            key, value = (part(x) for x in self.product(asking, weight[width:], shift[width:]).split(width, 2))
            if number == len(self.layers) - 1:
                asking = asking[:, :1]
            query = part(self.product(asking, weight[:width], shift[:width]))
            near = key.shape[2]
            both = torch.cat([query @ key.transpose(2, 3), query @ of_text[2 * number].transpose(2, 3)], 3)
            shares = torch.softmax(both.float() * (width // heads) ** -0.5 + bias, 3).to(self.kind)
            read = (shares[..., :near] @ value + shares[..., near:] @ of_text[2 * number + 1]).transpose(1, 2).reshape(n, -1, width)
            inner = layer.norm1(asking + self.product(read, layer.out.weight, layer.out.bias).float())
            wide = F.gelu(self.product(inner, layer.up.weight, layer.up.bias).float())
            asking = layer.norm2(inner + self.product(wide, layer.down.weight, layer.down.bias).float())
            for name, values in (("out", read), ("up", inner), ("down", wide), ("next", asking)):
                self.seen(f"{number}.{name}", values)
        return self.scores(torch.tanh(self.dense(asking[:, 0])))


def start(path, shared):
    """A scorer with the weights of the reranker in a graph, whose first layers it shares."""
    whole = reranker_model.Reranker(bert.Bert(bert.Shape()), 0.0)
    reranker_export.weights_of(path, whole)
    return Scorer(copy.deepcopy(whole.bert.layers[shared:]), whole.dense, whole.scores)


class Shared:
    """The reranker's first layers, in the graph of a pack: eight bits a number, with the scale and the zero point of the graph."""

    def __init__(self, path, layers):
        name, graph = reranker_graph.hidden(layers), onnx.load(path)
        constants = {i.name: numpy_helper.to_array(i) for i in graph.graph.initializer}
        self.scale, self.zero = float(constants[name + "_scale"]), int(constants[name + "_zero_point"])
        self.outputs = ["scores", name + "_quantized"]
        graph.graph.output.append(helper.make_tensor_value_info(self.outputs[1], TensorProto.UINT8, None))
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = ort.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def read(self, question, text):
        """The reranker's scores and what the layers make of the tokens, [3] and [question + text + 3, width]."""
        scores, tokens = self.session.run(self.outputs, reranker_export.inputs_of(question, text))
        return scores[0], tokens[0]

    def floats(self, tokens, kind=torch.float32):
        return (tokens.to(kind) - self.zero) * self.scale

    def score(self, scorer, question, text):
        """A scorer's scores of one text, [3]."""
        tokens = self.floats(torch.from_numpy(self.read(question, text)[1]))[None]
        asking, text = tokens[:, : len(question) + 2], tokens[:, len(question) + 2 :]
        with torch.no_grad():
            return scorer(asking, torch.ones(asking.shape[:2], dtype=torch.bool), text, torch.ones(text.shape[:2], dtype=torch.bool))[0]


class States:
    """What the shared layers make of many texts, in a file, and the reranker's scores.

    rows: question's number, question's tokens, text's tokens, whether it is the gold text, relevance, has_answer.
    """

    def __init__(self, path, shared):
        self.shared = shared
        self.rows = np.load(path.with_suffix(".rows.npy"))
        self.tokens = np.load(path, mmap_mode="r")
        lengths = self.rows[:, 1:3].sum(1).astype(int) + SPECIAL
        self.offsets = np.concatenate([[0], np.cumsum(lengths)])
        self.questions = np.split(np.arange(len(self.rows)), np.flatnonzero(np.diff(self.rows[:, 0])) + 1)

    def batch(self, rows, kind):
        """A scorer's inputs, and the scores that it should give."""
        asked, read = (self.rows[rows, i].astype(int) + more for i, more in ((1, 2), (2, 1)))
        asking, text = (torch.zeros((len(rows), n.max(), self.tokens.shape[1]), dtype=torch.uint8) for n in (asked, read))
        for i, row in enumerate(rows):
            tokens = torch.from_numpy(np.array(self.tokens[self.offsets[row] : self.offsets[row + 1]]))
            asking[i, : asked[i]], text[i, : read[i]] = tokens[: asked[i]], tokens[asked[i] :]
        masks = [torch.arange(n.max())[None] < torch.from_numpy(n)[:, None] for n in (asked, read)]
        asking, text = self.shared.floats(asking), self.shared.floats(text, kind)
        return asking, masks[0], text, masks[1], torch.from_numpy(self.rows[rows, 4:6]).float()


def chosen(data, split, count):
    """(question's number, question, texts' ids, which is the gold text) of questions: training texts in all the ways in which they are read,
    held-out ones as at query time."""
    asked = data.with_fewer_medical(data.asked(split), 0.3, 1)
    for q in np.random.default_rng(7).permutation(asked)[:count]:
        rng = np.random.default_rng([99, int(q)])
        question, listed = data.question(q), data.candidates[q]
        if split == HELD_OUT:
            texts = [(t, data.row(t, True, 384)[0]) for t in listed[:8] if t >= 0]
        else:
            question = data.thin(question, rng) if rng.random() < 0.15 else question
            titled, short = rng.random() < 0.85, rng.random() < 0.15
            cap = rng.choice([112, 160, 256, 384], p=[0.2, 0.3, 0.35, 0.15])
            others = [t for t in listed[:CANDIDATES] if t >= 0 and t != data.gold[q]]
            rng.shuffle(others)
            spans = {data.gold[q]: (data.start[q], data.end[q])}
            texts = [(t, data.row(t, titled, cap, rng, short, spans.get(t, (-1, -1)))[0]) for t in [data.gold[q], *others[:5]]]
        for t, ids in texts:
            if len(ids):
                yield int(q), question, ids, int(t == data.gold[q])


def write_states(path, shared, rows, threads):
    """Writes the file of States for rows of `chosen`."""
    rows = list(rows)
    offsets = np.concatenate([[0], np.cumsum([len(question) + len(ids) + SPECIAL for _, question, ids, _ in rows])])
    new = path.with_suffix(".new")
    tokens = np.lib.format.open_memmap(new, "w+", np.uint8, (int(offsets[-1]), bert.Shape().width))
    scores = np.zeros((len(rows), 2))

    def read(number):
        found, tokens[offsets[number] : offsets[number + 1]] = shared.read(*rows[number][1:3])
        scores[number] = found[:2]

    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(read, range(len(rows))):
            pass
    tokens.flush()
    np.save(path.with_suffix(".rows.npy"), [(q, len(question), len(ids), gold, *scores[i]) for i, (q, question, ids, gold) in enumerate(rows)])
    new.replace(path)


def read(scorer, states, rows, parts=3):
    """Scores of rows, and what they should be; the shorter texts apart from the longer ones, so that less is padding."""
    order = np.argsort(states.offsets[rows + 1] - states.offsets[rows], kind="stable")
    found, wanted = [], []
    for some in np.array_split(rows[order], min(parts, len(rows))):
        *inputs, target = states.batch(some, scorer.kind)
        found.append(scorer(*inputs)[:, :2].float())
        wanted.append(target)
    back = torch.from_numpy(np.argsort(order))
    return torch.cat(found)[back], torch.cat(wanted)[back]


@torch.no_grad()
def figures(scorer, states):
    """How far a scorer is from the reranker, and nDCG of both where the gold text is among those read."""
    scorer.eval()
    apart, both = [], []
    for rows in states.questions:
        found, wanted = (x.numpy() for x in read(scorer, states, rows, 1))
        apart.append(found - wanted)
        if (gold := states.rows[rows, 3]).any():
            both.append([hits([x[:, 0]], [gold.argmax()])[1] for x in (found, wanted)])
    scorer.train()
    off, (ours, theirs) = np.sqrt((np.concatenate(apart) ** 2).mean(0)), np.array(both).T
    error = (ours - theirs).std() / len(ours) ** 0.5
    return (f"{off[0]:.2f} and {off[1]:.2f} from the reranker's relevance and has_answer, nDCG@8 {ours.mean():.4f}, "
            f"the reranker's {theirs.mean():.4f}, difference's standard error {error:.4f}")


def loss_of(found, wanted, questions):
    """Distances of the scores, and of each question's order: the divergence of relevance among its texts."""
    loss = F.smooth_l1_loss(found[:, 0], wanted[:, 0], beta=2.0) + 0.5 * F.smooth_l1_loss(found[:, 1], wanted[:, 1], beta=2.0)
    sizes = [len(rows) for rows in questions]
    for ours, theirs in zip(found[:, 0].split(sizes), wanted[:, 0].split(sizes)):
        loss = loss + 0.5 / len(sizes) * F.kl_div(F.log_softmax(ours / 2, 0), F.log_softmax(theirs / 2, 0), log_target=True, reduction="sum")
    return loss


def train(scorer, states, held_out, args):
    optimizer = torch.optim.AdamW(scorer.parameters(), lr=args.rate, weight_decay=0.01, betas=(0.9, 0.98))
    began, saved, losses, step = time.time(), time.time(), [], 0
    scorer.kind = torch.bfloat16
    while step < args.steps:
        order = np.random.default_rng([args.seed, step]).permutation(len(states.questions))
        for first in range(0, len(order) - args.questions_a_step + 1, args.questions_a_step):
            if step == args.steps:
                break
            questions = [states.questions[i] for i in order[first : first + args.questions_a_step]]
            optimizer.param_groups[0]["lr"] = args.rate * min(1, (step + 1) / 100) * max(0.02, 1 - step / args.steps)
            loss = loss_of(*read(scorer, states, np.concatenate(questions)), questions)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(scorer.parameters(), 1.0)
            optimizer.step()
            step += 1
            losses.append(loss.item())
            if step % args.report == 0 or step == args.steps:
                torch.save({"scorer": scorer.state_dict(), "shared": args.shared}, args.work / f"{args.name}.pt")
                print(f"step {step}/{args.steps}, {(time.time() - began) / step:.2f} s each: loss {np.mean(losses[-args.report:]):.3f}, "
                      + figures(scorer, held_out), flush=True)


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--pack", type=corpora.Path, default=corpora.Path("../models/default"))
    parser.add_argument("--name", default="reranker_scorer")
    parser.add_argument("--shared", type=int, default=3, help="the reranker's layers before the scorer's")
    parser.add_argument("--questions", type=int, default=12_000, help="training questions, each with six texts at most")
    parser.add_argument("--checked", type=int, default=300, help="held-out questions")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--questions-a-step", type=int, default=12)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--report", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="start from the weights of an earlier run")
    parser.add_argument("--smoke", action="store_true", help="a few steps, to see that it runs")
    args = parser.parse_args()
    if args.smoke:
        args.questions, args.checked, args.steps, args.report = 48, 12, 6, 3
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    graph, found = args.pack / "reranker.onnx", {}
    shared = Shared(graph, args.shared)
    data = Data(args.work, wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer")))
    for split, count in ((TRAIN, args.questions), (HELD_OUT, args.checked)):
        path = args.work / f"{args.name}_{args.shared}_{split}_{count}.npy"
        if not path.exists():
            began = time.time()
            write_states(path, shared, chosen(data, split, count), args.threads)
            print(f"{time.time() - began:.0f} s -> {path}", flush=True)
        found[split] = States(path, shared)
    scorer, checkpoint = start(graph, args.shared), args.work / f"{args.name}.pt"
    if args.resume and checkpoint.exists():
        scorer.load_state_dict(torch.load(checkpoint, weights_only=False)["scorer"])
    print(f"{len(scorer.layers)} layers after {args.shared}, {sum(p.numel() for p in scorer.parameters()) / 1e6:.1f} M weights, "
          f"{len(found[TRAIN].rows)} texts; before {figures(scorer, found[HELD_OUT])}", flush=True)
    train(scorer, found[TRAIN], found[HELD_OUT], args)


if __name__ == "__main__":
    main()
