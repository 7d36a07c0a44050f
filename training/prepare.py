"""Turns the corpora into token arrays (work/corpus.npz) that the training scripts share.

A passage is a run of sentences and a sentence a run of token ids, both as offsets into
one flat array, so that whole passages, windows of sentences and single sentences can be
cut out without encoding anything again.
"""

import time

import numpy as np

import corpora
import sentences
import wordpiece


class Runs:
    """A list of integer runs kept as one flat array and offsets."""

    def __init__(self):
        self.flat, self.offsets = [], [0]

    def add(self, values):
        self.flat.extend(values)
        self.offsets.append(len(self.flat))
        return len(self.offsets) - 2

    def arrays(self):
        return np.array(self.flat, np.int32), np.array(self.offsets, np.int64)


def answer_sentence(bounds, answer):
    """The index of the sentence that holds the answer's start, -1 when not known."""
    if answer is None:
        return -1
    for number, (start, end) in enumerate(bounds):
        if start <= answer[0] < end:
            return number
    return -1


def main():
    args = corpora.arguments(__doc__).parse_args()
    started = time.time()
    tokenizer = wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer"))
    passages = corpora.all_passages()
    sources = sorted({p.source for p in passages})
    tokens, questions, titles = Runs(), Runs(), Runs()
    first_sentence, article, source = [0], [], []
    question_passage, question_sentence = [], []
    for number, passage in enumerate(passages):
        bounds = sentences.spans(passage.text)
        for start, end in bounds:
            tokens.add(tokenizer.encode(passage.text[start:end]))
        first_sentence.append(len(tokens.offsets) - 1)
        titles.add(tokenizer.encode(passage.title))
        article.append(passage.article)
        source.append(sources.index(passage.source))
        for question, answer in zip(passage.questions, passage.answers):
            questions.add(tokenizer.encode(question))
            question_passage.append(number)
            question_sentence.append(answer_sentence(bounds, answer))
    token_flat, token_offsets = tokens.arrays()
    question_flat, question_offsets = questions.arrays()
    title_flat, title_offsets = titles.arrays()
    path = args.work / "corpus.npz"
    np.savez(
        path,
        sources=np.array(sources),
        tokens=token_flat,
        sentences=token_offsets,
        passages=np.array(first_sentence, np.int64),
        titles=title_flat,
        title_offsets=title_offsets,
        article=np.array(article),
        source=np.array(source),
        questions=question_flat,
        question_offsets=question_offsets,
        question_passage=np.array(question_passage),
        question_sentence=np.array(question_sentence),
        vocabulary=len(tokenizer),
    )
    print(
        f"{len(passages)} passages, {len(token_offsets) - 1} sentences, {len(token_flat)} tokens, "
        f"{len(question_passage)} questions, {time.time() - started:.0f} s -> {path}"
    )


if __name__ == "__main__":
    main()
