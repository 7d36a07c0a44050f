"""Measures the fuser on evaluation sets in the BEIR layout: FunnelRAG's answer recall, the share of questions of which one of the
first k texts has an answer's words in it, over the best texts of BM25. Nothing read here is trained on.

Beside it stand BM25 and the pair model on the same texts, and the fuser without representative tokens (the mean over all tokens
of a passage) and with the question's tokens among them, as in FunnelRAG's appendix C.
"""

import time

import numpy as np
import torch

import corpora
import fuser_export
import wordpiece
from pair_data import QUESTION_TOKENS
from pair_evaluate import Set
from pair_evaluate import run as run_pair
from pair_export import ready as ready_pair
from pair_measure import mixed

# How scores are taken from the attention: representative tokens (eq. 3's lr), and whether the question's may be among them.
SETTINGS = {
    (4, False): "fuser, 4 tokens",
    (4, True): "  the question's too",
    (1, False): "fuser, 1 token",
    (1000, False): "fuser, all tokens",
    (1000, True): "  the question's too",
}
SHOWN = (1, 2, 3, 4)


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--set", type=corpora.Path, default=None, help="folder; squad-paragraphs by default")
    parser.add_argument("--questions", type=int, default=0, help="so many, spread evenly; 0: all")
    parser.add_argument("--depth", type=int, default=20, help="texts of BM25 that are ranked")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    started = time.time()
    tokenizer = wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer"))
    fuser = fuser_export.ready(args.work)
    pair, settings = ready_pair(args.work)
    weight = settings["bm25_weight"]
    folder = args.set or corpora.dataset("squad-paragraphs")
    data = Set(folder, tokenizer)
    questions = [q for q in data.questions if q["metadata"].get("answers")]
    if args.questions:
        questions = questions[:: max(1, len(questions) // args.questions)]
    held, spent = {}, {"pair": 0.0, "fuser": 0.0}

    def note(name, values, holds):
        order = np.argsort(-np.asarray(values), kind="stable")
        held.setdefault(name, []).append([holds[order[:k]].any() for k in SHOWN])

    count, ceiling = 0, []
    for question in questions:
        texts, found = data.index.search(question["text"], args.depth)
        if not len(texts):
            continue
        count += 1
        holds = np.array([data.holds(t, question["metadata"]["answers"]) for t in texts])
        ceiling.append(holds.any())
        rows = [data.row(t) for t in texts]
        began = time.process_time()
        relevance = run_pair(pair, tokenizer, question["text"], rows)[0][:, 0]
        spent["pair"] += time.process_time() - began
        began = time.process_time()
        raw, mask, width = fuser_export.run(fuser, tokenizer.encode(question["text"])[:QUESTION_TOKENS], rows)
        spent["fuser"] += time.process_time() - began
        note("BM25", found, holds)
        note("pair", relevance, holds)
        note(f"pair + {weight:g} BM25", mixed(relevance, found, weight), holds)
        for number, ((tokens, on), name) in enumerate(SETTINGS.items()):
            values = fuser_export.scores(raw, mask, width, tokens, on).numpy()
            note((number, name), values, holds)
            if number == 0:
                note((100, f"fuser, 4 tokens + {weight:g} BM25"), mixed(values, found, weight), holds)
                note((101, "fuser, 4 tokens + pair"), values + relevance, holds)
    print(
        f"{folder.name}: {count} questions, best {args.depth} of BM25 (of {np.mean(ceiling):.4f} one has the answer), "
        f"CPU a question: pair {1000 * spent['pair'] / count:.0f} ms, fuser {1000 * spent['fuser'] / count:.0f} ms; {time.time() - started:.0f} s"
    )
    for name, rows in held.items():
        label = name if isinstance(name, str) else name[1]
        print(f"  {label:<28}" + "  ".join(f"AR@{k} {x:.4f}" for k, x in zip(SHOWN, np.mean(rows, 0))))
    ours, theirs = (np.array(held[name])[:, 0].astype(int) for name in ((0, SETTINGS[4, False]), "pair"))
    print(f"  AR@1, fuser with 4 tokens against pair: {(ours > theirs).sum()} questions better, {(ours < theirs).sum()} worse")


if __name__ == "__main__":
    main()
