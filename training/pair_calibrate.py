"""Chooses, on questions of held-out training articles over all SQuAD train paragraphs: the weight of BM25's score beside the
pair model's relevance, and the thresholds of has_answer. Writes work/pair_calibrated.json.
"""

import json
import time

import numpy as np
import torch

import corpora
import wordpiece
from pair_data import HELD_OUT, Data
from pair_export import ready
from pair_labels import DELTA
from pair_measure import area, hits, mixed, rank, read


def platt(logits, labels):
    """(a, b): the chance is sigmoid(a * logit + b); Newton's method on the log loss."""
    x, y = np.stack([logits, np.ones(len(logits))], axis=1).astype(np.float64), labels.astype(np.float64)
    w = np.array([1.0, 0.0])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ w))
        w = w - np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + 1e-6 * np.eye(2), x.T @ (p - y))
    return w


def even_point(right, wrong):
    """The threshold with the best balanced accuracy, and that accuracy."""
    values = np.concatenate([right, wrong])
    truth = np.concatenate([np.ones(len(right)), np.zeros(len(wrong))])
    order = np.argsort(values)
    below_right = np.cumsum(truth[order]) / len(right)
    below_wrong = np.cumsum(1 - truth[order]) / len(wrong)
    best = int(np.argmax(below_wrong - below_right))
    return float(values[order][best]), float((1 - below_right[best] + below_wrong[best]) / 2)


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--questions", type=int, default=800)
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    if args.smoke:
        args.questions = 40
    torch.set_num_threads(args.threads)
    started = time.time()
    data = Data(args.work, wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer")))
    model, _ = ready(args.work)
    asked = np.random.default_rng(4).permutation(data.asked(HELD_OUT, spans_only=True))[: args.questions]
    ranked = rank(model, data, asked, 50, "labels")
    gold = [r[3] for r in ranked]
    print("BM25 hit@1 %.4f nDCG@10 %.4f" % hits([r[2] for r in ranked], gold))
    print("pair hit@1 %.4f nDCG@10 %.4f" % hits([r[0] for r in ranked], gold))
    figures = {}
    for weight in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20):
        figures[weight] = hits([mixed(r[0], r[2], weight) for r in ranked], gold)
        print(f"pair + {weight} BM25 / best BM25: hit@1 %.4f nDCG@10 %.4f" % figures[weight])
    weight = max(figures, key=lambda w: sum(figures[w]))

    logits, labels = np.concatenate([r[1] for r in ranked]), np.concatenate([r[4] for r in ranked])
    a, b = platt(logits, labels)
    print(f"has_answer AUC {area(logits, labels):.4f}; chance = sigmoid({a:.3f} x + {b:.3f}) over the candidates")
    same = (DELTA - b) / a
    print(f"that chance is sigmoid({DELTA}) at {same:.3f}, which {np.mean(logits > same):.5f} of the texts exceed; even at {-b / a:.3f}")
    listed = [r for r in ranked if r[3] >= 0]
    with_gold = np.array([r[1][: 10].max() for r in listed])
    without = np.array([np.delete(r[1], np.flatnonzero(r[4]))[: 10].max() for r in listed if not r[4].all()])
    even, accuracy = even_point(with_gold, without)
    print(f"best of ten candidates, with and without those that hold the answer: best balanced accuracy {accuracy:.4f} at {even:.3f}")
    # Who asks would rather see a weak quote than nothing: one question of ten that has an answer may go without.
    answerable = float(np.quantile(with_gold, 0.1))
    print(f"answerable {answerable:.3f}: nine of ten are answered, and {np.mean(without < answerable):.3f} of those without an answer are not")
    print("reader EM %.4f F1 %.4f over tokens" % read(model, data, asked))
    found = {"bm25_weight": weight, "has_answer_delta": same, "has_answer_even": -b / a, "answerable": answerable, "platt": [a, b]}
    found["has_answer_threshold"] = -b / a
    (args.work / "pair_calibrated.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"weight of BM25 {weight}, {time.time() - started:.0f} s")


if __name__ == "__main__":
    main()
