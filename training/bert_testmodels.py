"""Writes small, randomly initialised models of the BERT family as Hugging Face folders, for the model server's tests.

They say nothing true about any text: they have the inputs, outputs, parameter names and files of real ones. Goldens are
computed here by PyTorch in fp32, one text at a time and without padding. One command, seconds, no data:
python3 bert_testmodels.py
"""

import copy
import json
import math

import torch

import corpora
import wordpiece

TESTS = corpora.TRAINING.parent / "internal" / "inference"
OUT = TESTS / "modelpack" / "testdata"
OPSET = 17
WIDTH, LAYERS, HEADS, INNER, POSITIONS = 32, 2, 4, 64, 48

TEXTS = [
    "hello",
    "Hello, World!",
    "the unaffable tokenizer says hello to the world",
    "a question? and an answer.",
    "Straße, naïve coöperate – İstanbul",
    "xyz 12345 unaffable ☃ 漢字",
    "hello " * 60,
]
QUESTION = "what says the unaffable tokenizer?"


class Embeddings(torch.nn.Module):
    def __init__(self, vocabulary, types):
        super().__init__()
        self.word_embeddings = torch.nn.Embedding(vocabulary, WIDTH)
        self.position_embeddings = torch.nn.Embedding(POSITIONS, WIDTH)
        if types:
            self.token_type_embeddings = torch.nn.Embedding(2, WIDTH)
        self.LayerNorm = torch.nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, ids, types):
        positions = torch.arange(ids.shape[1], device=ids.device)
        total = self.word_embeddings(ids) + self.position_embeddings(positions)
        if types is not None:
            total = total + self.token_type_embeddings(types)
        return self.LayerNorm(total)


class SelfAttention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, states, mask):
        def split(x):
            return x.view(x.shape[0], x.shape[1], HEADS, WIDTH // HEADS).transpose(1, 2)

        query, key, value = split(self.query(states)), split(self.key(states)), split(self.value(states))
        raw = query @ key.transpose(2, 3) / math.sqrt(WIDTH // HEADS)
        raw = raw + (1 - mask.float())[:, None, None, :] * torch.finfo(torch.float32).min
        return (raw.softmax(-1) @ value).transpose(1, 2).reshape(states.shape)


class Output(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.dense = torch.nn.Linear(width, WIDTH)
        self.LayerNorm = torch.nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, states, residual):
        return self.LayerNorm(self.dense(states) + residual)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.ModuleDict({"self": SelfAttention(), "output": Output(WIDTH)})
        self.intermediate = torch.nn.ModuleDict({"dense": torch.nn.Linear(WIDTH, INNER)})
        self.output = Output(INNER)

    def forward(self, states, mask):
        states = self.attention["output"](self.attention["self"](states, mask), states)
        return self.output(torch.nn.functional.gelu(self.intermediate["dense"](states)), states)


class Bert(torch.nn.Module):
    """BertModel, or without token types and pooler DistilBertModel, in BertModel's parameter names."""

    def __init__(self, vocabulary, types=True):
        super().__init__()
        self.embeddings = Embeddings(vocabulary, types)
        self.encoder = torch.nn.ModuleDict({"layer": torch.nn.ModuleList(Layer() for _ in range(LAYERS))})
        if types:
            self.pooler = torch.nn.ModuleDict({"dense": torch.nn.Linear(WIDTH, WIDTH)})

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        states = self.embeddings(input_ids, token_type_ids)
        for layer in self.encoder["layer"]:
            states = layer(states, attention_mask)
        if token_type_ids is None:
            return states
        return states, torch.tanh(self.pooler["dense"](states[:, 0]))


class Classifier(torch.nn.Module):
    """BertForSequenceClassification."""

    def __init__(self, vocabulary, labels, types):
        super().__init__()
        self.bert = Bert(vocabulary, types)
        self.classifier = torch.nn.Linear(WIDTH, labels)

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        out = self.bert(input_ids, attention_mask, token_type_ids)
        return 4 * self.classifier(out[0][:, 0] if isinstance(out, tuple) else out[:, 0])


class SentenceEmbedding(torch.nn.Module):
    """An encoder whose graph pools, as optimum exports sentence-transformers."""

    def __init__(self, bert, dimension):
        super().__init__()
        self.bert, self.project = bert, torch.nn.Linear(WIDTH, dimension)

    def forward(self, input_ids, attention_mask):
        states = self.project(self.bert(input_ids, attention_mask))
        mask = attention_mask.float().unsqueeze(2)
        return states, (states * mask).sum(1) / mask.sum(1)


class Int8Product(torch.autograd.Function):
    """x @ weight with weight in int8 and x quantised as it comes, as onnxruntime's dynamic quantisation does it."""

    @staticmethod
    def forward(ctx, x, weight, scale):
        return x @ (weight.float() * scale)

    @staticmethod
    def symbolic(g, x, weight, scale):
        values, x_scale, x_zero = g.op("DynamicQuantizeLinear", x, outputs=3)
        product = g.op("MatMulInteger", values, weight, x_zero)
        return g.op("Mul", g.op("Cast", product, to_i=1), g.op("Mul", x_scale, scale))


class Int8Linear(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        scale = linear.weight.detach().abs().max() / 127
        self.register_buffer("weight", (linear.weight.detach().t() / scale).round().to(torch.int8).contiguous())
        self.register_buffer("scale", scale)
        self.register_buffer("bias", linear.bias.detach())

    def forward(self, x):
        return Int8Product.apply(x, self.weight, self.scale) + self.bias


class HalfLinear(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.register_buffer("weight", linear.weight.detach().half())
        self.register_buffer("bias", linear.bias.detach().half())

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight.float(), self.bias.float())


class HalfEmbedding(torch.nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.register_buffer("weight", embedding.weight.detach().half())

    def forward(self, ids):
        return torch.nn.functional.embedding(ids, self.weight).float()


def converted(module, kinds):
    """A copy of the module with some kinds of parts replaced."""
    copied = copy.deepcopy(module)

    def walk(parent):
        for name, child in list(parent.named_children()):
            replace = kinds.get(type(child))
            if replace:
                parent._modules[name] = replace(child)
            else:
                walk(child)

    walk(copied)
    return copied


def export(module, path, outputs, types, opset=OPSET):
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = torch.randint(5, 20, (2, 7))
    inputs = (ids, torch.ones_like(ids)) + ((torch.zeros_like(ids),) if types else ())
    names = ["input_ids", "attention_mask"] + (["token_type_ids"] if types else [])
    axes = {name: {0: "batch_size", 1: "sequence_length"} for name in names}
    for name, rank in outputs:
        axes[name] = {0: "batch_size", 1: "sequence_length"} if rank == 3 else {0: "batch_size"}
    torch.onnx.export(
        module.eval(), inputs, path, input_names=names, output_names=[name for name, _ in outputs], dynamic_axes=axes, opset_version=opset,
        do_constant_folding=False,  # it would write fp16 weights as fp32
    )


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    path.write_text(value, encoding="utf-8")


def floats(tensor):
    return [round(float(x), 7) for x in tensor.detach()]


def single(words, text):
    return [words.ids["[CLS]"]] + words.encode(text)[: POSITIONS - 2] + [words.ids["[SEP]"]]


def pair(words, question, text):
    """[CLS] question [SEP] text [SEP], the longer cut first; and the token types."""
    a, b = words.encode(question), words.encode(text)
    while len(a) + len(b) > POSITIONS - 3:
        (a if len(a) > len(b) else b).pop()
    cls, sep = words.ids["[CLS]"], words.ids["[SEP]"]
    return [cls] + a + [sep] + b + [sep], [0] * (len(a) + 2) + [1] * (len(b) + 1)


def encoder_goldens(words, embed):
    rows = []
    for text in TEXTS:
        ids = single(words, text)
        vector = embed(torch.tensor([ids]))[0]
        rows.append({"text": text, "ids": ids, "embedding": floats(vector / vector.norm())})
    return {"encoder": rows}


def pair_goldens(words, logits):
    rows = []
    for text in TEXTS:
        ids, types = pair(words, QUESTION, text)
        out = logits(torch.tensor([ids]), torch.tensor([types]))[0]
        score = out[0] if len(out) == 1 else out[1] - out[0]
        rows.append({"question": QUESTION, "text": text, "ids": ids, "relevance": float(score)})
    return {"pair": rows}


def configuration(kind, architecture, size, **more):
    config = {"model_type": kind, "architectures": [architecture], "max_position_embeddings": POSITIONS, "vocab_size": size}
    config |= {"dim": WIDTH} if kind == "distilbert" else {"hidden_size": WIDTH, "type_vocab_size": 2}
    return config | more


def pooling(folder, modes, normalise=True):
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")] + ([("Normalize", "2_Normalize")] if normalise else [])
    write(
        folder / "modules.json",
        [{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind} for i, (kind, path) in enumerate(modules)],
    )
    write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": WIDTH} | {f"pooling_mode_{k}": v for k, v in modes.items()})


def main():
    torch.manual_seed(20240229)
    torch.set_num_threads(1)
    source = json.loads((TESTS / "tokenizer" / "testdata" / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = source["model"]["vocab"]
    pieces = sorted(vocabulary, key=vocabulary.get)
    words = wordpiece.Tokenizer(pieces)
    cls, sep = vocabulary["[CLS]"], vocabulary["[SEP]"]
    source["post_processor"] = {"type": "BertProcessing", "sep": ["[SEP]", sep], "cls": ["[CLS]", cls]}
    ones = torch.ones_like

    # BERT with token types, mean pooling, a tokenizer.json; also in fp16 and int8.
    folder, model = OUT / "bert-mean", Bert(len(pieces)).eval()
    outputs = [("last_hidden_state", 3), ("pooler_output", 2)]
    export(model, folder / "onnx" / "model.onnx", outputs, True)
    half = {torch.nn.Linear: HalfLinear, torch.nn.Embedding: HalfEmbedding}
    export(converted(model, half), folder / "onnx" / "model_fp16.onnx", outputs, True)
    export(converted(model, {torch.nn.Linear: Int8Linear}), folder / "onnx" / "model_quantized.onnx", outputs, True)
    write(folder / "config.json", configuration("bert", "BertModel", len(pieces)))
    write(folder / "tokenizer.json", json.dumps(source, ensure_ascii=False))
    write(folder / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": POSITIONS})
    write(folder / "README.md", "---\nlicense: apache-2.0\n---\nRandom weights, for tests.\n")
    pooling(folder, {"cls_token": False, "mean_tokens": True, "max_tokens": False})
    write(folder / "goldens.json", encoder_goldens(words, lambda ids: model(ids, ones(ids), ids * 0)[0].mean(1)))

    # DistilBERT without token types, the first token's vector, a vocab.txt.
    folder, model = OUT / "distilbert-cls", Bert(len(pieces), types=False).eval()
    export(model, folder / "onnx" / "model.onnx", [("last_hidden_state", 3)], False)
    write(folder / "config.json", configuration("distilbert", "DistilBertModel", len(pieces)))
    write(folder / "vocab.txt", "".join(piece + "\n" for piece in pieces))
    write(folder / "tokenizer_config.json", {"tokenizer_class": "DistilBertTokenizer", "do_lower_case": True, "model_max_length": 512})
    pooling(folder, {"cls_token": True, "mean_tokens": False}, normalise=False)
    write(folder / "goldens.json", encoder_goldens(words, lambda ids: model(ids, ones(ids))[:, 0]))

    # A graph that pools, of a dimension that the store has.
    folder, model = OUT / "pooled-384", SentenceEmbedding(model, 384).eval()
    export(model, folder / "model.onnx", [("token_embeddings", 3), ("sentence_embedding", 2)], False)
    write(folder / "config.json", configuration("bert", "BertModel", len(pieces)))
    write(folder / "tokenizer.json", json.dumps(source, ensure_ascii=False))
    pooling(folder, {"cls_token": False, "mean_tokens": True})
    write(folder / "goldens.json", encoder_goldens(words, lambda ids: model(ids, ones(ids))[1]))

    # Cross-encoders with one logit and with two.
    for name, labels, types in [("cross-encoder", 1, True), ("cross-encoder-2", 2, False)]:
        folder, model = OUT / name, Classifier(len(pieces), labels, types).eval()
        export(model, folder / "onnx" / "model.onnx", [("logits", 2)], types)
        kind = ("bert", "BertForSequenceClassification") if types else ("distilbert", "DistilBertForSequenceClassification")
        write(folder / "config.json", configuration(*kind, len(pieces), id2label={str(i): f"LABEL_{i}" for i in range(labels)}))
        write(folder / "tokenizer.json", json.dumps(source, ensure_ascii=False))
        write(folder / "goldens.json", pair_goldens(words, lambda ids, t: model(ids, ones(ids), t) if types else model(ids, ones(ids))))

    for path in sorted(OUT.rglob("*")):
        if path.is_file():
            print(f"{path.stat().st_size:>8} {path.relative_to(OUT)}")


if __name__ == "__main__":
    main()
