"""Trains SAGE's segmentation head (algorithm 1) on sentence vectors of the finished encoder.

Label 1: consecutive sentences of one paragraph; 0: the last and first sentence of
adjacent paragraphs of one article. Loss: mean squared error. The retrieval encoder stays
as it is; a learnt projection in front of the features does what end-to-end training of
the embedder does in the paper.
"""

import argparse
import sys
import time

import numpy as np
import torch

import batches
import corpora
import encoder

CHECKPOINT = corpora.WORK / "segmenter.pt"
FEATURES = {"x1,x2": (1, 0, 0), "x1,x2,x1-x2": (1, 1, 0), "x1,x2,x1*x2": (1, 0, 1), "all": (1, 1, 1)}
SS = 0.55  # the paper's threshold on the paper's own model


class Segmenter(torch.nn.Module):
    """Scores in [0, 1] from pairs of sentence vectors; near 1 means keep together."""

    def __init__(self, dimension=256, projected=256, hidden=256, features="all"):
        super().__init__()
        self.sides, self.difference, self.product = FEATURES[features]
        width = projected * (2 * self.sides + self.difference + self.product)
        self.projection = torch.nn.Linear(dimension, projected)
        self.drop = torch.nn.Dropout(0.2)
        self.first = torch.nn.Linear(width, hidden)
        self.second = torch.nn.Linear(hidden, 64)
        self.last = torch.nn.Linear(64, 1)
        # Unit vectors have entries near 1/16; the layers learn better from entries near 1.
        self.gain = dimension**0.5

    def forward(self, left, right):
        x1 = torch.tanh(self.projection(left * self.gain))
        x2 = torch.tanh(self.projection(right * self.gain))
        parts = [x1, x2]
        if self.difference:
            parts.append(x1 - x2)
        if self.product:
            parts.append(x1 * x2)
        hidden = torch.relu(self.first(self.drop(torch.cat(parts, dim=1))))
        hidden = torch.relu(self.second(self.drop(hidden)))
        return torch.sigmoid(self.last(hidden)).squeeze(1)


def load():
    """The trained head and its threshold."""
    if not CHECKPOINT.exists():
        sys.exit(f"{CHECKPOINT} is missing: run `make segmenter` first")
    state = torch.load(CHECKPOINT, map_location="cpu")
    model = Segmenter()
    model.load_state_dict(state["model"])
    return model.eval(), round(state["threshold"], 4)


def pairs(corpus):
    """(left sentence, right sentence, label, held out) for every neighbouring pair of SQuAD train."""
    left, right, label, held = [], [], [], []
    passages = np.flatnonzero(corpus.source == "squad")
    for number in passages:
        first, last = corpus.passages[number], corpus.passages[number + 1]
        for i in range(first, last - 1):
            left.append(i)
            right.append(i + 1)
            label.append(1)
            held.append(corpus.is_held_out[number])
        follows = number + 1 < len(corpus.article) and corpus.article[number + 1] == corpus.article[number]
        if follows and last > first:
            left.append(last - 1)
            right.append(last)
            label.append(0)
            held.append(corpus.is_held_out[number])
    return np.array(left), np.array(right), np.array(label, np.float32), np.array(held)


def balanced(numbers, labels, rng):
    """As many pairs of either label: the rarer label's pairs and a fresh draw of the other's."""
    ones, zeros = numbers[labels[numbers] == 1], numbers[labels[numbers] == 0]
    size = min(len(ones), len(zeros))
    return rng.permutation(np.concatenate([rng.permutation(ones)[:size], rng.permutation(zeros)[:size]]))


def scores(model, vectors, left, right):
    model.eval()
    with torch.no_grad():
        return torch.cat(
            [model(vectors[left[i : i + 8192]], vectors[right[i : i + 8192]]) for i in range(0, len(left), 8192)]
        ).cpu()


def fit(vectors, data, features, args, report=print):
    left, right, label, held = data
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    model = Segmenter(vectors.shape[1], features=features).to(vectors.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate, weight_decay=args.decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda e: 1 - e / args.epochs)
    train = np.flatnonzero(~held)
    test = balanced(np.flatnonzero(held), label, np.random.default_rng(0))
    target = torch.from_numpy(label).to(vectors.device)
    for epoch in range(args.epochs):
        model.train()
        started, order, losses = time.time(), balanced(train, label, rng), []
        for i in range(0, len(order), args.batch):
            picked = order[i : i + args.batch]
            loss = torch.nn.functional.mse_loss(model(vectors[left[picked]], vectors[right[picked]]), target[picked])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
        score = scores(model, vectors, left[test], right[test]).numpy()
        accuracy = ((score >= 0.5) == (label[test] == 1)).mean()
        report(
            f"{features}: epoch {epoch + 1}, {len(order)} pairs, loss {np.mean(losses):.4f}, "
            f"pair accuracy {accuracy:.4f} on {len(test)} held-out pairs, {time.time() - started:.0f} s"
        )
    return model, score, label[test], accuracy


def calibrate(score, label):
    """The score at which keeping and cutting are equally likely to be right as at ss on a calibrated score.

    Isotonic regression of label on score (pool adjacent violators) gives the share of
    pairs that belong together at each score; the threshold is where it passes SS.
    """
    order = np.argsort(score)
    blocks = []
    for value in label[order]:
        blocks.append([float(value), 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            total, size = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += size
    at = 0
    for total, size in blocks:
        if total / size >= SS:
            break
        at += size
    ranked = score[order]
    return float((ranked[max(at - 1, 0)] + ranked[min(at, len(ranked) - 1)]) / 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--decay", type=float, default=0.05)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ablation", action="store_true", help="also train with fewer features (SAGE, table X); changes nothing")
    parser.add_argument("--smoke", action="store_true", help="one epoch")
    args = parser.parse_args()
    if args.smoke:
        args.epochs = 1
    torch.set_num_threads(args.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    corpus = batches.Corpus()
    embedder, settings = encoder.load(corpus.vocabulary)
    data = pairs(corpus)
    starts = corpus.sentences[:-1]
    ends = np.minimum(corpus.sentences[1:], starts + 512)
    vectors = encoder.encode_all(embedder.to(device), corpus, starts, ends, settings["power"])
    if args.ablation:
        for features in FEATURES:
            accuracy = fit(vectors, data, features, args, report=lambda line: None)[3]
            print(f"{features}: pair accuracy {accuracy:.4f}", flush=True)
        return
    model, score, label, accuracy = fit(vectors, data, "all", args, report=lambda line: print(line, flush=True))
    threshold = calibrate(score, label)
    kept = score >= threshold
    print(
        f"threshold {threshold:.4f} stands for ss = {SS}: accuracy there {(kept == (label == 1)).mean():.4f}, "
        f"{100 * kept.mean():.1f} % kept together"
    )
    torch.save({"model": model.state_dict(), "threshold": threshold, "accuracy": float(accuracy)}, CHECKPOINT)


if __name__ == "__main__":
    main()
