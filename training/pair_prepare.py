"""Turns the corpora into work/pair.npz: questions, texts, answer spans and BM25 candidates as arrays.

A question's candidates are the best texts of our BM25 (title and text) among the texts of its own kind. Questions of
the held-out articles see the whole pool, as at query time; the others see no text of those articles.
"""

import time

import numpy as np

import bm25
import corpora
import offsets
import sentences
import wordpiece
from prepare import Runs

# Further SQuAD train articles that the reader is not trained on: their questions give honest labels of what it answers.
LABEL_ARTICLES = 44
LABEL_SEED = 11
KINDS = {"squad": "encyclopedia", "qed": "encyclopedia", "fairytale": "fairytale", "qmsum": "qmsum", "medquad": "medquad"}
LONGEST = 1600  # characters of a text without answer spans; the rest of it is left out
TRAIN, LABEL, HELD_OUT = 0, 1, 2


def splits(count):
    """TRAIN, LABEL or HELD_OUT for every SQuAD train article."""
    kept_out = corpora.held_out(count)
    rest = [a for a in range(count) if a not in kept_out]
    chosen = np.random.default_rng(LABEL_SEED).choice(rest, LABEL_ARTICLES, replace=False)
    out = np.full(count, TRAIN)
    out[list(kept_out)] = HELD_OUT
    out[chosen] = LABEL
    return out


class Holder:
    """Finds token runs in texts, at word boundaries."""

    def __init__(self, tokenizer):
        self.inner = np.array([piece.startswith(wordpiece.PREFIX) and len(piece) > 2 for piece in tokenizer.ids])

    def find(self, text, answer):
        """The first place of the answer's ids (both uint16 arrays) in the text, -1 when it is not there."""
        if not len(answer):
            return -1
        hay, needle, at = text.tobytes(), answer.tobytes(), -1
        while True:
            at = hay.find(needle, at + 1)
            if at < 0:
                return -1
            after = at // 2 + len(answer)
            if at % 2 == 0 and (after == len(text) or not self.inner[text[after]]):
                return at // 2


def read(tokenizer, holder, every=1):
    """Texts, questions and answers of all corpora, as token ids."""
    passages = corpora.all_passages()
    articles = 1 + max(p.article for p in passages)
    split_of = splits(articles)
    texts, titles, questions, answers, bounds = Runs(), Runs(), Runs(), Runs(), [0]
    rows = {name: [] for name in ("passage", "start", "end")}
    split, kind, joined, arrays = [], [], [], []
    names = sorted(set(KINDS.values()))
    stops = []
    for number, passage in enumerate(passages):
        body = passage.text if passage.source == "squad" else passage.text[:LONGEST]
        ids, starts, ends = offsets.encode(tokenizer, body)
        texts.add(ids)
        arrays.append(np.array(ids, np.uint16))
        titles.add(tokenizer.encode(passage.title))
        first = [s for s, _ in sentences.spans(body)]
        stops.extend(sorted(set(np.searchsorted(starts, first).tolist()) | {0}))
        bounds.append(len(stops))
        joined.append(f"{passage.title}\n{body}")
        split.append(split_of[passage.article] if passage.article >= 0 else TRAIN)
        kind.append(names.index(KINDS[passage.source]))
        if number % every:
            passage.questions = []
        for question, span, found in zip(passage.questions, passage.answers, passage.found or [""] * len(passage.questions)):
            wanted = tokenizer.encode(body[span[0] : span[1]] if span else found)
            if span:
                begin, end = np.searchsorted(ends, span[0], "right"), np.searchsorted(starts, span[1], "left") - 1
            else:
                begin = holder.find(arrays[-1], np.array(wanted, np.uint16))
                end = begin + len(wanted) - 1 if begin >= 0 else -1
            if begin > end or end - begin >= 40:
                begin = end = -1
            questions.add(tokenizer.encode(question))
            answers.add(wanted if begin >= 0 else [])
            rows["passage"].append(number)
            rows["start"].append(begin)
            rows["end"].append(end)
    return passages, joined, arrays, np.array(kind), np.array(split), texts, titles, questions, answers, stops, bounds, rows


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--depth", type=int, default=50, help="candidates kept for questions of held-out articles")
    parser.add_argument("--train-depth", type=int, default=24, help="candidates kept for the other questions")
    parser.add_argument("--smoke", action="store_true", help="a fifteenth of the questions, to see that it runs")
    args = parser.parse_args()
    started = time.time()
    tokenizer = wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer"))
    holder = Holder(tokenizer)
    passages, joined, arrays, kind, split, texts, titles, questions, answers, stops, bounds, rows = read(tokenizer, holder, 15 if args.smoke else 1)
    print(f"{len(arrays)} texts, {len(rows['passage'])} questions, {time.time() - started:.0f} s", flush=True)

    asked = [q for p in passages for q in p.questions]
    gold = np.array(rows["passage"])
    answer_flat, answer_offsets = answers.arrays()
    answer_flat = answer_flat.astype(np.uint16)
    candidates = np.full((len(asked), args.depth), -1, np.int32)
    scores = np.zeros((len(asked), args.depth), np.float32)
    holds = np.zeros((len(asked), args.depth), np.int8)
    hits = {}
    for name in range(kind.max() + 1):
        pool = np.flatnonzero(kind == name)
        index = bm25.Index([joined[i] for i in pool])
        hidden = split[pool] == HELD_OUT
        for q in np.flatnonzero(kind[gold] == name):
            kept_out = split[gold[q]] == HELD_OUT
            depth = args.depth if split[gold[q]] != TRAIN else args.train_depth
            found, value = index.search(asked[q], depth, None if kept_out else hidden)
            found = pool[found]
            candidates[q, : len(found)] = found
            scores[q, : len(found)] = value
            answer = answer_flat[answer_offsets[q] : answer_offsets[q + 1]]
            if len(answer):
                holds[q, : len(found)] = [holder.find(arrays[c], answer) >= 0 for c in found]
            hits.setdefault((name, int(split[gold[q]])), []).append(len(found) > 0 and found[0] == gold[q])
        print(f"candidates of kind {name}: {time.time() - started:.0f} s", flush=True)
    for (name, part), values in sorted(hits.items()):
        print(f"kind {name}, split {part}: {len(values)} questions, BM25 hit@1 {np.mean(values):.4f}")

    arrays_of = {"texts": texts, "titles": titles, "questions": questions}
    flat = {}
    for name, runs in arrays_of.items():
        flat[name], flat[name + "_offsets"] = runs.arrays()
    np.savez(
        args.work / "pair.npz",
        **flat,
        answers=answer_flat.astype(np.int32),
        answers_offsets=answer_offsets,
        sentences=np.array(stops, np.int32),  # first tokens, counted from the text's start
        sentences_offsets=np.array(bounds),
        kind=kind,
        split=split,
        article=np.array([p.article for p in passages]),
        gold=gold,
        start=np.array(rows["start"], np.int32),
        end=np.array(rows["end"], np.int32),
        candidates=candidates,
        scores=scores,
        holds=holds,
    )
    print(f"{time.time() - started:.0f} s -> {args.work / 'pair.npz'}")


if __name__ == "__main__":
    main()
