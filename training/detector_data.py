"""What the detector is trained on: windows of a question's best texts, their two scores, and what our reader makes of them.

A question's ten best texts of BM25 are cut into windows of three sentences, stride one, as FIT-RAG's token reducer cuts
them, and each is read by the finished pair model. FIT-RAG asks a language model whether it answers right from the
windows; here our own reader is asked: they are enough when it finds the answer in one of them, that is, the answer's words are
in the sentence that it would quote from that window. That is what a language model gets to see, not what it makes of it.
(The answers that internal/llm's reader gives would be no label: its first quote is from the first window nearly always,
so that a second window would never help. What its three quotes give is printed beside.)
"""

from dataclasses import dataclass

import numpy as np
import torch

from pair_data import HELD_OUT, LABEL, TRAIN, pad
from pair_labels import RIGHT
from pair_measure import best_spans, overlap

WINDOWS = 10  # that the detector sees at most
SENTENCES = 3  # of a window
MOST = 64  # windows of a text
SPAN_WEIGHT, RANK_LOGIT, NEAR_LOGIT, QUOTES = 0.1, 1.0, 1.5, 3  # internal/llm's reader.go
LONGEST = 384  # tokens of a window with its title


@dataclass
class Asked:
    """A question with all its windows."""

    article: int
    tokens: int  # of the question
    alone: bool  # the reader answers right from the question itself
    text: np.ndarray  # [windows], which of the ten texts
    scores: np.ndarray  # [windows, 2], has_answer and llm_prefer
    span: np.ndarray  # [windows], the best span's score
    right: np.ndarray  # [windows], its sentence holds the answer

    def order(self):
        """The windows that stand for their texts (the best of each), best sum of scores first."""
        total = self.scores.sum(1)
        best = [np.flatnonzero(self.text == t)[total[self.text == t].argmax()] for t in np.unique(self.text)]
        return self.sorted(np.array(best, int))

    def sorted(self, windows):
        return windows[np.argsort(-self.scores[windows].sum(1), kind="stable")]

    def enough(self, windows):
        """Whether the reader finds the answer in one of these windows."""
        return bool(self.right[windows].any())

    def quoted(self, windows):
        """Whether the answer that internal/llm's reader gives from these windows, in order, holds the right one."""
        has = self.scores[windows, 0]
        value = np.where(has >= 0, has + SPAN_WEIGHT * self.span[windows] + RANK_LOGIT / np.arange(1, len(windows) + 1), -np.inf)
        best = np.argsort(-value, kind="stable")[:QUOTES]
        return bool((self.right[windows][best] & (value[best] > -np.inf) & (value[best] >= value.max() - NEAR_LOGIT)).any())

    def features(self, windows):
        """The detector's input: pairs of scores, padded with zeros."""
        out = np.zeros((WINDOWS, 2), np.float32)
        out[: len(windows)] = self.scores[windows[:WINDOWS]]
        return out.ravel()


def cuts(data, text):
    """(first token, token behind the last) of each window, and of the text's sentences."""
    stops = data.sentences[data.sentences_offsets[text] : data.sentences_offsets[text + 1]]
    ends = np.append(stops[1:], data.texts_offsets[text + 1] - data.texts_offsets[text])
    last = max(0, len(stops) - SENTENCES)
    return [(int(stops[i]), int(ends[min(i + SENTENCES, len(stops)) - 1])) for i in range(last + 1)][:MOST], list(zip(stops, ends))


@torch.no_grad()
def ask(model, data, holder, q):
    """One question, read; None when there is nothing to read."""
    listed = data.candidates[q][:WINDOWS]
    listed = listed[listed >= 0]
    answer = data.answers[data.answers_offsets[q] : data.answers_offsets[q + 1]]
    question = data.question(q)
    if not len(listed) or not len(answer) or not len(question):
        return None
    rows, heads, places = [question], [0], [None]
    for number, text in enumerate(listed):
        head, body = data.heading(text), data.body(text)
        windows, sentences = cuts(data, text)
        for begin, end in windows:
            row = np.concatenate([head, body[begin:end]])[:LONGEST]
            if len(row) == len(head):
                continue
            rows.append(row)
            heads.append(len(head))
            places.append((number, text, begin, sentences))
    scores, spans, found = np.zeros((len(rows), 2), np.float32), np.zeros(len(rows), np.float32), [None] * len(rows)
    order = np.argsort([len(r) for r in rows], kind="stable")
    for part in np.array_split(order, max(1, len(order) // 16)):
        text_ids, text_mask = pad([rows[i] for i in part])
        question_ids, question_mask = pad([question])
        n = len(part)
        parts = model.read(question_ids.expand(n, -1), question_mask.expand(n, -1), text_ids, text_mask)
        before = torch.arange(text_ids.shape[1]).unsqueeze(0) < torch.tensor([heads[i] for i in part]).unsqueeze(1)
        first, last, value = best_spans(parts["start"], parts["end"], before)
        scores[part], spans[part] = parts["labels"].numpy(), value.numpy()
        for i, f, l in zip(part, first.tolist(), last.tolist()):
            found[i] = (f, l)
    alone = overlap(question[found[0][0] : found[0][1] + 1].tolist(), answer.tolist()) >= RIGHT
    right = []
    for (first, last), head, (_, text, begin, sentences) in zip(found[1:], heads[1:], places[1:]):
        first, last = first - head + begin, last - head + begin
        around = [(b, e) for b, e in sentences if b <= last and first < e]
        quote = data.body(text)[min(b for b, _ in around) : max(e for _, e in around)] if around else data.body(text)[:0]
        right.append(holder.find(quote.astype(np.uint16), answer.astype(np.uint16)) >= 0)
    return Asked(
        int(data.article[data.gold[q]]), len(question), alone, np.array([p[0] for p in places[1:]]), scores[1:], spans[1:], np.array(right)
    )


def chosen(data, questions, others, checked, seed):
    """Question numbers for training, and of held-out articles for figures and calibration.

    SQuAD's training questions are left out as pair_labels.py leaves them out: the reader has seen their answers.
    """
    rng = np.random.default_rng(seed)
    train = rng.permutation(data.asked(LABEL, spans_only=True))[:questions]
    real = np.flatnonzero((data.split[data.gold] == TRAIN) & (data.start >= 0) & (data.article[data.gold] < 0))
    held_out = rng.permutation(data.asked(HELD_OUT, spans_only=True))[:checked]
    return np.concatenate([train, rng.permutation(real)[:others]]), held_out


def combinations(asked, rng, many):
    """Random combinations of a question's windows, those on the skyline of their mean scores, without near repeats.

    FIT-RAG scores a combination's whole text; the mean of its windows' scores stands for that here.
    """
    drawn, kept = [], []
    for _ in range(many):
        size = int(rng.integers(1, min(WINDOWS, len(asked.text)) + 1))
        windows = frozenset(rng.choice(len(asked.text), size, replace=False).tolist())
        if all(len(windows & other) / len(windows | other) < 0.7 for other in drawn):
            drawn.append(windows)
    means = np.array([asked.scores[list(windows)].mean(0) for windows in drawn])
    for windows, mean in zip(drawn, means):
        if not ((means >= mean).all(1) & (means > mean).any(1)).any():
            kept.append(asked.sorted(np.array(sorted(windows))))
    return kept
