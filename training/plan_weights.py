"""Chooses the weights of the default plan on the development sets of plan_sets.py, by the scores that a running Sluice gives.

    python3 plan_weights.py --collect          # asks the server of a data directory, writes work/plan/DOMAIN.json
    python3 plan_weights.py                    # searches for weights, leaving one domain out at a time

The plan's own formula is computed anew from the candidates' scores: shares of the hybrid, proximity, the pair model on the first 25, the
reranker on the first few of those. Weights move by coordinate search on the mean over domains of nDCG@10, less a penalty for what
they are away from the weights that ship, so that a difference that the questions do not show changes nothing.
"""

import json
import subprocess
import urllib.request
import uuid

import numpy as np

import corpora
import plan_sets

# The plan's scores with both models on its first 25.
PLAN = """
name: weights
stages:
  - spell: {least: 5}
  - hybrid:
      unit: passage
      k: 1000
      depth: 100
      of:
        - lexical: {unit: document, weight: 1}
        - lexical: {unit: section, weight: 0.2}
        - lexical: {unit: passage, weight: 0.2}
        - dense: {unit: passage, weight: 0.5}
  - proximity: {depth: 50, ordered: 1, coverage: 0.6, sentence: 0.5}
  - score: {depth: 25, weight: 0.14}
  - score: {model: reranker, depth: 25, weight: 0.14}
  - limit: {k: 100}
"""
COMPONENTS = ("lexical.document", "lexical.section", "lexical.passage", "dense.passage")
FEATURES = ("ordered", "coverage", "sentence")
SHIPPED = {"lexical.document": 1.0, "lexical.section": 0.2, "lexical.passage": 0.2, "dense.passage": 0.5, "ordered": 1.0, "coverage": 0.6,
           "sentence": 0.5, "pair": 0.14, "reranker": 0.14}
PAIR_DEPTH = 25


def collect(args):
    client, root = json.loads((args.data / "client.json").read_text()), args.work / "plan"

    def search(query):
        request = urllib.request.Request(client["url"] + "/v1/search", json.dumps(query).encode(), {
            "Content-Type": "application/json", "Authorization": "Bearer " + client["api_key"]})
        return json.loads(urllib.request.urlopen(request).read())

    for name in args.domains or plan_sets.DOMAINS:
        asked = plan_sets.write(root / "sets", name)
        collection = f"{name}-{uuid.uuid4().hex[:12]}"
        subprocess.run([args.sluice, "ingest", "--data", args.data, "-c", collection, "--wait", root / "sets" / name], check=True)
        rows = []
        for question, gold in asked:
            found = search({"collection": collection, "query": question, "plan_text": PLAN, "k": 100})
            rows.append({"gold": gold, "candidates": [{"document": c["document"], **c["scores"]} for c in found["passages"]]})
        (root / f"{name}.json").write_text(json.dumps(rows))
        print(f"{name}: {len(rows)} questions", flush=True)


class Question:
    def __init__(self, row):
        self.gold = set(row["gold"])
        self.documents = [c["document"] for c in row["candidates"]]
        of = lambda name, missing: np.array([c.get(name, missing) for c in row["candidates"]], np.float64)
        self.components = np.stack([share(of(name, 0.0)) for name in COMPONENTS])
        self.features = np.stack([of(name, 0.0) for name in FEATURES])
        self.read = {"pair": of("relevance", np.nan), "reranker": of("reranker.relevance", np.nan)}

    def ranking(self, w, depth):
        """The documents of the plan with weights w, best first."""
        if not self.documents:
            return []
        score = share(np.array([w[name] for name in COMPONENTS]) @ self.components)
        score = score + np.array([w[name] for name in FEATURES]) @ self.features
        order = np.argsort(-score, kind="stable")
        for model, most in (("pair", PAIR_DEPTH), ("reranker", depth)):
            head = order[:most]
            logits = self.read[model][head]
            if most and not np.isnan(logits).any():
                mixed = (1 - w[model]) * share(score[head]) + w[model] * logits
                again = np.argsort(-mixed, kind="stable")
                order = np.concatenate([head[again], order[most:]])
                score = np.copy(score)
                score[head] = mixed
        return list(dict.fromkeys(self.documents[i] for i in order))

    def gain(self, w, depth):
        """nDCG@10."""
        ranked = self.ranking(w, depth)[:10]
        found = sum(1 / np.log2(2 + i) for i, d in enumerate(ranked) if d in self.gold)
        return found / sum(1 / np.log2(2 + i) for i in range(min(10, len(self.gold))))


def share(values):
    best = values.max(initial=0)
    return values / best if best > 0 else values


def search(domains, depth, hold, rounds=3):
    """Weights that do best on the mean of some domains' questions."""
    def value(w):
        away = sum(np.log(w[name] / SHIPPED[name]) ** 2 for name in w)
        return np.mean([np.mean([q.gain(w, depth) for q in questions]) for questions in domains]) - hold * away

    best = dict(SHIPPED)
    top = value(best)
    for _ in range(rounds):
        before = top
        for name in SHIPPED:
            for factor in (0.5, 0.7, 0.85, 1.2, 1.4, 2.0):
                tried = {**best, name: best[name] * factor}
                if name in ("pair", "reranker") and tried[name] > 0.9:
                    continue
                if (found := value(tried)) > top:
                    best, top = tried, found
        if top - before < 1e-4:
            break
    return best


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--collect", action="store_true", help="ask the server")
    parser.add_argument("--data", type=corpora.Path, help="data directory of `sluice up`")
    parser.add_argument("--sluice", default=corpora.TRAINING.parent / "bin" / "sluice")
    parser.add_argument("--domains", nargs="*", choices=plan_sets.DOMAINS)
    parser.add_argument("--depth", type=int, default=5, help="what the reranker reads")
    parser.add_argument("--hold", type=float, default=0.002, help="how strongly weights are held to those that ship")
    args = parser.parse_args()
    if args.collect:
        collect(args)
        return
    data = {name: [Question(row) for row in json.loads((args.work / "plan" / f"{name}.json").read_text())]
            for name in plan_sets.DOMAINS if (args.work / "plan" / f"{name}.json").exists()}
    mean = lambda questions, w, depth: np.mean([q.gain(w, depth) for q in questions])
    words = {**SHIPPED, **{name: 1e-9 for name in SHIPPED if name != "lexical.document"}}
    print("nDCG@10        " + "".join(f"{name:>13}" for name in data))
    print("documents' BM25" + "".join(f"{mean(q, words, 0):13.4f}" for q in data.values()))
    for depth in (0, 3, 5, 8, 12, 25):
        for weight in (0.07, 0.14, 0.2, 0.3, 0.45) if depth else (0.14,):
            w = {**SHIPPED, "reranker": weight}
            figures = [mean(q, w, depth) for q in data.values()]
            print(f"{depth:2} read, {weight:4}  " + "".join(f"{x:13.4f}" for x in figures) + f"   mean {np.mean(figures):.4f}", flush=True)
    gained = []
    for left in data:
        w = search([q for name, q in data.items() if name != left], args.depth, args.hold)
        before, after = mean(data[left], SHIPPED, args.depth), mean(data[left], w, args.depth)
        gained.append(after - before)
        print(f"without {left}: {before:.4f} -> {after:.4f}  " + ", ".join(f"{n} {x:.3f}" for n, x in w.items()), flush=True)
    print(f"mean gain on the domain left out {np.mean(gained):+.4f}")
    print("all: " + ", ".join(f"{n} {x:.3f}" for n, x in search(list(data.values()), args.depth, args.hold).items()))


if __name__ == "__main__":
    main()
