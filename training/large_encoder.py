"""The encoder of the pack `large`: bge-small-en-v1.5 as it is, in eight bits, its section of the manifest and its goldens.

Vectors are those of [CLS], of unit length. Weights and products have eight bits, with the ranges of activations fixed, as the
reranker's (reranker_export.py): what else is in a batch does not change a text's vector.
"""

import hashlib
import re

import numpy as np
import onnxruntime as ort
import torch
import torch.nn.functional as F

import batches
import corpora
import goldens
import large
import pack
import reranker_export
import teachers
import wordpiece

TEACHER = "bge"
WIDTH = 384
MAX_TOKENS = 512
VOCABULARY = reranker_export.VOCABULARY


class Graph(torch.nn.Module):
    """input_ids, attention_mask [n, l] -> embedding [n, 384]."""

    def __init__(self, bert):
        super().__init__()
        self.bert = bert

    def forward(self, input_ids, attention_mask):
        return F.normalize(self.bert(input_ids, attention_mask)[:, 0], dim=1)


def write_fp32(path, model):
    reranker_export.one_operator(model.bert)
    ids = torch.randint(1000, 2000, (3, 9))
    rows = {0: "batch", 1: "tokens"}
    torch.onnx.export(
        model,
        (ids, torch.ones_like(ids)),
        path,
        input_names=["input_ids", "attention_mask"],
        output_names=["embedding"],
        dynamic_axes={"input_ids": rows, "attention_mask": rows, "embedding": {0: "batch"}},
        opset_version=17,
        dynamo=False,
        custom_opsets={"com.microsoft": 1},
    )


class Words:
    """Texts to ids as the model server makes them: [CLS], a prompt, the text's tokens, [SEP]."""

    def __init__(self, vocabulary, prompt):
        self.tokenizer = wordpiece.Tokenizer.load(vocabulary)
        self.cls, self.sep = (self.tokenizer.ids[token] for token in (wordpiece.CLS, wordpiece.SEP))
        self.prompt = self.tokenizer.encode(prompt)

    def framed(self, ids, query=False):
        ids = [*(self.prompt if query else []), *ids]
        return [self.cls, *ids[: MAX_TOKENS - 2], self.sep]

    def passage(self, text):
        return self.framed(self.tokenizer.encode(text))

    def query(self, text):
        return self.framed(self.tokenizer.encode(text), True)


def padded(rows):
    """(ids, mask) of rows of ids."""
    ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
    mask = np.zeros_like(ids)
    for n, row in enumerate(rows):
        ids[n, : len(row)], mask[n, : len(row)] = row, 1
    return ids, mask


def in_batches(rows, run, tokens=4096):
    """[len(rows), 384]: what run gives of the padded batches, of rows of like length."""
    out = np.zeros((len(rows), WIDTH), np.float32)
    order, at = sorted(range(len(rows)), key=lambda i: -len(rows[i])), 0
    while at < len(order):
        some = order[at : at + max(1, tokens // len(rows[order[at]]))]
        out[some] = run(*padded([rows[i] for i in some]))
        at += len(some)
    return out


@torch.inference_mode()
def original(model, rows):
    """Vectors by the fp32 model."""
    return in_batches(rows, lambda ids, mask: model(torch.from_numpy(ids), torch.from_numpy(mask)).numpy())


def shipped(path, threads):
    """A function from rows of ids to vectors, by the graph that is shipped."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(str(path), options)
    return lambda rows: in_batches(rows, lambda ids, mask: session.run(None, {"input_ids": ids, "attention_mask": mask})[0])


class Embedder:
    """Texts to vectors as the model server makes them, by the graph of a pack."""

    def __init__(self, work, folder, threads):
        self.words = Words(folder / VOCABULARY, teachers.load(TEACHER, work).prefix)
        self.run = shipped(folder / "encoder.onnx", threads)

    def texts(self, texts):
        return self.run([self.words.passage(text) for text in texts])

    def questions(self, texts):
        return self.run([self.words.query(text) for text in texts])


def sample(corpus, words, passages, sentences, questions, seed):
    """Rows of passages, sentences and questions of the training texts."""
    rng, flat = np.random.default_rng(seed), corpus.flat

    def some(count, all, span, query=False):
        return [words.framed(flat[first:last].tolist(), query) for first, last in (span(i) for i in rng.permutation(all)[:count])]

    return (some(passages, len(corpus.passages) - 1, corpus.passage)
            + some(sentences, len(corpus.sentences) - 1, lambda i: corpus.sentences[i : i + 2])
            + some(questions, len(corpus.question_passage), corpus.question, True))


def make_goldens(model, words):
    """What the fp32 original gives."""
    rows = [(text, "query", words.query(text)) for text in goldens.QUESTIONS]
    rows += [(text, "passage", words.passage(text)) for text in goldens.ENCODER]
    unknown = words.tokenizer.ids[wordpiece.UNK]
    rows = [row for row in rows if any(i != unknown for i in row[2][1:-1])]
    return [{"text": text, "kind": kind, "ids": ids, "embedding": [float(x) for x in vector]}
            for (text, kind, ids), vector in zip(rows, original(model, [row[2] for row in rows]))]


def section(folder, prompt, tolerance):
    digest = hashlib.sha256((folder / VOCABULARY).read_bytes()).hexdigest()
    return f"""\
# input_ids, attention_mask: int64 [batch, tokens] -> embedding: float32 [batch, {WIDTH}], [CLS]'s vector at unit length.
# bge-small-en-v1.5, weights and products in eight bits; tolerance is for how far vectors are from the fp32 original's on the goldens.
encoder:
{pack.file_lines(folder, "encoder.onnx")}  scripts: [Latin]
  tolerance: {tolerance:.3f}
  licence: MIT
  source: BAAI/bge-small-en-v1.5
  tokenizer:
    file: {VOCABULARY}
    sha256: {digest}
    pad: "[PAD]"
    before: ["[CLS]"]
    after: ["[SEP]"]
  dimension: {WIDTH}
  max_tokens: {MAX_TOKENS}
  prompts:
    query: "{prompt}"
"""


def put_similarity(folder, value):
    """Writes the encoder's similarity threshold, which is found on its vectors (large_segmenter.py)."""
    path = folder / "manifest.yaml"
    text = path.read_text(encoding="utf-8")
    own = large.section("encoder").search(text).group()
    new = re.sub(r"^  similarity_threshold:.*\n", "", own, flags=re.MULTILINE) + f"  similarity_threshold: {value:.4f}\n"
    path.write_text(text.replace(own, new), encoding="utf-8")


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--pack", type=corpora.Path, default=large.PACK)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    teacher = teachers.load(TEACHER, args.work)
    model, vocabulary = Graph(teacher.bert).eval(), corpora.intermediate(args.work, "tokenizer.json", "reranker-prepare")
    corpus, words = batches.Corpus(args.work), Words(vocabulary, teacher.prefix)
    names = ("input_ids", "attention_mask")
    calibration = sample(corpus, words, 150, 300, 150, seed=5)
    calibration = [dict(zip(names, padded(calibration[i : i + 4]))) for i in range(0, len(calibration), 4)]
    reranker_export.write_graph(args.pack / "encoder.onnx", model, calibration, write_fp32)
    (args.work / "large_vectors.npz").unlink(missing_ok=True)  # of the graph before
    run = shipped(args.pack / "encoder.onnx", args.threads)
    for name, counts in {"passages": (300, 0, 0), "sentences": (0, 500, 0), "questions": (0, 0, 500)}.items():
        rows = sample(corpus, words, *counts, seed=6)
        cosine = (original(model, rows) * run(rows)).sum(1)
        print(f"{name}: cosine to the fp32 original {cosine.mean():.4f} on average, {np.quantile(cosine, 0.01):.4f} and above for 99 %")
    rows = make_goldens(model, words)
    worst = np.abs(run([row["ids"] for row in rows]) - np.array([row["embedding"] for row in rows])).max()
    pack.put_goldens(args.pack, "encoder", rows)
    pack.put_section(args.pack, "encoder", section(args.pack, teacher.prefix, 1.5 * worst))
    print(f"{(args.pack / 'encoder.onnx').stat().st_size:>10} encoder.onnx; goldens differ by {worst:.4f} at most")


if __name__ == "__main__":
    main()
