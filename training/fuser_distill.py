"""Tries FunnelRAG's local-to-global distillation: the fuser's scores of passages teach the pair model to rank documents.

A document is two neighbouring paragraphs of an article, a passage is one of them. A document's score is
alpha * max + (1 - alpha) * mean of its passages'; the documents with the best scores, and those that hold the answer, are to be
ranked above the others by the pair model's relevance (BPR, section 3.2). Only the last layer learns: FIT-RAG's labels
read those before it. Prints figures of held-out articles and writes nothing, for what it learns has not been better.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F

import corpora
import fuser_export
import wordpiece
from fuser import Batches
from pair_data import HELD_OUT, LABEL, TEXT_TOKENS, TRAIN, Data, pad
from pair_export import ready

DOCUMENTS = 8  # of a question


class Documents:
    """Pairs of neighbouring paragraphs of SQuAD's articles."""

    def __init__(self, data, tokenizer):
        self.data, self.places = data, Batches(data, tokenizer).places
        self.first = {}
        for text, article in enumerate(data.article):
            self.first.setdefault(article, text)

    def around(self, text):
        article = self.data.article[text]
        if article < 0:
            return (text,)
        begin = text - (text - self.first[article]) % 2
        return tuple(t for t in (begin, begin + 1) if t < len(self.data.article) and self.data.article[t] == article)

    def of(self, q):
        """The documents of BM25's best texts, best first."""
        listed = self.data.candidates[q]
        return list(dict.fromkeys(self.around(int(t)) for t in listed[listed >= 0][: 2 * DOCUMENTS]))[:DOCUMENTS]

    def holds(self, q, text):
        answer = self.data.answers[self.data.answers_offsets[q] : self.data.answers_offsets[q + 1]]
        return text == self.data.gold[q] or bool(self.places(self.data.body(text), answer, 0))


@torch.no_grad()
def read(pair, fuser, documents, q, alpha):
    """Of a question's documents: what the pair model's last layer sees, the fuser's score, whether they hold the answer."""
    data, found = documents.data, documents.of(q)
    rows = [np.concatenate([data.heading(d[0]), *(data.body(t) for t in d)])[:TEXT_TOKENS] for d in found]
    text_ids, text_mask = pad(rows)
    question_ids, question_mask = pad([data.question(q)])
    joint = pair.read(question_ids.expand(len(found), -1), question_mask.expand(len(found), -1), text_ids, text_mask)["joint"]
    passages = [np.concatenate([data.heading(t), data.body(t)]) for d in found for t in d]
    scores = fuser_export.scores(*fuser_export.run(fuser, data.question(q), passages), 4, False).split([len(d) for d in found])
    together = torch.stack([alpha * s.max() + (1 - alpha) * s.mean() for s in scores])
    return joint, together, torch.tensor([any(documents.holds(q, t) for t in d) for d in found])


def distil(weight, samples, top, args):
    """The weight of the relevance layer after BPR."""
    weight = weight.clone().requires_grad_(True)
    optimizer, rng = torch.optim.Adam([weight], lr=args.rate), np.random.default_rng(args.seed)
    for _ in range(args.epochs):
        for batch in np.array_split(rng.permutation(len(samples)), max(1, len(samples) // 16)):
            losses = []
            for joint, together, holds in (samples[i] for i in batch):
                right = holds.clone()
                right[together.topk(min(top, len(right))).indices] = True
                if not right.all():
                    scores = joint @ weight[0]
                    losses.append(-F.logsigmoid(scores[right].unsqueeze(1) - scores[~right].unsqueeze(0)).mean())
            if losses:
                optimizer.zero_grad()
                torch.stack(losses).mean().backward()
                optimizer.step()
    return weight.detach()


def report(name, samples, score):
    orders = [(holds, score(joint, together).argsort(descending=True, stable=True)) for joint, together, holds in samples]
    recall = [np.mean([float(holds[order[:k]].any()) for holds, order in orders]) for k in (1, 2, 4)]
    print(f"  {name:<34} AR@1 %.4f AR@2 %.4f AR@4 %.4f" % tuple(recall), flush=True)


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--questions", type=int, default=1000, help="trained on")
    parser.add_argument("--judged", type=int, default=400, help="held-out questions")
    parser.add_argument("--alpha", type=float, default=0.75)
    parser.add_argument("--rate", type=float, default=0.003)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    started = time.time()
    tokenizer = wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer"))
    data = Data(args.work, tokenizer)
    documents = Documents(data, tokenizer)
    pair, fuser = ready(args.work)[0], fuser_export.ready(args.work)

    def some(splits, count, seed):
        asked = np.concatenate([data.asked(s, spans_only=True) for s in splits])
        asked = asked[data.article[data.gold[asked]] >= 0]
        asked = np.random.default_rng(seed).permutation(asked)[:count]
        return [read(pair, fuser, documents, q, args.alpha) for q in asked if len(documents.of(q)) > 1]

    judged = some((HELD_OUT,), args.judged, 5)
    samples = some((TRAIN, LABEL), args.questions, 6)
    print(f"{len(judged)} held-out questions, {len(samples)} trained on, up to {DOCUMENTS} documents each; {time.time() - started:.0f} s")
    weight = pair.relevance.weight.detach()
    report("BM25's order", judged, lambda joint, together: -torch.arange(len(together)).float())
    report("fuser's scores, aggregated", judged, lambda joint, together: together)
    report("pair", judged, lambda joint, together: joint @ weight[0])
    for top in (1, 2):
        learnt = distil(weight, samples, top, args)
        report(f"pair, distilled, best {top} positive", judged, lambda joint, together: joint @ learnt[0])


if __name__ == "__main__":
    main()
