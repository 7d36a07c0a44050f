"""Figures of the pair model: reranking, area under ROC, exact match and F1 of spans."""

import numpy as np
import torch

LONGEST_ANSWER = 24


def area(scores, labels):
    """Area under the ROC curve; ties count half."""
    scores, labels = np.asarray(scores), np.asarray(labels).astype(bool)
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    right, wrong = labels.sum(), (~labels).sum()
    if not right or not wrong:
        return float("nan")
    return (rank[labels].sum() - right * (right + 1) / 2) / (right * wrong)


def best_spans(start, end, forbidden=None):
    """(first, last, score) of the best span of each row; forbidden: a mask of tokens that may not be in it."""
    if forbidden is not None:
        start, end = start.masked_fill(forbidden, -2e4), end.masked_fill(forbidden, -2e4)
    both = start.unsqueeze(2) + end.unsqueeze(1)
    width = start.shape[1]
    allowed = torch.ones(width, width).triu() - torch.ones(width, width).triu(LONGEST_ANSWER)
    both = both.masked_fill(allowed == 0, -1e9).flatten(1)
    score, place = both.max(1)
    return torch.div(place, width, rounding_mode="floor"), place % width, score


def overlap(found, wanted):
    """F1 of two bags of tokens."""
    left = list(wanted)
    common = 0
    for token in found:
        if token in left:
            left.remove(token)
            common += 1
    return 2 * common / (len(found) + len(wanted)) if common else 0.0


def hits(scores, gold, depth=10):
    """(hit@1, nDCG@10) of lists of scores, where gold is the place of the right one, -1 when it is not listed."""
    first, gain = [], []
    for values, right in zip(scores, gold):
        rank = int((values > values[right]).sum()) if right >= 0 else depth
        first.append(rank == 0)
        gain.append(1 / np.log2(2 + rank) if rank < depth else 0)
    return np.mean(first), np.mean(gain)


def mixed(relevance, lexical, weight):
    """Relevance plus weight times the BM25 score relative to the list's best."""
    return relevance + weight * lexical / max(lexical.max(), 1e-9)


def score(model, data, q, texts, label):
    """Relevance and has_answer of texts, run with others of like length."""
    order = np.argsort([data.texts_offsets[t + 1] - data.texts_offsets[t] for t in texts], kind="stable")
    relevance, holds = np.zeros(len(texts), np.float32), np.zeros(len(texts), np.float32)
    for part in np.array_split(order, -(-len(order) // 17)):
        parts = model.read(*data.plain_batch(q, texts[part]))
        relevance[part] = parts["relevance"][:, 0].numpy()
        holds[part] = (parts["auxiliary"] if label == "auxiliary" else parts["labels"])[:, 0].numpy()
    return relevance, holds


@torch.no_grad()
def rank(model, data, asked, depth, label):
    """For every question: relevance, has_answer logits and BM25 scores of its candidates, the gold one's place, and labels."""
    model.eval()
    out = []
    for q in asked:
        texts = data.candidates[q][:depth]
        texts = texts[texts >= 0]
        if not len(texts):
            continue
        relevance, holds = score(model, data, q, texts, label)
        right = np.flatnonzero(texts == data.gold[q])
        place = int(right[0]) if len(right) else -1
        labels = data.holds[q][: len(texts)].copy()
        if place >= 0:
            labels[place] = 1
        out.append((relevance, holds, data.scores[q][: len(texts)], place, labels))
    return out


@torch.no_grad()
def read(model, data, asked):
    """(exact match, F1) over tokens of the answers found in the gold texts."""
    model.eval()
    exact, f1 = [], []
    for q in asked:
        if data.start[q] < 0:
            continue
        text = int(data.gold[q])
        batch = data.plain_batch(q, [text])
        head = len(data.heading(text))
        parts = model.read(*batch)
        before = torch.arange(batch[2].shape[1]).unsqueeze(0) < head
        first, last, _ = best_spans(parts["start"], parts["end"], before)
        found = batch[2][0, first : last + 1].tolist()
        wanted = data.body(text)[data.start[q] : data.end[q] + 1].tolist()
        exact.append(found == wanted)
        f1.append(overlap(found, wanted))
    return np.mean(exact), np.mean(f1)


def measure(model, data, asked, depth, label="labels"):
    ranked = rank(model, data, asked, depth, label)
    gold = [r[3] for r in ranked]
    before, alone = hits([r[2] for r in ranked], gold), hits([r[0] for r in ranked], gold)
    both = {w: hits([mixed(r[0], r[2], w) for r in ranked], gold) for w in (2, 5, 10, 15)}
    best = max(both, key=lambda w: both[w][0])
    auc = area(np.concatenate([r[1] for r in ranked]), np.concatenate([r[4] for r in ranked]))
    exact, f1 = read(model, data, asked)
    return (
        f"BM25 hit@1 {before[0]:.4f} nDCG@10 {before[1]:.4f}; pair {alone[0]:.4f} {alone[1]:.4f}; "
        f"with {best} BM25 {both[best][0]:.4f} {both[best][1]:.4f}; has_answer AUC {auc:.4f}; EM {exact:.3f} F1 {f1:.3f}"
    )
