"""Measures the pair model on evaluation sets in the BEIR layout: squad-paragraphs, or what `go run ./tools/datasets` makes
of QED dev and FairytaleQA. Nothing read here is trained on; the weight of BM25 was chosen on held-out training articles.

Reranking of BM25's best texts, has_answer's area under ROC over them, and, where a text has its gold answers in
it, exact match and F1 as SQuAD defines them. Beside each stands a baseline without the model.
"""

import csv
import json
import re
import string
import time
from collections import Counter

import numpy as np
import torch

import bm25
import corpora
import offsets
import sentences
import wordpiece
from pair_data import QUESTION_TOKENS, TEXT_TOKENS, pad
from pair_export import ready
from pair_measure import area, best_spans, hits, mixed

ROWS = 100  # of one run of the model


def normal(answer):
    """SQuAD's form of an answer: lower case, no punctuation, no articles."""
    kept = "".join(c for c in answer.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


def grade(found, answers):
    """(exact match, F1), each against the best of the right answers."""
    exact = f1 = 0.0
    for answer in answers:
        left, right = normal(found), normal(answer)
        exact = max(exact, float(left == right))
        common = sum((Counter(left) & Counter(right)).values())
        f1 = max(f1, 2 * common / (len(left) + len(right)) if common else float(left == right))
    return exact, f1


class Set:
    """A folder in the BEIR layout, encoded."""

    def __init__(self, folder, tokenizer):
        documents = [json.loads(line) for line in open(folder / "corpus.jsonl", encoding="utf-8")]
        self.questions = [json.loads(line) for line in open(folder / "queries.jsonl", encoding="utf-8")]
        place = {d["_id"]: i for i, d in enumerate(documents)}
        self.gold = {}
        with open(next((folder / "qrels").glob("*.tsv")), encoding="utf-8", newline="") as f:
            for row in csv.DictReader(f, delimiter="\t"):
                self.gold.setdefault(row["query-id"], set()).add(place[row["corpus-id"]])
        self.bodies = [d["text"].strip() for d in documents]
        self.encoded = [offsets.encode(tokenizer, body) for body in self.bodies]
        titles = [tokenizer.encode(d.get("title") or "") for d in documents]
        self.heads = [[] if ids[: len(t)] == t else t[:32] for t, (ids, _, _) in zip(titles, self.encoded)]
        self.index = bm25.Index([(d.get("title") or "") + "\n" + body for d, body in zip(documents, self.bodies)])
        self.terms = [set(bm25.terms((d.get("title") or "") + "\n" + body)) for d, body in zip(documents, self.bodies)]
        # To look for an answer's words between word boundaries.
        self.plain = [" " + " ".join(normal(body)) + " " for body in self.bodies]

    def row(self, text):
        return (self.heads[text] + self.encoded[text][0])[:TEXT_TOKENS]

    def holds(self, text, answers):
        return any(f" {' '.join(normal(a))} " in self.plain[text] for a in answers if normal(a))

    def overlap(self, question, texts):
        """The share of the question's words that is in each text, by inverse document frequency."""
        asked = {term: self.worth(term) for term in bm25.terms(question)}
        total = sum(asked.values()) or 1.0
        return np.array([sum(worth for term, worth in asked.items() if term in self.terms[t]) / total for t in texts])

    def worth(self, term):
        held = len(self.index.postings[term][0]) if term in self.index.postings else 0
        return np.log(1 + self.index.size / (1 + held))

    def words(self, text, first, last):
        """The characters of a span of the row's tokens."""
        head = len(self.heads[text])
        _, starts, ends = self.encoded[text]
        return self.bodies[text][starts[first - head] : ends[last - head]]


@torch.no_grad()
def run(model, tokenizer, question, rows):
    """scores [n, 3], and start and end as a list of rows; texts of like length run together."""
    ids = tokenizer.encode(question)[:QUESTION_TOKENS]
    order = np.argsort([len(r) for r in rows], kind="stable")
    scores, spans = np.zeros((len(rows), 3)), [None] * len(rows)
    step = max(8, len(rows) // 3)
    for i in range(0, len(rows), step):
        part = order[i : i + step]
        text_ids, text_mask = pad([rows[r] for r in part])
        question_ids, question_mask = pad([ids])
        n = len(part)
        out, start, end = model(question_ids.expand(n, -1), question_mask.expand(n, -1), text_ids, text_mask)
        scores[part] = out.numpy()
        for at, r in enumerate(part):
            spans[r] = (start[at], end[at])
    return scores, spans


def graph(path, threads):
    """A shipped graph in the form of the model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options)
    names = [i.name for i in session.get_inputs()]
    return lambda *inputs: [torch.from_numpy(x) for x in session.run(["scores", "start", "end"], dict(zip(names, (x.numpy() for x in inputs))))]


def sliding_window(data, question, body):
    """A reader without a model: the run of words outside the question, in the sentence that shares most of it, that the most of it is near."""
    asked = set(bm25.terms(question))

    def worth(word):
        term = bm25.term(word)
        return data.worth(term) if term in asked else 0.0

    best, answer = -1.0, ""
    for start, end in sentences.spans(body):
        found = list(bm25.WORD.finditer(body, start, end))
        worths = [worth(m.group()) for m in found]
        total = sum(worths)
        i = 0
        while i < len(found):
            j = i
            while j < len(found) and not worths[j] and bm25.term(found[j].group()) and j - i < 5:
                j += 1
            if j > i:
                near = sum(w / (1 + min(abs(k - i), abs(k - j + 1))) for k, w in enumerate(worths))
                if total + near > best:
                    best, answer = total + near, body[found[i].start() : found[j - 1].end()]
            i = max(j, i + 1)
    return answer


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--set", type=corpora.Path, default=None, help="folder; squad-paragraphs by default")
    parser.add_argument("--questions", type=int, default=0, help="so many, spread evenly; 0: all")
    parser.add_argument("--depth", type=int, default=50)
    parser.add_argument("--graph", type=corpora.Path, default=None, help="a pack's reranker.onnx, which is measured instead of the trained pair model")
    parser.add_argument("--weight", type=float, default=None, help="of BM25's score; by default what pair_calibrate.py found")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    started = time.time()
    tokenizer = wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer"))
    if args.graph:
        model, weight = graph(args.graph, args.threads), 5.0 if args.weight is None else args.weight
    else:
        model, settings = ready(args.work)
        weight = settings["bm25_weight"] if args.weight is None else args.weight
    folder = args.set or corpora.dataset("squad-paragraphs")
    data = Set(folder, tokenizer)
    questions = data.questions
    if args.questions:
        questions = questions[:: max(1, len(questions) // args.questions)]
    ranked, judged, labels, answers, baseline, lexical = [], [], [], [], [], []
    for number, question in enumerate(questions):
        right, wanted = data.gold[question["_id"]], question["metadata"].get("answers") or []
        texts, found = data.index.search(question["text"], args.depth)
        if not len(texts):
            continue
        gold = [i for i, t in enumerate(texts) if t in right]
        extra = [t for t in sorted(right)[:1] if not gold]  # the reader reads the gold text also where BM25 missed it
        scores, spans = run(model, tokenizer, question["text"], [data.row(t) for t in [*texts, *extra]])
        place = gold[0] if gold else -1
        ranked.append((scores[: len(texts), 0], found, place, scores[: len(texts)]))
        if wanted:  # some questions of QED have no answer
            judged.append(scores[: len(texts), 1])
            labels.append([data.holds(t, wanted) or t in right for t in texts])
            lexical.append((data.overlap(question["text"], texts), found / max(found[0], 1e-9)))
            read = place if gold else len(texts)
            text = texts[place] if gold else extra[0]
            start, end = (s[: len(data.row(text))].unsqueeze(0) for s in spans[read])
            before = torch.arange(start.shape[1]).unsqueeze(0) < len(data.heads[text])
            first, last, _ = (int(x) for x in best_spans(start, end, before))
            answers.append(grade(data.words(text, first, last), wanted))
            baseline.append(grade(sliding_window(data, question["text"], data.bodies[text]), wanted))
        if number % 500 == 499:
            report(folder, ranked, judged, labels, lexical, answers, baseline, weight, started, args)
    report(folder, ranked, judged, labels, lexical, answers, baseline, weight, started, args)


def report(folder, ranked, judged, labels, lexical, answers, baseline, weight, started, args):
    gold = [r[2] for r in ranked]
    rows = {
        "BM25": [r[1] for r in ranked],
        "pair": [r[0] for r in ranked],
        f"pair + {weight:g} BM25": [mixed(r[0], r[1], weight) for r in ranked],
        "has_answer + llm_prefer": [r[3][:, 1] + r[3][:, 2] for r in ranked],
    }
    print(f"{folder.name}: {len(ranked)} questions, best {args.depth} of BM25, {time.time() - started:.0f} s")
    for name, scores in rows.items():
        print("  %-24s hit@1 %.4f nDCG@10 %.4f" % (name, *hits(scores, gold)))
    if answers:
        truth = np.concatenate(labels)
        shares, relative = (area(np.concatenate(values), truth) for values in zip(*lexical))
        print(
            f"  has_answer AUC {area(np.concatenate(judged), truth):.4f}, "
            f"of the share of the question's words {shares:.4f}, of BM25's score relative to the list's best {relative:.4f}\n"
            f"  reader on gold texts EM {np.mean([a[0] for a in answers]):.4f} F1 {np.mean([a[1] for a in answers]):.4f}, "
            f"sliding window EM {np.mean([a[0] for a in baseline]):.4f} F1 {np.mean([a[1] for a in baseline]):.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
