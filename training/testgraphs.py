"""Writes the graphs that the model server's tests run: tiny, random, of the same inputs and outputs as the pack's.

They say nothing true about any text. Their goldens are computed here by PyTorch. One command, seconds, no data:
python3 testgraphs.py
"""

import json

import torch

import corpora
import wordpiece

OUT = corpora.TRAINING.parent / "internal" / "inference" / "inferencetest" / "testdata"
OPSET = 17
BUCKETS = 61  # token ids share this many vectors, so that a graph has a few KB
WIDTH = 8
DIMENSION = 256  # of the default pack's vectors; only the first 16 are looked at
SEEN = 16
NEVER = -1e4

QUESTION = "Which instrument measures the water level?"
TEXTS = [
    "The water level is measured by a float gauge.",
    "Bees live in colonies.",
    "The naïve café – it’s 12.5 km from Zürich – opens in 1999, and the gauge on its wall shows the level of the lake.",
    "level",
    "",
]


def pooled(rows, mask):
    return (rows * mask.unsqueeze(2)).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


class Pair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(BUCKETS, WIDTH))
        self.heads = torch.nn.Linear(2 * WIDTH, 3)
        self.ends = torch.nn.Linear(WIDTH, 2)

    def forward(self, question_ids, question_mask, text_ids, text_mask):
        asked = pooled(self.table[question_ids % BUCKETS], question_mask.float())
        rows = self.table[text_ids % BUCKETS] * asked.unsqueeze(1)
        scores = 5 * self.heads(torch.cat([pooled(rows, text_mask.float()), asked], 1))
        ends = 5 * self.ends(rows) + (1 - text_mask.float()).unsqueeze(2) * NEVER
        return scores, ends[:, :, 0], ends[:, :, 1]


class Linker(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query = torch.nn.Parameter(torch.randn(2, SEEN, 4))
        self.key = torch.nn.Parameter(torch.randn(2, SEEN, 4))

    def forward(self, vectors, mask):
        seen = vectors[:, :, :SEEN].unsqueeze(1)
        raw = 4 * torch.matmul(torch.matmul(seen, self.query), torch.matmul(seen, self.key).transpose(2, 3))
        raw = raw + (1 - mask.float()).unsqueeze(1).unsqueeze(1) * NEVER
        return raw.softmax(3).mean(1)


class Fuser(torch.nn.Module):
    """Two layers of two heads; the second layer's query has seen all passages through the first."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(BUCKETS, WIDTH))
        self.first = torch.nn.Parameter(torch.randn(2, WIDTH))
        self.mix = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, input_ids, attention_mask, passage_mask):
        n, length = input_ids.shape
        rows = self.table[input_ids % BUCKETS] + 0.5 * passage_mask.float().unsqueeze(2)
        one = torch.einsum("hd,nld->hnl", self.first, rows)
        joint = (one + (1 - attention_mask.float()).unsqueeze(0) * NEVER).reshape(2, -1).softmax(1)
        context = torch.matmul(joint, rows.reshape(-1, WIDTH))
        two = torch.einsum("hd,nld->hnl", self.mix(context), rows)
        return torch.cat([one, two], 0)


class Detector(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(20, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

    def forward(self, scores):
        return torch.sigmoid(self.layers(scores)).squeeze(1)


def export(name, model, inputs, outputs):
    """inputs and outputs map a name to its tensor and its dynamic axes."""
    torch.onnx.export(
        model,
        tuple(tensor for tensor, _ in inputs.values()),
        OUT / f"{name}.onnx",
        input_names=list(inputs),
        output_names=list(outputs),
        dynamic_axes={**{k: axes for k, (_, axes) in inputs.items()}, **outputs},
        opset_version=OPSET,
    )


def floats(tensor):
    return [floats(t) for t in tensor] if tensor.dim() else round(float(tensor), 6)


def row(ids):
    return torch.tensor([ids], dtype=torch.int64)


def ones(ids):
    return torch.ones(1, len(ids), dtype=torch.int64)


def best_span(start, end, longest=30):
    sums = [(float(s + e), i, i + j) for i, s in enumerate(start) for j, e in enumerate(end[i : i + longest])]
    return max(sums, key=lambda s: s[0])


def pair_goldens(model, tokenizer):
    question = tokenizer.encode(QUESTION)
    out = []
    for text in TEXTS:
        ids = tokenizer.encode(text)
        golden = {"text": text, "ids": ids}
        if ids:
            scores, start, end = model(row(question), ones(question), row(ids), ones(ids))
            score, first, last = best_span(start[0], end[0])
            golden.update(scores=floats(scores[0]), first=first, last=last, span=round(score, 6))
        out.append(golden)
    return {"question": QUESTION, "question_ids": question, "texts": out}


def linker_goldens(model):
    out = []
    for n in (2, 5, 7):
        vectors = torch.nn.functional.normalize(torch.randn(1, n, DIMENSION), dim=2)
        vectors = (vectors * 1000).round() / 1000
        out.append({"vectors": floats(vectors[0, :, :SEEN]), "attention": floats(model(torch.nn.functional.pad(
            vectors[:, :, :SEEN], (0, DIMENSION - SEEN)), torch.ones(1, n, dtype=torch.int64))[0])})
    return out


def fuser_goldens(model, tokenizer, limit=12, question_limit=6):
    """Each setting's scores are eq. 3's: mean over layers and heads of the mean of a passage's highest raw scores."""
    question = tokenizer.encode(QUESTION)[:question_limit]
    passages = [tokenizer.encode(text)[: limit - len(question)] for text in TEXTS if tokenizer.encode(text)]
    width = max(len(question) + len(p) for p in passages)
    ids, mask, passage = (torch.zeros(len(passages), width, dtype=torch.int64) for _ in range(3))
    for i, p in enumerate(passages):
        tokens = question + p
        ids[i, : len(tokens)] = torch.tensor(tokens)
        mask[i, : len(tokens)] = 1
        passage[i, len(question) : len(tokens)] = 1
    raw = model(ids, mask, passage)
    out = []
    for tokens in (4, 1, 100):
        for with_question in (False, True):
            scores = []
            for i in range(len(passages)):
                taken = raw[:, i][:, (mask if with_question else passage)[i].bool()]
                scores.append(float(taken.topk(min(tokens, taken.shape[1]), dim=1)[0].mean(1).mean()))
            out.append({"tokens": tokens, "with_question": with_question, "scores": [round(s, 6) for s in scores]})
    return {"question": QUESTION, "texts": [t for t in TEXTS if tokenizer.encode(t)], "settings": out}


def detector_goldens(model):
    out = []
    for n in (0, 1, 4, 10):
        pairs = [[round(float(x), 3) for x in torch.randn(2) * 3] for _ in range(n)]
        flat = [x for p in pairs for x in p] + [0.0] * (20 - 2 * n)
        out.append({"pairs": pairs, "enough": floats(model(torch.tensor([flat]))[0])})
    return out


def main():
    torch.manual_seed(20)
    tokenizer = wordpiece.Tokenizer.load(corpora.TRAINING.parent / "models" / "default" / "tokenizer.json")
    OUT.mkdir(parents=True, exist_ok=True)
    ids = torch.randint(2, 1000, (2, 5))
    text, mask = {0: "n", 1: "t"}, torch.ones_like(ids)
    pair, linker, fuser, detector = Pair().eval(), Linker().eval(), Fuser().eval(), Detector().eval()
    scores = ({"question_ids": (ids, {0: "n", 1: "q"}), "question_mask": (mask, {0: "n", 1: "q"}), "text_ids": (ids, text), "text_mask": (mask, text)},
              {"scores": {0: "n"}, "start": text, "end": text})
    export("pair", pair, *scores)
    export("linker", linker, {"vectors": (torch.randn(2, 3, DIMENSION), {0: "n", 1: "p"}), "mask": (torch.ones(2, 3, dtype=torch.int64), {0: "n", 1: "p"})},
           {"attention": {0: "n", 1: "p", 2: "p"}})
    axes = {0: "n", 1: "l"}
    export("fuser", fuser, {"input_ids": (ids, axes), "attention_mask": (mask, axes), "passage_mask": (mask, axes)}, {"attention": {1: "n", 2: "l"}})
    export("detector", detector, {"scores": (torch.randn(2, 20), {0: "n"})}, {"enough": {0: "n"}})
    with torch.no_grad():
        document = {"pair": pair_goldens(pair, tokenizer), "linker": linker_goldens(linker), "fuser": fuser_goldens(fuser, tokenizer), "detector": detector_goldens(detector)}
        torch.manual_seed(21)
        reranker = Pair().eval()  # of the same form, and another function
        document["reranker"] = pair_goldens(reranker, tokenizer)
    export("reranker", reranker, *scores)
    (OUT / "goldens.json").write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    for path in sorted(OUT.iterdir()):
        print(f"{path.stat().st_size:>10} {path.name}")


if __name__ == "__main__":
    main()
