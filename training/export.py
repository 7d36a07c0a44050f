"""Writes the model pack from the checkpoints: graphs, tokenizer, goldens and manifest.

Goldens are computed here by PyTorch in fp32 from the shipped (fp16-rounded) weights, by
the training code's own path and not by the exported graph. verify.mjs runs the graphs.
"""

import shutil

import numpy as np
import torch

import batches
import corpora
import encoder
import goldens
import pack
import segmenter
import segmenter_export
import wordpiece

MAX_TOKENS = 512
OPSET = segmenter_export.OPSET
NAME = "sluice-default"
SPACE = "sluice-static-256-v1"


class EncoderGraph(torch.nn.Module):
    """The encoder over padded id rows: weighted sum of token vectors, unit length, zero for no tokens."""

    def __init__(self, table, power):
        super().__init__()
        self.table = torch.nn.Parameter(table.half(), requires_grad=False)
        self.power = power

    def forward(self, input_ids, attention_mask):
        mask = attention_mask.float()
        # How often each position's token is in its own text.
        same = (input_ids.unsqueeze(2) == input_ids.unsqueeze(1)).float()
        seen = torch.bmm(same, mask.unsqueeze(2)).squeeze(2).clamp(min=1)
        # n occurrences together weigh n ** power.
        weight = mask * seen ** (self.power - 1)
        rows = torch.nn.functional.embedding(input_ids, self.table).float()
        total = torch.bmm(weight.unsqueeze(1), rows).squeeze(1)
        return total / total.norm(dim=1, keepdim=True).clamp(min=1e-12)


def write_graphs(folder, table, power, head):
    ids = torch.randint(2, len(table), (2, 7))
    torch.onnx.export(
        EncoderGraph(table, power),
        (ids, torch.ones_like(ids)),
        folder / "encoder.onnx",
        input_names=["input_ids", "attention_mask"],
        output_names=["embedding"],
        dynamic_axes={
            "input_ids": {0: "batch", 1: "tokens"},
            "attention_mask": {0: "batch", 1: "tokens"},
            "embedding": {0: "batch"},
        },
        opset_version=OPSET,
    )
    segmenter_export.write_graph(folder / "segmenter.onnx", head, table.shape[1])


def make_goldens(tokenizer, table, power, head, threshold):
    def embed(texts):
        rows = [tokenizer.encode(text)[:MAX_TOKENS] for text in texts]
        owner = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
        flat = np.array([i for r in rows for i in r], np.int64)
        return encoder.embed(batches.pack(flat, owner, len(rows), len(tokenizer), power), table)

    pairs, sections = segmenter_export.make_goldens(tokenizer, embed, head, threshold, MAX_TOKENS)
    return {
        "tokenizer": [{"text": t, "ids": tokenizer.encode(t)} for t in goldens.TOKENIZER],
        "encoder": [
            {"text": t, "ids": tokenizer.encode(t)[:MAX_TOKENS], "embedding": segmenter_export.floats(v)}
            for t, v in zip(goldens.ENCODER, embed(goldens.ENCODER))
        ],
        "segmenter": pairs,
        "segmentation": sections,
    }


def manifest(folder, version, threshold, similarity):
    def file(name):
        return pack.file_lines(folder, name)

    return f"""\
# Written by training/export.py; MODEL_CARD.md says what the pack was made from.
format: 1
name: {NAME}
version: {version}
licence: Apache-2.0
space: {SPACE}
tokenizer:
{file("tokenizer.json")}  pad: "[PAD]"
  # No special tokens around a text: the encoder is a weighted sum of token vectors.
  before: []
  after: []
# input_ids, attention_mask: int64 [batch, tokens] -> embedding: float32 [batch, 256] of unit length
# (a zero vector for a text without tokens). Repeated tokens may be one position with their number in attention_mask (counts).
# similarity_threshold is our equivalent of ChunkRAG's theta = 0.8: at this cosine the chance that neighbouring
# sentences belong together is 0.55, as at the segmenter's threshold.
encoder:
{file("encoder.onnx")}  dimension: 256
  max_tokens: {MAX_TOKENS}
  counts: true
  scripts: [Latin]
  similarity_threshold: {similarity:.4f}
{segmenter_export.section(folder, threshold)}"""


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--pack", type=corpora.Path, default=corpora.TRAINING.parent / "models" / "default")
    parser.add_argument("--version", default="1.0.0")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    vocabulary = corpora.intermediate(args.work, "tokenizer.json", "tokenizer")
    tokenizer = wordpiece.Tokenizer.load(vocabulary)
    table, power, head, threshold = segmenter.load(args.work)

    args.pack.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(vocabulary, args.pack / "tokenizer.json")
    write_graphs(args.pack, table, power, head)
    document = make_goldens(tokenizer, table, power, head, threshold)
    pack.write_goldens(args.pack / "goldens.json", document)
    (args.pack / "manifest.yaml").write_text(manifest(args.pack, args.version, threshold, segmenter.load_similarity(args.work)), encoding="utf-8")
    for path in sorted(args.pack.iterdir()):
        print(f"{path.stat().st_size:>10} {path.name}")


if __name__ == "__main__":
    main()
