"""The linker of the pack `large`: the rule that the default pack's linker begins as, with nothing learnt.

Passages attend to the nearest, and a step between two neighbours is the longer the less alike they are (linker.Gaps). What was
trained is no better than the rule (models/default/MODEL_CARD.md), so for vectors of another encoder the rule is what there is.
"""

import torch
import torch.nn.functional as F

import corpora
import goldens
import large
import large_encoder
import linker
import linker_export
import pack


class Rule(torch.nn.Module):
    """vectors [n, p, d], mask [n, p] (int64, 1: a passage) -> attention [n, p, p]."""

    def __init__(self):
        super().__init__()
        self.gaps = linker.Gaps()
        self.slope = linker.Layer(4, 4).slope

    def forward(self, vectors, mask):
        places = self.gaps(vectors, mask.float())
        apart = (places.unsqueeze(2) - places.unsqueeze(1)).abs().unsqueeze(1)
        bias = (1 - mask.float()).unsqueeze(1).unsqueeze(1) * -1e4 - torch.eye(vectors.shape[1]) * 1e5
        return torch.softmax(bias - apart * F.softplus(self.slope).view(1, -1, 1, 1), dim=3).mean(dim=1)


def section(folder):
    return f"""\
# vectors: float32 [n, p, {large_encoder.WIDTH}] (of passages, in order), mask: int64 [n, p] -> attention: float32 [n, p, p]; a passage
# does not attend to itself. Nothing is learnt: it is the rule that the default pack's linker begins as (training/large_linker.py).
linker:
{pack.file_lines(folder, "linker.onnx")}  max_passages: {linker.WINDOW}
"""


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--pack", type=corpora.Path, default=large.PACK)
    parser.add_argument("--measure", action="store_true", help="also measure it, on QMSum's and FairytaleQA's development splits")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    embedder = large_encoder.Embedder(args.work, args.pack, args.threads)
    encode = lambda texts: torch.from_numpy(embedder.texts(texts))
    model = Rule().eval()
    linker_export.write_graph(args.pack / "linker.onnx", model, large_encoder.WIDTH)
    pack.put_goldens(args.pack, "linker", linker_export.make_goldens(model, encode, [goldens.SENTENCES[:2], goldens.SENTENCES[:13]]))
    pack.put_section(args.pack, "linker", section(args.pack))
    print(f"{(args.pack / 'linker.onnx').stat().st_size:>10} linker.onnx")
    if args.measure:
        keeps = (1, 3, 5, 10)
        for name, texts in linker.measured(encode, "val", slice(None)).items():
            for way, rule in {"rule": lambda v, k: linker.links(model, v, k), "adjacent": linker.adjacent, "nearest": linker.nearest}.items():
                print(f"{name} {way:10} " + " ".join("%.4f" % x for x in linker.co_evidence(texts, rule, keeps)), flush=True)


if __name__ == "__main__":
    main()
