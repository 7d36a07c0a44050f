"""Batches of (question, text) rows out of work/pair.npz."""

import numpy as np
import torch

import bm25
import corpora
import wordpiece
from pair_prepare import HELD_OUT, KINDS, LABEL, TRAIN  # noqa: F401 - the names of the splits belong to the data

QUESTION_TOKENS, TEXT_TOKENS = 64, 384


class Data:
    def __init__(self, work, tokenizer):
        data = np.load(corpora.intermediate(work, "pair.npz", "pair-prepare"))
        for name in data.files:
            setattr(self, name, data[name])
        self.vocabulary = list(tokenizer.ids)
        self.inner = np.array([piece.startswith(wordpiece.PREFIX) and len(piece) > 2 for piece in self.vocabulary])
        self.seen = np.zeros(len(self.vocabulary), np.int64)  # texts that hold a token
        for text in range(len(self.kind)):
            self.seen[np.unique(self.body(text))] += 1
        self.rare = len(self.kind) // 50
        common = [tokenizer.ids[w] for w in bm25.STOP if w in tokenizer.ids] + [tokenizer.ids["?"]]
        asking = [tokenizer.ids[w] for w in bm25.ASKING if w in tokenizer.ids]
        self.is_common = np.zeros(len(self.vocabulary), bool)
        self.is_common[common] = True
        self.is_asking = np.zeros(len(self.vocabulary), bool)
        self.is_asking[asking] = True

    def find_like(self, vectors, stem):
        """The words most like each word, by their vectors, but for its nearest (a synonym, most often) and forms of its own."""
        whole = np.flatnonzero((self.seen > 3) & ~self.inner & np.array([piece.isalnum() for piece in self.vocabulary]))
        vectors, stems = torch.from_numpy(vectors[whole]), np.array([stem(self.vocabulary[i]) for i in whole])
        self.like = np.full((len(self.vocabulary), 10), -1)
        for first in range(0, len(whole), 1024):
            for row, order in enumerate((vectors[first : first + 1024] @ vectors.T).topk(16).indices.numpy()):
                kept = [j for j in order if stems[j] != stems[first + row]][2:12]
                self.like[whole[first + row], : len(kept)] = whole[kept]

    def asked(self, split, spans_only=False):
        keep = self.split[self.gold] == split
        return np.flatnonzero(keep & (self.start >= 0)) if spans_only else np.flatnonzero(keep)

    def with_fewer_medical(self, asked, share, seed):
        """The questions, with a share of the medical ones."""
        medical = self.kind[self.gold[asked]] == sorted(set(KINDS.values())).index("medquad")
        return asked[~medical | (np.random.default_rng(seed).random(len(asked)) < share)]

    def body(self, text):
        return self.texts[self.texts_offsets[text] : self.texts_offsets[text + 1]]

    def title(self, text):
        return self.titles[self.titles_offsets[text] : self.titles_offsets[text + 1]][:32]

    def heading(self, text):
        """The title, unless the text begins with it."""
        title = self.title(text)
        return title[:0] if np.array_equal(title, self.body(text)[: len(title)]) else title

    def question(self, number):
        return self.questions[self.questions_offsets[number] : self.questions_offsets[number + 1]][:QUESTION_TOKENS]

    def frequency(self):
        """Training texts that hold each token, and the number of texts."""
        seen, kept = np.zeros(len(self.vocabulary), np.int64), np.flatnonzero(self.split != HELD_OUT)
        for text in kept:
            seen[np.unique(self.body(text))] += 1
        return seen, len(kept)

    def thin(self, question, rng):
        """The question as keywords: most of its common words left out."""
        common = self.is_common[question]
        drop = common & (rng.random(len(question)) < np.where(self.is_asking[question], 0.5, 0.9))
        return question if drop.all() else question[~drop]

    def window(self, text, room, rng, short, around=-1):
        """A run [from, to) of whole sentences, at most `room` tokens: all of the text, or a part that holds `around`."""
        stops = self.sentences[self.sentences_offsets[text] : self.sentences_offsets[text + 1]]
        length = self.texts_offsets[text + 1] - self.texts_offsets[text]
        if length <= room and not short:
            return 0, length
        at = int(np.searchsorted(stops, around, "right")) - 1 if around >= 0 else rng.integers(len(stops))
        most = rng.integers(1, 6) if short else len(stops)
        first = last = at  # grown to both sides while there is room
        ends = np.append(stops[1:], length)
        while last - first + 1 < most:
            ways = []
            if first > 0 and ends[last] - stops[first - 1] <= room:
                ways.append(-1)
            if last + 1 < len(stops) and ends[last + 1] - stops[first] <= room:
                ways.append(1)
            if not ways:
                break
            if rng.choice(ways) < 0:
                first -= 1
            else:
                last += 1
        begin, end = int(stops[first]), int(ends[last])
        if end - begin > room:  # one long sentence
            if around >= 0:
                begin = max(begin, min(around - room // 2, end - room))
            end = begin + room
        return begin, end

    def row(self, text, titled, cap, rng=None, short=False, span=(-1, -1)):
        """(ids, span): title and text or the text alone, and the place of the span in it (-1, -1 when it is cut off).

        This is the form "title\\ntext" that Sluice gives its models; tokens do not show the line end.
        """
        head = self.heading(text) if titled else self.title(text)[:0]
        room = max(16, cap - len(head))
        if rng is None:
            begin, end = 0, room
        else:
            begin, end = self.window(text, room, rng, short, span[0])
        body = self.body(text)[begin:end]
        begin -= len(head)
        found = (span[0] - begin, span[1] - begin)
        ids = np.concatenate([head, body])
        inside = span[0] >= 0 and len(head) <= found[0] and found[1] < len(ids)
        return ids, found if inside else (-1, -1)

    def train_batch(self, asked, negatives, rng, settings):
        """Rows of a batch, grouped by question: the gold text first, then `negatives` hard ones."""
        questions, texts, spans, holds = [], [], [], []
        cap = rng.choice(settings.caps, p=settings.caps_share)
        for q in asked:
            question = self.question(q)
            if rng.random() < settings.keywords:
                question = self.thin(question, rng)
            titled = rng.random() < settings.titled
            short = rng.random() < settings.short
            rows = [(self.gold[q], 1, (self.start[q], self.end[q]))]
            listed = self.candidates[q]
            others = np.flatnonzero((listed >= 0) & (listed != self.gold[q]))
            if negatives and len(others) < negatives:
                others = np.append(others, np.full(negatives - len(others), -1))
            if negatives:
                share = 1 / (4.0 + np.arange(len(others)))
                for at in rng.choice(others, negatives, replace=False, p=share / share.sum()):
                    other = listed[at] if at >= 0 else rng.integers(len(self.kind))
                    rows.append((other, int(at >= 0 and self.holds[q, at]), (-1, -1)))
            for text, held, span in rows:
                ids, found = self.row(text, titled, cap, rng, short, span)
                questions.append(question)
                texts.append(ids)
                spans.append(found)
                holds.append(held)
        question_ids, question_mask = pad(questions)
        text_ids, text_mask = pad(texts)
        spans = torch.tensor(spans).long().view(len(asked), -1, 2)[:, 0]
        return question_ids, question_mask, text_ids, text_mask, spans, torch.tensor(holds).float()

    def word_runs(self, ids):
        """[(first, behind)] of the words of a text: a token with those that continue it."""
        starts = [i for i, token in enumerate(ids) if not self.inner[token]]
        return list(zip(starts, starts[1:] + [len(ids)]))

    def swap(self, q, rng):
        """The question with one of its rare words, which its text has, made a like one that the text does not have: a question that
        sounds answered and is not. None where there is no such word."""
        question, text = self.question(q), self.body(self.gold[q])
        rare = [a for a, b in self.word_runs(question) if b == a + 1 and self.seen[question[a]] < self.rare and question[a] in text]
        if not rare:
            return None
        at = rare[rng.integers(len(rare))]
        near = [other for other in self.like[question[at]] if other >= 0 and other not in text and other not in question]
        if not near:
            return None
        swapped = question.copy()
        swapped[at] = near[rng.integers(len(near))]
        return swapped

    def swapped_batch(self, asked, rng, cap):
        """Questions that swap gives, each with its gold text; None where there are none."""
        questions, texts = [], []
        for q in asked:
            question = self.swap(q, rng)
            if question is not None:
                questions.append(question)
                texts.append(self.row(self.gold[q], True, cap, rng, False, (self.start[q], self.end[q]))[0])
        if not questions:
            return None
        return (*pad(questions), *pad(texts))

    def plain_batch(self, question, texts, cap=TEXT_TOKENS):
        """One question with whole texts, as they are given at query time."""
        rows = [self.row(t, True, cap)[0] for t in texts]
        text_ids, text_mask = pad(rows)
        question_ids, question_mask = pad([self.question(question)])
        n = len(texts)
        return question_ids.expand(n, -1), question_mask.expand(n, -1), text_ids, text_mask


def pad(rows):
    width = max(1, max(len(r) for r in rows))
    ids = np.zeros((len(rows), width), np.int64)
    mask = np.zeros((len(rows), width), np.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
        mask[number, : len(row)] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)
