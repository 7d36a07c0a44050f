"""SAGE's segmentation head and the sentence pairs that it learns from.

The last CUES entries of a sentence vector are made for the head (see segmenter.py): they
are small beside the others, so that retrieval does not notice them, and the head brings
them back to unit length first.
"""

import numpy as np
import torch

FEATURES = {"x1,x2": (1, 0, 0), "x1,x2,x1-x2": (1, 1, 0), "x1,x2,x1*x2": (1, 0, 1), "all": (1, 1, 1)}

CUES = 8


class Segmenter(torch.nn.Module):
    """Scores in [0, 1] from pairs of sentence vectors; near 1 means keep together."""

    def __init__(self, dimension=256, projected=64, hidden=64, features="all"):
        super().__init__()
        self.sides, self.difference, self.product = FEATURES[features]
        width = projected * (2 * self.sides + self.difference + self.product)
        self.projection = torch.nn.Linear(dimension, projected)
        self.blur = torch.nn.Dropout(0.2)
        self.drop = torch.nn.Dropout(0.3)
        self.first = torch.nn.Linear(width, hidden)
        self.second = torch.nn.Linear(hidden, hidden)
        self.last = torch.nn.Linear(hidden, 1)
        # The cosine of both sides, from which training starts: the product feature before it is projected.
        self.nearness = torch.nn.Parameter(torch.tensor(8.0)) if self.product else None

    def side(self, vectors):
        content, cues = vectors[:, :-CUES], vectors[:, -CUES:]
        cues = cues / cues.norm(dim=1, keepdim=True).clamp(min=1e-4)
        return self.project(content, cues)

    def project(self, content, cues):
        # Unit vectors have small entries; the layers learn better from entries near 1.
        scaled = torch.cat([content * content.shape[1] ** 0.5, cues * CUES**0.5], dim=1)
        return torch.tanh(self.projection(self.blur(scaled)))

    def forward(self, left, right):
        logit = self.reason(self.side(left), self.side(right))
        if self.product:
            logit = logit + self.nearness * (left * right).sum(dim=1)
        return torch.sigmoid(logit)

    def judge(self, x1, x2):
        return torch.sigmoid(self.reason(x1, x2))

    def reason(self, x1, x2):
        parts = [x1, x2]
        if self.difference:
            parts.append(x1 - x2)
        if self.product:
            parts.append(x1 * x2)
        hidden = torch.relu(self.first(self.drop(torch.cat(parts, dim=1))))
        hidden = torch.relu(self.second(self.drop(hidden)))
        return self.last(hidden).squeeze(1)


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


def further(corpus, left, right, cuts, rng):
    """More pairs of label 0: last sentences with first sentences of other paragraphs of their article.

    cuts are the numbers of the label 0 pairs; the right sides change places inside each article.
    """
    passage = np.searchsorted(corpus.passages, left[cuts], side="right") - 1
    article = corpus.article[passage]
    drawn = np.empty(len(cuts), np.int64)
    drawn[np.argsort(article, kind="stable")] = right[cuts][np.lexsort((rng.random(len(cuts)), article))]
    return drawn


class Sampler:
    """Balanced pairs of the training or of the held-out articles."""

    def __init__(self, corpus, held_out):
        self.corpus = corpus
        self.left, self.right, label, held = pairs(corpus)
        self.together = np.flatnonzero((held == held_out) & (label == 1))
        self.apart = np.flatnonzero((held == held_out) & (label == 0))

    def neighbours(self, rng):
        """(left, right, label): every cut between adjacent paragraphs and as many pairs from inside paragraphs."""
        kept = rng.permutation(self.together)[: len(self.apart)]
        return self.mixed(rng, kept, self.left[self.apart], self.right[self.apart])

    def epoch(self, rng):
        """The same with twice the pairs: each last sentence is also paired with a further paragraph's first one."""
        drawn = further(self.corpus, self.left, self.right, self.apart, rng)
        kept = rng.permutation(self.together)[: 2 * len(self.apart)]
        cut_right = np.concatenate([self.right[self.apart], drawn])
        return self.mixed(rng, kept, np.tile(self.left[self.apart], 2), cut_right)

    def mixed(self, rng, kept, cut_left, cut_right):
        left = np.concatenate([self.left[kept], cut_left])
        right = np.concatenate([self.right[kept], cut_right])
        label = np.zeros(len(left), np.float32)
        label[: len(kept)] = 1
        order = rng.permutation(len(left))
        return left[order], right[order], label[order]
