"""Gives a pair graph that is there the output `features`: what its heads of has_answer and llm_prefer are computed from.

pair_export.py writes that output by itself; this is for a graph of before, whose weights and other outputs stay as they are.
Needs the package onnx (requirements.txt).
"""

import hashlib
import pathlib
import sys

import onnx
from onnx import TensorProto, helper

OUTPUT = "features"


def expose(model):
    """Renames the tensor that feeds the first layer of the labels' head, and makes it an output. Returns its width."""
    graph = model.graph
    if OUTPUT in [o.name for o in graph.output]:
        raise ValueError(f"the graph has an output {OUTPUT} already")
    first = [n for n in graph.node if n.op_type == "Gemm" and "labels.0.weight" in n.input]
    weights = [i for i in graph.initializer if i.name == "labels.0.weight"]
    if len(first) != 1 or len(weights) != 1:
        raise ValueError("the graph has no head of labels that pair_export.py wrote")
    of, width = first[0].input[0], weights[0].dims[1]
    for node in graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name == of:
                    names[i] = OUTPUT
    for info in list(graph.value_info):
        if info.name == of:
            graph.value_info.remove(info)
    graph.output.append(helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["n", width]))
    onnx.checker.check_model(model)
    return width


def main():
    for path in map(pathlib.Path, sys.argv[1:]):
        model = onnx.load(path)
        width = expose(model)
        path.write_bytes(model.SerializeToString(deterministic=True))
        print(f"{path}: features [n, {width}], sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
