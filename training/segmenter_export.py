"""Puts the segmenter's head into a pack that is there: its graph, its section of the manifest and its goldens.

The encoder stays: `segmenter.py --head` trains a head on the vectors that the pack has.
"""

import numpy as np
import torch

import corpora
import goldens
import pack
import segmenter
import shipped
import windows

OPSET = 17
# Of torch.onnx.export; later versions of PyTorch have another exporter too, which needs more packages.
EXPORT = {"opset_version": OPSET} | ({"dynamo": False} if torch.__version__ >= "2" else {})


def write_graph(path, head, dimension):
    vectors = torch.nn.functional.normalize(torch.randn(3, dimension), dim=1)
    torch.onnx.export(
        head,
        (vectors, vectors),
        path,
        input_names=["left", "right"],
        output_names=["score"],
        dynamic_axes={"left": {0: "places"}, "right": {0: "places"}, "score": {0: "places"}},
        **EXPORT,
    )


def floats(tensor):
    return [float(np.float32(x)) for x in tensor]


def make_goldens(tokenizer, embed, head, threshold, limit):
    """(segmenter, segmentation): pairs of vectors with their score; sections with the score of every place."""
    with torch.no_grad():
        left, right = embed(goldens.SENTENCES[:12]), embed(goldens.SENTENCES[1:13])
        pairs = [{"left": floats(a), "right": floats(b), "score": float(s)} for a, b, s in zip(left, right, head(left, right))]
        sections = []
        for sentences in goldens.SECTIONS:
            values = torch.zeros(0)
            if len(sentences) > 1:
                values = head(*windows.sides(embed(sentences), (np.arange(len(sentences)), None)))
            if any(abs(v - threshold) < 1e-3 for v in values.tolist()):
                continue  # rounding could move a boundary; the others are golden enough
            starts = [0] + [i + 1 for i, v in enumerate(values.tolist()) if v < threshold]
            ids = [tokenizer.encode(s)[:limit] for s in sentences]
            sections.append({"sentences": sentences, "ids": ids, "scores": floats(values), "starts": starts})
    return pairs, sections


def section(folder, threshold):
    return f"""\
# left, right: float32 [places, 256] -> score: float32 [places] in [0, 1]. left is the mean of the embeddings of up to `window`
# sentences before a place, right of those behind it, each `decay` times as heavy as the one nearer to the place; both of unit length.
# threshold is the calibrated equivalent of SAGE's ss = 0.55, at the rate of boundaries that articles have (training/segmenter_head.py).
segmenter:
{pack.file_lines(folder, "segmenter.onnx")}  threshold: {threshold:.4f}
  window: {windows.WIDTH}
  decay: {windows.DECAY}
"""


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--pack", type=corpora.Path, default=shipped.PACK)
    parser.add_argument("--version", default=None, help="new version of the pack")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    head, threshold = segmenter.load_head(args.work)
    encoder = shipped.Encoder()
    write_graph(args.pack / "segmenter.onnx", head, encoder.table.shape[1])
    pairs, sections = make_goldens(encoder.tokenizer, encoder.encode, head, threshold, encoder.limit)
    pack.put_goldens(args.pack, "segmenter", pairs)
    pack.put_goldens(args.pack, "segmentation", sections)
    pack.put_section(args.pack, "segmenter", section(args.pack, threshold), args.version)
    print(f"{(args.pack / 'segmenter.onnx').stat().st_size:>10} segmenter.onnx, threshold {threshold:.4f}")


if __name__ == "__main__":
    main()
