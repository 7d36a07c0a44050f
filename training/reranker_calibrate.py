"""Chooses the reranker's thresholds on questions of held-out training articles, each with BM25's best eight texts: the weight of BM25's
score beside relevance, and the logits of has_answer. Writes work/NAME_calibrated.json.
"""

import json
import time

import numpy as np
import torch

import corpora
import reranker_export
import wordpiece
from pair_calibrate import even_point, platt
from pair_data import HELD_OUT, Data
from pair_measure import area, hits, mixed, rank, read
from reranker import Reads


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--name", default="reranker")
    parser.add_argument("--questions", type=int, default=800)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    if args.smoke:
        args.questions = 40
    torch.set_num_threads(args.threads)
    started = time.time()
    data = Data(args.work, wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer")))
    model = Reads(reranker_export.load(args.work, args.name))
    asked = np.random.default_rng(4).permutation(data.asked(HELD_OUT, spans_only=True))[: args.questions]
    ranked = rank(model, data, asked, args.depth, "labels")
    gold = [r[3] for r in ranked]
    print("BM25 hit@1 %.4f nDCG@10 %.4f" % hits([r[2] for r in ranked], gold))
    print("reranker hit@1 %.4f nDCG@10 %.4f" % hits([r[0] for r in ranked], gold))
    for weight in (1, 2, 3, 5, 8, 12, 20):
        print(f"reranker + {weight} BM25 / best BM25: hit@1 %.4f nDCG@10 %.4f" % hits([mixed(r[0], r[2], weight) for r in ranked], gold))
    logits, labels = np.concatenate([r[1] for r in ranked]), np.concatenate([r[4] for r in ranked])
    a, b = platt(logits, labels)
    print(f"has_answer AUC {area(logits, labels):.4f}; chance = sigmoid({a:.3f} x + {b:.3f}) over the candidates")
    listed = [r for r in ranked if r[3] >= 0]
    with_gold = np.array([r[1].max() for r in listed])
    without = np.array([np.delete(r[1], np.flatnonzero(r[4])).max() for r in listed if not r[4].all()])
    even, accuracy = even_point(with_gold, without)
    print(f"best of the candidates, with and without those that hold the answer: best balanced accuracy {accuracy:.4f} at {even:.3f}")
    answerable = float(np.quantile(with_gold, 0.1))
    print(f"answerable {answerable:.3f}: nine of ten are answered, and {np.mean(without < answerable):.3f} of those without an answer are not")
    print("reader EM %.4f F1 %.4f over tokens" % read(model, data, asked))
    # Platt's scaling goes into the graph: even odds are a logit of 0 there.
    found = {"platt": [a, b], "has_answer_threshold": 0.0, "has_answer_even": a * even + b, "answerable": a * answerable + b}
    (args.work / f"{args.name}_calibrated.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"{time.time() - started:.0f} s")


if __name__ == "__main__":
    main()
