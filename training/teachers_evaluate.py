"""What pretrained encoders reach on development sets as they are: the ceiling that a static encoder is held against.

    work/venv/bin/python teachers_evaluate.py --work work/reranker NAME=FOLDER[:SPLIT] ...    # folders in the BEIR layout
"""

import json
import time

import numpy as np
import torch

import corpora
import embed
import large
import large_encoder
import teachers


def beir(folder, split, limit):
    """(document ids, texts, question ids, questions, {question: {document: grade}}); limit questions drawn at random."""
    documents = [json.loads(line) for line in open(folder / "corpus.jsonl", encoding="utf-8")]
    asked = {q["_id"]: q["text"] for q in map(json.loads, open(folder / "queries.jsonl", encoding="utf-8"))}
    grades = {}
    for line in open(folder / "qrels" / f"{split}.tsv", encoding="utf-8"):
        question, document, grade = line.rstrip("\n").split("\t")
        if grade.isdigit() and int(grade) > 0:
            grades.setdefault(question, {})[document] = int(grade)
    keys = [key for key in grades if key in asked]
    if len(keys) > limit:
        keys = [keys[i] for i in np.random.RandomState(1).permutation(len(keys))[:limit]]
    texts = [f"{d.get('title', '')}\n{d['text']}".strip() for d in documents]
    return [d["_id"] for d in documents], texts, keys, [asked[key] for key in keys], grades


def measure(order, ids, keys, grades):
    """(hit@1, nDCG@10) of the first ten documents of every question."""
    hit, gain = [], []
    for row, key in zip(order, keys):
        found = [grades[key].get(ids[i], 0) for i in row]
        best = sorted(grades[key].values(), reverse=True)[:10]
        discounted = lambda values: sum(v / np.log2(n + 2) for n, v in enumerate(values))
        hit.append(found[0] > 0)
        gain.append(discounted(found) / discounted(best))
    return np.mean(hit), np.mean(gain)


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--teachers", default="minilm,bge", help="large is the graph of that pack, in eight bits")
    parser.add_argument("--limit", type=int, default=2000)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for name in args.teachers.split(","):
        if name == "large":
            embedder = large_encoder.Embedder(args.work, large.PACK, args.threads)
        else:
            teacher = teachers.load(name, args.work)
            embedder = embed.Embedder(teacher.bert, teacher.tokenizer, teacher.pooling, teacher.prefix, teacher.max_tokens)
        for spec in args.sets:
            label, _, place = spec.partition("=")
            folder, _, split = place.partition(":")
            started = time.time()
            ids, texts, keys, asked, grades = beir(corpora.Path(folder), split or "test", args.limit)
            order = np.argsort(-(embedder.questions(asked) @ embedder.texts(texts).T), 1)[:, :10]
            hit, gain = measure(order, ids, keys, grades)
            print(f"{name} {label}: {len(ids)} documents, {len(keys)} questions, hit@1 {hit:.3f}, nDCG@10 {gain:.3f}, "
                  f"{time.time() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
