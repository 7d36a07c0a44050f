"""Adds the trained linker to a pack: its graph, its section of the manifest and its goldens."""

import numpy as np
import torch

import corpora
import goldens
import linker
import pack
import segmenter_export
import shipped


def write_graph(path, model, dimension=256):
    vectors, mask = torch.randn(2, 9, dimension), torch.ones(2, 9, dtype=torch.long)
    torch.onnx.export(
        model,
        (vectors, mask),
        path,
        input_names=["vectors", "mask"],
        output_names=["attention"],
        dynamic_axes={"vectors": {0: "n", 1: "p"}, "mask": {0: "n", 1: "p"}, "attention": {0: "n", 1: "p", 2: "p"}},
        **segmenter_export.EXPORT,
    )


@torch.no_grad()
def make_goldens(model, encode, documents):
    """Each document alone: its passages' texts, and the attention between them row by row."""
    out = []
    for passages in documents:
        attention = model(encode(passages).unsqueeze(0), torch.ones(1, len(passages), dtype=torch.long))[0]
        out.append({"passages": passages, "attention": [[float(np.float32(x)) for x in row] for row in attention]})
    return out


def section(folder):
    return f"""\
# vectors: float32 [n, p, 256] (of passages, in order), mask: int64 [n, p] -> attention: float32 [n, p, p], averaged over layers
# and heads; a passage does not attend to itself. In effect a rule of adjacency, not the model of SAKI-RAG's SentenceAttnLinker (MODEL_CARD.md).
linker:
{pack.file_lines(folder, "linker.onnx")}  max_passages: {linker.WINDOW}
"""


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--pack", type=corpora.Path, default=shipped.PACK)
    parser.add_argument("--version", default=None, help="new version of the pack")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = linker.Linker()
    model.load_state_dict(torch.load(corpora.intermediate(args.work, "linker.pt", "linker"))["model"])
    model.eval()
    write_graph(args.pack / "linker.onnx", model)
    documents = [goldens.SENTENCES[:2], goldens.SENTENCES[:13]]
    pack.put_goldens(args.pack, "linker", make_goldens(model, shipped.Encoder(args.pack).encode, documents))
    pack.put_section(args.pack, "linker", section(args.pack), args.version)
    print(f"{(args.pack / 'linker.onnx').stat().st_size:>10} linker.onnx")


if __name__ == "__main__":
    main()
