"""Trains the head of the segmenter on windows of frozen sentence vectors, and finds its threshold.

Half of what it learns from are articles, whose boundaries are between paragraphs; the other
half are texts put together from pieces of different documents. Places inside and between
are balanced in training; the threshold is found on running text, where boundaries are as rare
as they are (see calibrate).
"""

import json
import time

import numpy as np
import torch
import torch.nn.functional as F

import windows
from head import FEATURES, Segmenter

SS = 0.55  # the paper's threshold on the paper's own model
SOURCES = ["squad", "qed", "fairytale", "medquad"]


def examples(corpus, vectors, args):
    """(left, right, label) to train on."""
    rng = np.random.default_rng(0)
    texts = windows.joined(corpus, False, ["squad"], args.texts // 2, rng) + windows.joined(corpus, False, SOURCES, args.texts // 2, rng)
    return windows.places(corpus, vectors, windows.articles(corpus, False) + texts)


def held_out(corpus):
    """(articles, joined texts) of the held-out articles."""
    return windows.articles(corpus, True), windows.joined(corpus, True, ["squad"], 300, np.random.default_rng(5))


def train(data, args, features="all", seed=1, model=Segmenter):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    left, right, label = data
    apart, together = (np.flatnonzero(label.numpy() == kind) for kind in (0, 1))
    head = model(left.shape[1], features=features)
    optimizer = torch.optim.AdamW(head.parameters(), lr=args.rate, weight_decay=args.decay)
    started = time.time()
    for epoch in range(args.epochs):
        head.train()
        order, losses = rng.permutation(np.concatenate([apart, rng.choice(together, len(apart), replace=False)])), []
        for i in range(0, len(order), args.batch):
            optimizer.param_groups[0]["lr"] = args.rate * (1 - (epoch + i / len(order)) / args.epochs)
            picked = torch.from_numpy(order[i : i + args.batch])
            loss = F.mse_loss(head(left[picked], right[picked]), label[picked])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"{features}: epoch {epoch + 1}, {len(order)} places, loss {np.mean(losses):.4f}, {time.time() - started:.0f} s", flush=True)
    return head.eval()


def scores(head, vectors, texts):
    """The scores of every text."""
    with torch.no_grad():
        return [head(*windows.sides(vectors, t)).numpy() for t in texts]


def platt(score, label):
    """(a, b) of chance = sigmoid(a * logit(score) + b), by Newton's method (Platt scaling)."""
    score = np.clip(score.astype(np.float64), 1e-6, 1 - 1e-6)
    inputs = np.stack([np.log(score / (1 - score)), np.ones_like(score)], axis=1)
    line = np.array([1.0, 0.0])
    for _ in range(25):
        chance = 1 / (1 + np.exp(-inputs @ line))
        slope = inputs.T @ (inputs * (chance * (1 - chance))[:, None])
        line += np.linalg.solve(slope, inputs.T @ (label - chance))
    return line


def calibrate(score, label, chance=SS):
    """The score at which the chance of belonging together is `chance`, among places of these labels."""
    a, b = platt(score, label)
    return float(1 / (1 + np.exp(-(np.log(chance / (1 - chance)) - b) / a)))


def natural_threshold(found, texts):
    """The score at which a place that may be cut, a valley, belongs together with a chance of SS, at the rate of boundaries that articles have."""
    may = np.concatenate([windows.valleys(s) for s in found])
    label = np.concatenate([~bounds for _, bounds in texts])
    return calibrate(np.concatenate(found)[may], label[may].astype(np.float64))


def cut(found, threshold):
    return [(s < threshold) & windows.valleys(s) for s in found]


def area(score, label):
    """The chance that a place of label 1 scores above one of label 0 (area under the ROC curve)."""
    rank = np.argsort(np.argsort(score))
    return (rank[label == 1].mean() - rank[label == 0].mean()) / len(score) + 0.5


def balanced(found, texts, seed=0):
    """(score, label) of all boundaries and as many other places."""
    score, label = np.concatenate(found), np.concatenate([~bounds for _, bounds in texts])
    apart, together = np.flatnonzero(~label), np.flatnonzero(label)
    kept = np.concatenate([apart, np.random.default_rng(seed).permutation(together)[: len(apart)]])
    return score[kept], label[kept]


def measure(head, vectors, corpus, threshold=None):
    """Prints what the head finds in held-out texts; the threshold, found here unless given."""
    articles, joined = held_out(corpus)
    found = scores(head, vectors, articles)
    threshold = natural_threshold(found, articles) if threshold is None else threshold
    for name, texts, of in (("articles", articles, found), ("joined", joined, scores(head, vectors, joined))):
        score, label = balanced(of, texts)
        print(f"{name}: area {area(score, label):.4f}, boundaries {100 * np.concatenate([b for _, b in texts]).mean():.1f} % of the places")
        nowhere = [np.zeros(len(b), bool) for _, b in texts]
        for what, cuts in (
            (f"below {threshold:.4f}, lowest of its neighbours", cut(of, threshold)),
            (f"below {threshold:.4f}", [s < threshold for s in of]),
            ("nowhere", nowhere),
        ):
            print("  %s: Pk %.3f, WindowDiff %.3f, %.2f segments per segment there is" % (what, *windows.closeness(texts, cuts)))
    return threshold


def ablate(corpus, vectors, args):
    """SAGE's table X on windows, of the head that ships: every set of features, trained alike, with several seeds.

    Each run's figures are in work/ablation.json as soon as they are known; a run that is there is not done again.
    """
    path = args.work / "ablation.json"
    done = json.loads(path.read_text()) if path.exists() else {}
    data, (articles, joined) = examples(corpus, vectors, args), held_out(corpus)
    seeds = range(args.seed, args.seed + args.seeds)
    for seed in seeds:  # all sets with one seed first, so that a part says something
        for features in FEATURES:
            key = f"{features} windows seed {seed} epochs {args.epochs}"
            if key in done:
                continue
            head = train(data, args, features, seed)
            done[key] = []
            for texts in (articles, joined):
                score, label = balanced(scores(head, vectors, texts), texts)
                # The level of a head is no matter of its features: accuracy is at its best threshold.
                done[key] += [max(float(((score >= t) == label).mean()) for t in np.arange(0.05, 0.96, 0.01)), float(area(score, label))]
            path.with_suffix(".new").write_text(json.dumps(done, indent=1))
            path.with_suffix(".new").replace(path)
    print(f"balanced held-out places, mean and standard deviation of {args.seeds} seeds:")
    for features in FEATURES:
        runs = [done[f"{features} windows seed {seed} epochs {args.epochs}"] for seed in seeds]
        mean, spread = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=min(1, args.seeds - 1))
        print(
            f"{features:16} articles: accuracy {mean[0]:.4f} +- {spread[0]:.4f}, area {mean[1]:.4f} +- {spread[1]:.4f}; "
            f"joined: accuracy {mean[2]:.4f} +- {spread[2]:.4f}, area {mean[3]:.4f} +- {spread[3]:.4f}"
        )
