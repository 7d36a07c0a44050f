"""Measures the encoder's checkpoint on squad-paragraphs: 10,570 dev questions over 20,963 paragraphs.

Evaluation only: nothing read here is trained on. Brute force, exact.
"""

import argparse
import csv
import json
import time

import numpy as np
import torch

import batches
import corpora
import encoder
import wordpiece


def embed(model, tokenizer, texts, power, step=2048):
    out = []
    table = model.table()
    for i in range(0, len(texts), step):
        ids = [np.array(tokenizer.encode(t)[:512], np.int32) for t in texts[i : i + step]]
        rows = np.repeat(np.arange(len(ids)), [len(x) for x in ids])
        with torch.no_grad():
            out.append(model(batches.pack(np.concatenate(ids), rows, len(ids), len(tokenizer), power), table))
    return torch.cat(out)


def read(name):
    with open(corpora.dataset("squad-paragraphs", name), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    torch.set_num_threads(parser.parse_args().threads)
    tokenizer = wordpiece.Tokenizer.load(corpora.WORK / "tokenizer.json")
    model, settings = encoder.load(len(tokenizer))
    documents, questions = read("corpus.jsonl"), read("queries.jsonl")
    place = {d["_id"]: i for i, d in enumerate(documents)}
    qrels = next(corpora.dataset("squad-paragraphs", "qrels").glob("*.tsv"))
    with open(qrels, encoding="utf-8", newline="") as f:
        right = {row["query-id"]: place[row["corpus-id"]] for row in csv.DictReader(f, delimiter="\t")}
    gold = torch.tensor([right[q["_id"]] for q in questions])
    asked = embed(model, tokenizer, [q["text"] for q in questions], settings["power"])
    for name, texts in [
        ("text", [d["text"] for d in documents]),
        ("title and text", [d["title"] + "\n" + d["text"] for d in documents]),
    ]:
        started = time.time()
        found = embed(model, tokenizer, texts, settings["power"])
        score = encoder.ranking(asked, found, gold)
        print(f"squad-paragraphs, {name}: hit@1 {score[0]:.4f}, nDCG@10 {score[1]:.4f}, {time.time() - started:.0f} s")


if __name__ == "__main__":
    main()
