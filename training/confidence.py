"""Calibrates the confidence of answers that are read, for a pack as it is.

    confidence.py sets --work FOLDER            writes the question sets, as BEIR folders
    confidence.py fit --pack FOLDER FILE...     fits, and writes the numbers into the pack's manifest

FILE is what `sluice eval SET --answers --risk 1 --questions FILE` writes. Half of the questions give the coefficients of a
logistic regression, the other half the thresholds of nominal risks and of what is given by default. The sets are of articles, stories and
questions that no graph was trained on; of each, the documents of some questions are left out, so that these have no answer there.
"""

import argparse
import csv
import json
import math
import random
import re
import sys
import zlib
from pathlib import Path

import numpy as np

import corpora
import pack

LEFT_OUT = 0.3  # of the documents that questions are about
RISKS = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)
SURE = 0.9  # that the error is within a nominal risk, over draws of the calibration questions
KEPT = 0.985  # of the right answers of each set are given by default
LEAST = 0.1  # of the answers are above the strictest threshold that is tried
RIDGE = 10.0
FEATURES = (
    "has_answer",
    "span",
    "span_margin",
    "margin",
    "ahead",
    "first",
    "missing",
    "made_up",
    "fits",
    "other_sort",
    "agree",
    "length",
)


def squad():
    """Held-out articles of SQuAD's training set: documents, and (question, answers, documents that have it)."""
    articles = corpora.squad_articles()
    documents, questions = [], []
    for number in sorted(corpora.held_out(len(articles))):
        title, paragraphs = articles[number]
        for p, paragraph in enumerate(paragraphs):
            name = f"{number}-{p}"
            documents.append((name, title, paragraph["context"].strip()))
            for qa in paragraph["qas"]:
                if qa["answers"]:
                    questions.append((qa["question"].strip(), [a["text"] for a in qa["answers"]], [name]))
    return documents, questions


def qed():
    """QED's development set: questions of people who searched."""
    documents, questions, names = [], [], {}
    with open(corpora.dataset("qed", "qed-dev.jsonlines"), encoding="utf-8") as f:
        for line in f:
            row = json.loads(line)
            key = row["title_text"], row["paragraph_text"]
            if key not in names:
                names[key] = f"d{len(names)}"
                documents.append((names[key], *key))
            answers = sorted({a[0]["string"] for a in row["original_nq_answers"] if len(a) == 1})
            if row["annotation"]["explanation_type"] != "none" and answers:
                questions.append((row["question_text"], answers, [names[key]]))
    return documents, questions


def fairytales():
    """FairytaleQA's validation set, the stories of which are none of the training set's."""
    root = corpora.dataset("fairytaleqa", "data-by-train-split")
    documents, questions = [], []
    for path in sorted((root / "section-stories" / "val").glob("*-story.csv")):
        story = path.name[: -len("-story.csv")]
        with open(path, encoding="utf-8", newline="") as f:
            for row in csv.DictReader(f):
                documents.append((f"{story}-{row['section'].strip()}", story.replace("-", " "), re.sub(r"\s+", " ", row["text"] or "").strip()))
        with open(root / "questions" / "val" / f"{story}-questions.csv", encoding="utf-8", newline="") as f:
            for row in csv.DictReader(f):
                answers = [row[f"answer{i}"].strip() for i in range(1, 7) if (row.get(f"answer{i}") or "").strip()]
                sections = [f"{story}-{s.strip()}" for s in (row["cor_section"] or "").split(",") if s.strip()]
                if answers and sections and (row["question"] or "").strip():
                    questions.append((row["question"].strip(), answers, sections))
    return documents, questions


def write_set(folder, documents, questions, count, seed):
    rng = random.Random(seed)
    about = sorted({name for _, _, names in questions for name in names})
    gone = set(rng.sample(about, int(LEFT_OUT * len(about))))
    questions = [q for q in questions if len(set(q[2]) & gone) in (0, len(set(q[2])))]
    questions = rng.sample(questions, min(count, len(questions)))
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    with open(folder / "corpus.jsonl", "w", encoding="utf-8") as f:
        for name, title, text in documents:
            if name not in gone and text:
                print(json.dumps({"_id": name, "title": title, "text": text}), file=f)
    with open(folder / "queries.jsonl", "w", encoding="utf-8") as q, open(folder / "qrels" / "test.tsv", "w", encoding="utf-8") as r:
        print("query-id\tcorpus-id\tscore", file=r)
        for i, (question, answers, names) in enumerate(questions):
            unanswerable = set(names) <= gone
            print(json.dumps({"_id": f"q{i}", "text": question, "metadata": {"answers": answers, "unanswerable": unanswerable}}), file=q)
            for name in names:
                if not unanswerable:
                    print(f"q{i}\t{name}\t1", file=r)
    print(f"{folder}: {len(documents)} documents, {len(gone)} of them left out, {len(questions)} questions")


def sets(args):
    for name, read in (("squad-held-out", squad), ("qed-dev", qed), ("fairytaleqa-val", fairytales)):
        documents, questions = read()
        write_set(args.work / name, documents, questions, args.questions, 11)


def rows(paths):
    """Features and labels of answers; which half each is of; its weight, by which the sets are equal; and of which set it is."""
    out = []
    for of, path in enumerate(paths):
        found = []
        for line in open(path, encoding="utf-8"):
            row = json.loads(line)
            answer = row.get("answer") or {}
            if "right" in answer and "features" in answer:
                x = [answer["features"][name] for name in FEATURES]
                half = zlib.crc32(f"{row['dataset']}/{row['query']}".encode()) & 1
                found.append((x, float(answer["right"]), half))
        if not found:
            sys.exit(f"{path} has no answer with features: write it with `sluice eval SET --answers --risk 1 --questions FILE`")
        out += [(*r, 1.0 / len(found), of) for r in found]
        print(f"{path}: {len(found)} answers, {np.mean([r[1] for r in found]):.3f} of them right")
    x, y, half, weight, of = (np.array(column, float) for column in zip(*out))
    return x, y, half, weight / weight.mean(), of


def regression(x, y, weight):
    """Intercept and coefficients by Newton's method, with a ridge over standardised features."""
    mean, scale = x.mean(0), x.std(0)
    scale[scale < 1e-6] = 1.0
    z = np.hstack([np.ones((len(x), 1)), (x - mean) / scale])
    w = np.zeros(z.shape[1])
    ridge = np.full(len(w), RIDGE)
    ridge[0] = 0
    for _ in range(50):
        p = 1 / (1 + np.exp(-z @ w))
        gradient = z.T @ (weight * (p - y)) + ridge * w
        hessian = (z * (weight * p * (1 - p))[:, None]).T @ z + np.diag(ridge) + 1e-9 * np.eye(len(w))
        step = np.linalg.solve(hessian, gradient)
        w -= step
        if np.abs(step).max() < 1e-9:
            break
    coefficients = w[1:] / scale
    return w[0] - coefficients @ mean, coefficients


def upper(errors, n):
    """The greatest error rate at which so few errors among n are as likely as 1 - SURE (Clopper and Pearson)."""

    def cdf(p):
        terms = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p) for k in range(errors + 1)]
        return sum(math.exp(t) for t in terms)

    if errors >= n:
        return 1.0
    low, high = errors / n, 1 - 1e-12
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(max(middle, 1e-12)) > 1 - SURE else (low, middle)
    return high


def thresholds(p, y):
    """For each risk the lowest confidence above which the error is within it. The thresholds that are tried are fixed before, from
    strict to lax, and the first that fails ends the search, so that each has the whole chance of SURE (fixed-sequence testing)."""
    order = np.argsort(-p)
    wrong = np.cumsum(1 - y[order])
    tried = sorted({int(n) for n in np.linspace(LEAST * len(p), len(p), 40)})
    out = {}
    for risk in RISKS:
        for n in tried:
            if upper(int(wrong[n - 1]), n) > risk:
                break
            out[risk] = float(p[order[n - 1]])
    return out


def figures(name, p, y):
    bins = np.minimum((p * 10).astype(int), 9)
    error = sum(abs(p[bins == b].sum() - y[bins == b].sum()) for b in range(10)) / len(p)
    right, wrong = p[y > 0.5], p[y < 0.5]
    auroc = np.mean([(right > w).mean() + (right == w).mean() / 2 for w in wrong])
    print(f"{name}: {len(p)} answers, {y.mean():.3f} right, expected calibration error {error:.4f}, AUROC {auroc:.4f}, Brier {np.mean((p - y) ** 2):.4f}")


def fit(args):
    x, y, half, weight, of = rows(args.files)
    seen, held = half == 0, half == 1
    intercept, coefficients = regression(x[seen], y[seen], weight[seen])
    p = 1 / (1 + np.exp(-(x @ coefficients + intercept)))
    figures("has_answer alone, the other half", 1 / (1 + np.exp(-x[held][:, 0])), y[held])
    figures("fitted, its half", p[seen], y[seen])
    figures("fitted, the other half", p[held], y[held])
    table = thresholds(p[held], y[held])
    least = min(float(np.quantile(p[held & (y > 0.5) & (of == i)], 1 - KEPT)) for i in range(len(args.files)))
    refused = np.mean(p[held & (y < 0.5)] < least)
    print(f"from {least:.3f} on {KEPT:.1%} of the right answers of every set are given, and {refused:.1%} of the wrong ones are not")
    for risk, threshold in table.items():
        given = p[held] >= threshold
        print(f"risk {risk}: from {threshold:.3f} on, {given.mean():.1%} given, {1 - y[held][given].mean():.1%} of them wrong")
    values = {"confidence_intercept": intercept, "confidence_least": least}
    values |= {f"confidence_{name}": c for name, c in zip(FEATURES, coefficients)}
    values |= {f"risk_{risk:g}": t for risk, t in table.items()}
    if args.check:
        for path in args.check:
            x, y, *_ = rows([path])
            figures("  has_answer alone", 1 / (1 + np.exp(-x[:, 0])), y)
            p = 1 / (1 + np.exp(-(x @ coefficients + intercept)))
            figures("  fitted", p, y)
            for risk, threshold in table.items():
                given = p >= threshold
                print(f"  risk {risk}: {given.mean():.1%} given, {1 - y[given].mean() if given.any() else math.nan:.1%} of them wrong")
            print(f"  by default {np.mean(p[y > 0.5] >= least):.1%} of the right ones given, {np.mean(p[y < 0.5] < least):.1%} of the wrong ones not")
        return
    pack.drop_calibrated(args.pack, r"(?:confidence|risk)_[a-z0-9._]*" + ("" if args.suffix else "(?<!_reranker)"), args.suffix)
    for name in sorted(values, reverse=True):
        pack.put_calibrated(args.pack, name + args.suffix, values[name], 4)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    step = steps.add_parser("sets")
    step.add_argument("--work", type=Path, default=corpora.TRAINING / "work" / "confidence")
    step.add_argument("--questions", type=int, default=1000, help="of each set")
    step.set_defaults(run=sets)
    step = steps.add_parser("fit")
    step.add_argument("--pack", type=Path, default=corpora.TRAINING.parent / "models" / "default")
    step.add_argument("--suffix", default="_reranker", help='what reads answers: "_reranker", or "" for a pack whose pair model does')
    step.add_argument("--check", nargs="*", type=Path, help="files of sets that nothing is fitted on: prints their figures, and leaves the pack as it is")
    step.add_argument("files", nargs="+", type=Path)
    step.set_defaults(run=fit)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
