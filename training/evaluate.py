"""Measures the final token vectors on squad-paragraphs: 10,570 dev questions over 20,963 paragraphs,
and over the 2,067 dev paragraphs alone.

Evaluation only: nothing read here is trained on. Brute force, exact.
"""

import csv
import json
import time

import numpy as np
import torch

import batches
import corpora
import encoder
import segmenter
import wordpiece


def embed(table, tokenizer, texts, power, step=2048):
    out = []
    for i in range(0, len(texts), step):
        ids = [np.array(tokenizer.encode(t)[:512], np.int32) for t in texts[i : i + step]]
        rows = np.repeat(np.arange(len(ids)), [len(x) for x in ids])
        out.append(encoder.embed(batches.pack(np.concatenate(ids), rows, len(ids), len(tokenizer), power), table))
    return torch.cat(out)


def read(name):
    with open(corpora.dataset("squad-paragraphs", name), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def main():
    args = corpora.arguments(__doc__).parse_args()
    torch.set_num_threads(args.threads)
    tokenizer = wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer"))
    table, power, _, _ = segmenter.load(args.work)
    documents, questions = read("corpus.jsonl"), read("queries.jsonl")
    place = {d["_id"]: i for i, d in enumerate(documents)}
    qrels = next(corpora.dataset("squad-paragraphs", "qrels").glob("*.tsv"))
    with open(qrels, encoding="utf-8", newline="") as f:
        right = {row["query-id"]: place[row["corpus-id"]] for row in csv.DictReader(f, delimiter="\t")}
    gold = torch.tensor([right[q["_id"]] for q in questions])
    dev = gold.unique()
    asked = embed(table, tokenizer, [q["text"] for q in questions], power)
    for name, texts in [
        ("text", [d["text"] for d in documents]),
        ("title and text", [d["title"] + "\n" + d["text"] for d in documents]),
    ]:
        started = time.time()
        found = embed(table, tokenizer, texts, power)
        score = encoder.ranking(asked, found, gold)
        alone = encoder.ranking(asked, found[dev], torch.searchsorted(dev, gold))
        print(
            f"{name}: hit@1 {score[0]:.4f}, nDCG@10 {score[1]:.4f} over {len(found)} paragraphs; hit@1 {alone[0]:.4f}, "
            f"nDCG@10 {alone[1]:.4f} over the {len(dev)} that some question is about, {time.time() - started:.0f} s"
        )


if __name__ == "__main__":
    main()
