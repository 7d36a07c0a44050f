"""Trains FIT-RAG's eligible-augmentation detector: are the texts so far enough to answer with?

A network of four layers over the scores (has_answer, llm_prefer) of at most ten windows, best sum first, zeros behind
them. Trained on questions that our reader cannot answer without a text: prefixes of the windows as the token reducer
will take them, and random combinations on the skyline of the two scores, as the paper draws them; 1: our reader finds the
answer in them. detector_data.py says how. Writes work/detector.pt, with the threshold calibrated on one half
of the held-out articles; the figures are of the other half.
"""

import pickle
import time

import numpy as np
import torch
import torch.nn.functional as F

import corpora
import detector_data
import wordpiece
from pair_data import Data
from pair_export import ready
from pair_measure import area
from pair_prepare import Holder

SCALE = 4.0  # logits are divided by it
ALLOWED = 0.01  # of the answers that are in all ten windows may be lost by stopping earlier


class Detector(torch.nn.Module):
    """scores [n, 20] -> enough [n], a probability."""

    def __init__(self, width=48, dropout=0.1):
        super().__init__()
        sizes = [2 * detector_data.WINDOWS, width, width, width]
        layers = []
        for left, right in zip(sizes, sizes[1:]):
            layers += [torch.nn.Linear(left, right), torch.nn.ReLU(), torch.nn.Dropout(dropout)]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))

    def logits(self, scores):
        return self.layers(scores / SCALE).squeeze(1)

    def forward(self, scores):
        return torch.sigmoid(self.logits(scores))


def collect(args):
    """(training, held out) questions, read once and kept in the work folder."""
    path = args.work / "detector.pickle"
    if path.exists() and not args.again:
        return pickle.loads(path.read_bytes())
    tokenizer = wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer"))
    data, holder = Data(args.work, tokenizer), Holder(tokenizer)
    model, _ = ready(args.work)
    parts, started = [], time.time()
    for numbers in detector_data.chosen(data, args.questions, args.others, args.checked, args.seed):
        part = []
        for q in numbers:
            part.append(detector_data.ask(model, data, holder, q))
            if len(part) % 100 == 0:
                print(f"{len(part)} questions read, {time.time() - started:.0f} s", flush=True)
        parts.append([a for a in part if a is not None])
    path.write_bytes(pickle.dumps(parts))
    return parts


def prefixes(asked):
    """(inputs [n, 20], labels [n], how many windows [n]) of a question, as the reducer meets them."""
    order = asked.order()
    counts = np.arange(1, min(len(order), detector_data.WINDOWS) + 1)
    return np.stack([asked.features(order[:n]) for n in counts]), np.array([asked.enough(order[:n]) for n in counts], np.float32), counts


def samples(questions, rng, many):
    """Training inputs, labels and weights: prefixes and skyline combinations; a question weighs 1 in each of both."""
    inputs, labels, weights = [], [], []
    for asked in questions:
        x, y, _ = prefixes(asked)
        sets = detector_data.combinations(asked, rng, many) if many else []
        if sets:
            x = np.concatenate([x, np.stack([asked.features(s) for s in sets])])
            y = np.append(y, np.array([asked.enough(s) for s in sets], np.float32))
        inputs.append(x)
        labels.append(y)
        weights.append(np.concatenate([np.full(len(x) - len(sets), 1 / (len(x) - len(sets))), np.full(len(sets), 1 / max(1, len(sets)))]))
    return (torch.from_numpy(np.concatenate(part).astype(np.float32)) for part in (inputs, labels, weights))


def fit(questions, args, seed):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    inputs, labels, weights = samples(questions, rng, args.combinations)
    model = Detector()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate, weight_decay=args.decay)
    steps = -(-len(inputs) // args.batch)
    for epoch in range(args.epochs):
        model.train()
        order = torch.from_numpy(rng.permutation(len(inputs)))
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = args.rate * (1 - (epoch * steps + step) / (args.epochs * steps))
            rows = order[step * args.batch : (step + 1) * args.batch]
            loss = (F.binary_cross_entropy_with_logits(model.logits(inputs[rows]), labels[rows], reduction="none") * weights[rows]).sum() / weights[rows].sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval(), len(inputs), float((labels * weights).sum() / weights.sum())


@torch.no_grad()
def probabilities(model, questions):
    """Of each question, the probabilities and labels of its prefixes."""
    out = []
    for asked in questions:
        x, y, _ = prefixes(asked)
        out.append((model(torch.from_numpy(x)).numpy(), y))
    return out


def taken(judged, threshold):
    """(share with the answer, windows per question) when the first prefix that is enough is taken, else all."""
    right, windows = [], []
    for p, y in judged:
        n = int(np.argmax(p >= threshold)) if (p >= threshold).any() else len(p) - 1
        right.append(y[n])
        windows.append(n + 1)
    return float(np.mean(right)), float(np.mean(windows))


def calibrate(judged):
    """The lowest threshold that loses no more than ALLOWED of the answers that are in all windows."""
    everything = np.mean([y[-1] for _, y in judged])
    for threshold in np.arange(0.02, 1.0, 0.01):
        if taken(judged, threshold)[0] >= (1 - ALLOWED) * everything:
            return round(float(threshold), 2)
    return 0.99


def figures(model, questions, threshold):
    """Prints what the detector knows of the prefixes of questions, beside rules without it."""
    judged = probabilities(model, questions)
    p, y = (np.concatenate([part[i] for part in judged]) for i in (0, 1))
    best, total, length, count = [], [], [], []
    for asked in questions:
        x, _, n = prefixes(asked)
        pairs = x.reshape(len(x), -1, 2)
        best += [pairs[i, : i + 1, 0].max() for i in range(len(pairs))]
        total += [pairs[i, : i + 1].sum(1).max() for i in range(len(pairs))]
        length += [-asked.tokens] * len(n)
        count += n.tolist()
    print(f"{len(questions)} questions, {len(y)} prefixes, {y.mean():.3f} of them enough; a majority rule is right in {max(y.mean(), 1 - y.mean()):.3f}")
    rows = {"detector": p, "highest has_answer": best, "highest sum": total, "number of windows": count, "question's length": length}
    print("area under ROC: " + ", ".join(f"{name} {area(np.array(v), y):.4f}" for name, v in rows.items()))
    print(f"right at 0.5: {np.mean((p >= 0.5) == (y > 0.5)):.4f}; log loss {-np.mean(np.where(y > 0.5, np.log(p), np.log(1 - p))):.4f}, of the mean alone "
          f"{-(y.mean() * np.log(y.mean()) + (1 - y.mean()) * np.log(1 - y.mean())):.4f}")
    for name, t in (("threshold", threshold), ("even", 0.5)):
        print(f"stop at {t:.2f} ({name}): answer in %.4f of %.2f windows" % taken(judged, t))
    for k in (1, 2, 3, 4, 5, 6, 7, 8, 10):
        quoted = np.mean([a.quoted(a.order()[:k]) for a in questions])
        print(f"always {k}: answer in {np.mean([y[min(k, len(y)) - 1] for _, y in judged]):.4f}, of three quotes {quoted:.4f}")


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--questions", type=int, default=1200, help="questions of the label articles")
    parser.add_argument("--others", type=int, default=250, help="training questions of other kinds, with known answers")
    parser.add_argument("--checked", type=int, default=700, help="held-out questions: half to calibrate, half for figures")
    parser.add_argument("--combinations", type=int, default=0, help="random combinations drawn per question, as the paper has them; 30 did worse")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float, default=0.002)
    parser.add_argument("--decay", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3, help="runs, of which the first is kept")
    parser.add_argument("--again", action="store_true", help="read the questions again")
    parser.add_argument("--smoke", action="store_true", help="few questions")
    args = parser.parse_args()
    if args.smoke:
        args.questions, args.others, args.checked, args.epochs, args.seeds = 30, 10, 30, 2, 1
    torch.set_num_threads(args.threads)
    train, held_out = collect(args)
    needed = [a for a in train if not a.alone]
    articles = np.random.default_rng(args.seed).permutation(sorted({a.article for a in held_out}))
    half = set(articles[: len(articles) // 2].tolist())
    calibration, dev = ([a for a in held_out if not a.alone and (a.article in half) == side] for side in (True, False))
    print(f"{len(train)} questions, {len(needed)} need a text; {np.mean([len(a.text) for a in train]):.1f} windows each")
    for seed in range(args.seed + args.seeds - 1, args.seed - 1, -1):
        model, number, share = fit(needed, args, seed)
        y = [area(*(np.concatenate([part[i] for part in probabilities(model, part_of)]) for i in (0, 1))) for part_of in (calibration, dev)]
        print(f"seed {seed}: {number} samples, {share:.3f} enough; area under ROC {y[0]:.4f} on the calibration half, {y[1]:.4f} on dev", flush=True)
    threshold = calibrate(probabilities(model, calibration))
    figures(model, dev, threshold)
    torch.save({"model": model.state_dict(), "threshold": threshold}, args.work / "detector.pt")


if __name__ == "__main__":
    main()
