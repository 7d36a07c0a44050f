"""Cuts token runs out of the prepared corpus and packs them into the flat form the model takes."""

import numpy as np
import torch

import corpora


class Corpus:
    """The prepared arrays, with all tokens in one array: passages, then questions, then titles."""

    def __init__(self, work):
        data = np.load(corpora.intermediate(work, "corpus.npz", "prepare"))
        self.vocabulary = int(data["vocabulary"])
        self.flat = np.concatenate([data["tokens"], data["questions"], data["titles"]])
        self.sentences = data["sentences"]  # token offsets of sentences
        self.passages = data["passages"]  # sentence offsets of passages
        self.passage_tokens = self.sentences[self.passages]
        self.questions = data["question_offsets"] + len(data["tokens"])
        self.titles = data["title_offsets"] + len(data["tokens"]) + len(data["questions"])
        self.article = data["article"]
        self.source = data["sources"][data["source"]]
        self.question_passage = data["question_passage"]
        self.question_sentence = data["question_sentence"]
        kept_out = np.array(sorted(corpora.held_out(1 + int(self.article.max()))))
        self.is_held_out = np.isin(self.article, kept_out)

    def question(self, numbers):
        return self.questions[numbers], self.questions[numbers + 1]

    def passage(self, numbers, limit=512):
        start = self.passage_tokens[numbers]
        return start, np.minimum(self.passage_tokens[numbers + 1], start + limit)

    def title(self, numbers):
        return self.titles[numbers], self.titles[numbers + 1]


def gather(flat, starts, ends, rows):
    """The tokens of the runs [start, end) and the row each belongs to."""
    lengths = ends - starts
    total = int(lengths.sum())
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)
    index = np.arange(total) - first + np.repeat(starts, lengths)
    return flat[index], np.repeat(rows, lengths)


def pack(tokens, rows, count, vocabulary, power):
    """A bag per row: distinct ids with weight (times seen) ** power, as embedding_bag takes them."""
    keys, seen = np.unique(rows.astype(np.int64) * vocabulary + tokens, return_counts=True)
    ids = keys % vocabulary
    offsets = np.searchsorted(keys // vocabulary, np.arange(count))
    weights = seen.astype(np.float32) ** power
    return torch.from_numpy(ids), torch.from_numpy(offsets), torch.from_numpy(weights)


def runs(corpus, starts, ends, power):
    """Packed bags of plain runs, one row each."""
    tokens, rows = gather(corpus.flat, starts, ends, np.arange(len(starts)))
    return pack(tokens, rows, len(starts), corpus.vocabulary, power)
