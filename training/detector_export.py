"""Adds the trained detector to a pack: its graph, its section of the manifest and its goldens."""

import numpy as np
import torch

import corpora
import detector
import detector_data
import export
import pack
import shipped

# Pairs of has_answer and llm_prefer, best sum first, for the goldens.
PAIRS = [(4.1, 1.6), (2.75, -0.4), (1.9, -1.1), (0.3, -1.5), (-0.6, -2.2), (-0.9, -2.75), (-1.4, -3.1), (-2.2, -3.0), (-2.6, -3.9), (-3.5, -4.25)]


def write_graph(path, model):
    torch.onnx.export(
        model, (torch.randn(2, 2 * detector_data.WINDOWS),), path, input_names=["scores"], output_names=["enough"],
        dynamic_axes={"scores": {0: "n"}, "enough": {0: "n"}}, opset_version=export.OPSET,
    )


@torch.no_grad()
def make_goldens(model):
    """Prefixes of PAIRS, of PAIRS without the best ones, and no text at all."""
    out = []
    for pairs in [PAIRS[:n] for n in (0, 1, 2, 5, 10)] + [PAIRS[3:6], PAIRS[7:]]:
        flat = [x for pair in pairs for x in pair] + [0.0] * (2 * (detector_data.WINDOWS - len(pairs)))
        out.append({"pairs": [list(p) for p in pairs], "enough": float(np.float32(model(torch.tensor([flat]))[0]))})
    return out


def section(folder, threshold):
    return f"""\
# scores: float32 [n, {2 * detector_data.WINDOWS}] (has_answer and llm_prefer of at most {detector_data.WINDOWS} windows, best sum first, zeros behind them) -> enough: float32 [n],
# a probability (FIT-RAG's eligible-augmentation detector). training/detector.py calibrates threshold: the lowest that loses at most
# {100 * detector.ALLOWED:g} % of the right answers that all windows give.
detector:
{pack.file_lines(folder, "detector.onnx")}  threshold: {threshold:.2f}
"""


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--pack", type=corpora.Path, default=shipped.PACK)
    parser.add_argument("--version", default=None, help="new version of the pack")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    state = torch.load(corpora.intermediate(args.work, "detector.pt", "detector"))
    model = detector.Detector()
    model.load_state_dict(state["model"])
    model.eval()
    write_graph(args.pack / "detector.onnx", model)
    pack.put_goldens(args.pack, "detector", make_goldens(model))
    pack.put_section(args.pack, "detector", section(args.pack, state["threshold"]), args.version)
    print(f"{(args.pack / 'detector.onnx').stat().st_size:>10} detector.onnx")


if __name__ == "__main__":
    main()
