"""What the segmenter sees of a text: the sentences before and behind a place, and the texts that it learns places from.

SAGE's model sees two sentences. Two single sentences of static vectors say little, so each
side is a mean of up to WIDTH sentence vectors, each DECAY times as heavy as the one nearer
to the place, brought to unit length; every sentence is still embedded once. The model
server does the same (internal/inference), from the manifest's `window` and `decay`.

A text is (sentence numbers, boundaries): is there a boundary behind each sentence but the last?
"""

import numpy as np
import torch
import torch.nn.functional as F

WIDTH = 4
DECAY = 0.8
SECTION = 1000  # tokens of a section, which is what ingestion cuts


def articles(corpus, held_out):
    """Sections of SQuAD's articles, of whole paragraphs; boundaries are between paragraphs, as often as they are."""
    out = []
    for article in np.unique(corpus.article[corpus.article >= 0]):
        passages = np.flatnonzero(corpus.article == article)
        if corpus.is_held_out[passages[0]] != held_out:
            continue
        numbers, bounds, size = [], [], 0
        for passage in passages:
            first, last = corpus.passages[passage], corpus.passages[passage + 1]
            tokens = corpus.sentences[last] - corpus.sentences[first]
            if numbers and size + tokens > SECTION:
                out.append((np.array(numbers), np.array(bounds[:-1], bool)))
                numbers, bounds, size = [], [], 0
            numbers.extend(range(first, last))
            bounds.extend([False] * (last - first - 1) + [True] * int(last > first))
            size += tokens
        if numbers:
            out.append((np.array(numbers), np.array(bounds[:-1], bool)))
    return [t for t in out if len(t[0]) > 1]


def joined(corpus, held_out, sources, count, rng, pieces=10, least=3, most=11):
    """Texts put together from beginnings of passages of different documents, in the manner of Choi (2000).

    A piece may run on into its article's next paragraph, which is no boundary here.
    """
    pool = np.flatnonzero(np.isin(corpus.source, sources) & (corpus.is_held_out == held_out))
    out = []
    while len(out) < count:
        numbers, bounds = [], []
        for passage in rng.choice(pool, pieces):
            first, length = corpus.passages[passage], rng.integers(least, most + 1)
            while follows(corpus, passage) and corpus.passages[passage + 1] < first + length:
                passage += 1
            last = min(first + length, corpus.passages[passage + 1])
            if last - first >= least:
                numbers.extend(range(first, last))
                bounds.extend([False] * (last - first - 1) + [True])
        if sum(bounds) > 1:
            out.append((np.array(numbers), np.array(bounds[:-1], bool)))
    return out


def follows(corpus, passage):
    """Whether the next passage is of the same article."""
    return corpus.article[passage] >= 0 and passage + 1 < len(corpus.article) and corpus.article[passage] == corpus.article[passage + 1]


def sides(vectors, text, width=WIDTH, decay=DECAY):
    """(left, right) of every place of a text, [sentences - 1, d], of unit length or zero."""
    own, places = vectors[text[0]], len(text[0]) - 1
    left, right = torch.zeros(places, own.shape[1]), torch.zeros(places, own.shape[1])
    for far in range(min(width, places)):
        left[far:] += decay**far * own[: places - far]
        right[: places - far] += decay**far * own[1 + far :]
    return F.normalize(left, dim=1), F.normalize(right, dim=1)


def places(corpus, vectors, texts, width=WIDTH, decay=DECAY):
    """(left, right, label) of all places; where a piece of `joined` runs on into another paragraph there is no telling, and no place."""
    parts = [sides(vectors, t, width, decay) for t in texts]
    label = np.concatenate([~bounds for _, bounds in texts]).astype(np.float32)
    before = np.concatenate([numbers[:-1] for numbers, _ in texts])
    known = torch.from_numpy(~(np.isin(before + 1, corpus.passages) & (label == 1)))
    left, right = (torch.cat([p[side] for p in parts])[known] for side in (0, 1))
    return left, right, torch.from_numpy(label)[known]


def valleys(score):
    """Where no neighbour scores lower: of places in a row with one score, the last."""
    around = np.pad(score, 1, constant_values=np.inf)
    return (score <= around[:-2]) & (score < around[2:])


def closeness(texts, cuts):
    """(Pk, WindowDiff, segments found per segment there is), means over the texts that have a boundary."""
    pk, difference, found, there = [], [], 0, 0
    for (numbers, bounds), cut in zip(texts, cuts):
        if not bounds.any():
            continue
        k = max(1, round(len(numbers) / (bounds.sum() + 1) / 2))
        real, ours = (np.concatenate([[0], np.cumsum(b)]) for b in (bounds, cut))
        real, ours = real[k:] - real[:-k], ours[k:] - ours[:-k]
        pk.append(((real > 0) != (ours > 0)).mean())
        difference.append((real != ours).mean())
        found, there = found + 1 + cut.sum(), there + 1 + bounds.sum()
    return np.mean(pk), np.mean(difference), found / there
