"""Measures links: of what answers a question together with a passage, the share that is among the passage's links.

    python3 linker_evidence.py --split val      # settings are chosen on this
    python3 linker_evidence.py --split test

Evidence is QMSum's relevant turns, FairytaleQA's gold sections, and what answers the questions about one subject of a SQuAD article
(documents.topics): QMSum and FairytaleQA in the split of that name, SQuAD's held-out training articles for val and its dev articles for
test. Neighbours are most of the evidence of the first two, so four figures are given: of all evidence, of that which is more than one and
more than two passages away, and of that in another run, which other passages than evidence divide from this one.

A figure is recall at 1, 3, 5 and 10 links, of what so many links could hold; averaged over a question's passages, then over questions.
It reads the graph of the pack and needs onnxruntime (work/venv).
"""

import numpy as np
import onnxruntime as ort
import torch

import corpora
import documents
import linker
import shipped

KEEPS = (1, 3, 5, 10)
# A mix of place and content: the share of content, how sharply it attends, and how much of its neighbours a passage has; chosen on val.
SHARE, SHARPNESS, AROUND = 0.3, 8.0, 0.5


def sets(split):
    """The documents of a split that is not trained on, by name."""
    topics = documents.squad_topics(True) if split == "val" else documents.squad_articles_topics()
    return {f"QMSum {split}": documents.qmsum(split), f"FairytaleQA {split}": documents.fairytaleqa(split), f"SQuAD topics {split}": topics}


def kinds(group):
    """For a question's passages, which of the others count as evidence: [kinds, passages, passages]."""
    apart = np.abs(group[:, None] - group[None])
    run = np.cumsum(np.r_[0, np.diff(group) > 1])
    return np.stack([apart > 0, apart > 1, apart > 2, run[:, None] != run[None]])


def evidence(texts, links):
    """Recall [kinds, keeps] and the number of questions [kinds]; links are [passages, 10] of each document."""
    sums, questions = np.zeros((4, len(KEEPS))), np.zeros(4, int)
    for document, chosen in zip(texts.documents, links):
        for group in map(np.array, document.groups):
            place = np.full(len(document.passages), -1)
            place[group] = np.arange(len(group))
            linked = place[chosen[group]]
            for kind, counts in enumerate(kinds(group)):
                could = counts.sum(1)
                found = (np.take_along_axis(counts, np.maximum(linked, 0), 1) & (linked >= 0)).cumsum(1)
                rows = could > 0
                if rows.any():
                    questions[kind] += 1
                    sums[kind] += [(found[rows, min(k, found.shape[1]) - 1] / np.minimum(k, could[rows])).mean() for k in KEEPS]
    return sums / np.maximum(questions, 1)[:, None], questions


def strongest(scores, without):
    """[p, 10]: for each passage the others of highest score, those up to `without` places away left out."""
    scores, at = np.array(scores, float), np.arange(len(scores))
    scores[np.abs(at[:, None] - at[None]) <= without] = -np.inf
    return np.argsort(-scores, axis=1, kind="stable")[:, : max(KEEPS)]


def adjacency(vectors):
    """By place alone; of two equally near ones the following is nearer."""
    at = np.arange(len(vectors))
    return -(np.abs(at[:, None] - at[None]) - 0.1 * (at[None] > at[:, None]))


def nearest(vectors):
    return vectors @ vectors.T


def rank_sum(vectors):
    """Minus the rank by place and the rank by vector."""
    ranks = 0
    for scores in (adjacency(vectors), nearest(vectors)):
        np.fill_diagonal(scores, -np.inf)
        ranks = ranks + np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)
    return -ranks


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def mix(vectors):
    """The rule that linker.Linker begins as, and content in a fixed share: cosines of vectors with their neighbours' in them, less the document's mean."""
    at = np.arange(len(vectors))
    near = AROUND ** np.abs(at[:, None] - at[None])
    np.fill_diagonal(near, 0)
    centred = unit(vectors - vectors.mean(0))
    centred = unit(centred + AROUND * (near / near.sum(1, keepdims=True)) @ centred)
    centred = unit(centred - centred.mean(0))
    content = np.exp(SHARPNESS * (centred @ centred.T - 1))
    np.fill_diagonal(content, 0)
    rule = linker.whole(linker.Linker().eval(), torch.from_numpy(vectors)).numpy()
    return (1 - SHARE) * rule + SHARE * content / content.sum(1, keepdims=True)


def by_graph(path, threads):
    """A function from vectors to scores, by a linker's graph."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(str(path), options)
    run = lambda v, m: torch.from_numpy(session.run(None, {"vectors": v.numpy(), "mask": m.numpy()})[0])
    return lambda vectors: linker.whole(run, torch.from_numpy(vectors)).numpy()


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--split", default="val", choices=("val", "test"))
    parser.add_argument("--graph", type=corpora.Path, default=shipped.PACK / "linker.onnx")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    encode = shipped.Encoder().encode
    ways = {"adjacency": adjacency, "shipped linker": by_graph(args.graph, args.threads), "nearest by vector": nearest,
            "rank sum of place and vector": rank_sum, "rule and content": mix}
    for name, found in sets(args.split).items():
        texts = linker.Texts(found, encode)
        print(f"\n{name}: all evidence | more than 1 away | more than 2 away | in another run; recall at " + " / ".join(map(str, KEEPS)), flush=True)
        for label, way in ways.items():
            scores = [way(v.numpy()) for v in texts.vectors]
            for without, suffix in ((0, ""), (1, ", without neighbours")):
                recall, questions = evidence(texts, [strongest(s, without) for s in scores])
                print(f"| {label}{suffix} | " + " | ".join(" / ".join("%.3f" % x for x in row) for row in recall) + " |", flush=True)
        print("questions: " + ", ".join(map(str, questions)), flush=True)


if __name__ == "__main__":
    main()
