"""Changes to the reranker's graph that give the same numbers, but for rounding, in less time, and need neither training nor data.

    python3 reranker_graph.py ../models/default ../models/large    # changes the graph of packs that are there

- Queries, keys and values are three products: one, and cutting its result into three, takes longer.
- Attention has two forms, and a run takes the one without a mask if nothing of its batch is masked.
"""

import argparse
import re
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

import pack

PARTS = ("query", "key", "value")
# What a product of ONNX Runtime's, MatMulIntegerToFloat, has an entry of for each of its columns, by its number among the inputs.
COLUMNS = {1: "weight_quantized", 3: "weight_scale", 5: "weight_zero_point", 6: "bias"}


class Graph:
    """A graph with the nodes and the constants by what they make."""

    def __init__(self, graph):
        self.graph = graph
        self.constants = {i.name: i for i in graph.initializer}

    def maker(self, name):
        return next(node for node in self.graph.node if name in node.output)

    def graphs(self):
        """The graph and all those within its nodes."""
        found = [self.graph]
        for graph in found:
            found.extend(a.g for node in graph.node for a in node.attribute if a.type == AttributeProto.GRAPH)
        return found

    def constant(self, name, value):
        """Adds a constant, or finds the one of that name."""
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.asarray(value), name)
            self.graph.initializer.append(self.constants[name])
        return name

    def insert(self, before, *nodes):
        at = list(self.graph.node).index(before)
        for i, node in enumerate(nodes):
            self.graph.node.insert(at + i, node)

    def prune(self):
        """Takes out the nodes and the constants that no output needs."""
        while True:
            used = {name for graph in self.graphs() for node in graph.node for name in node.input} | {o.name for o in self.graph.output}
            unused = [node for node in self.graph.node if used.isdisjoint(node.output)]
            if not unused:
                break
            for node in unused:
                self.graph.node.remove(node)
        for constant in [i for i in self.graph.initializer if i.name not in used]:
            self.graph.initializer.remove(constant)


def hidden(number):
    """The name of what so many layers make of the tokens, in fp32; with _quantized it is in eight bits."""
    return f"/bert/layers.{number - 1}/norm2/LayerNormalization_output_0"


def mask(g):
    """The name of the mask of all tokens, in a graph that attend_without_mask changed."""
    return g.maker("unmasked_least").input[0]


def layers(g):
    """The attention of the layers, in their order, as far as it is a node of the graph itself."""
    return [node for node in g.graph.node if node.op_type == "MultiHeadAttention"]


def three_products(g):
    """Has each layer's queries, keys and values computed by a product each."""
    for number, attention in enumerate(layers(g)):
        cuts = [g.maker(name) for name in attention.input[:3]]
        if cuts[0].op_type != "Slice":
            continue
        product = g.maker(cuts[0].input[0])
        for i, (part, cut) in enumerate(zip(PARTS, cuts)):
            inputs = list(product.input)
            for at, kind in COLUMNS.items():
                columns = np.split(numpy_helper.to_array(g.constants[product.input[at]]), 3, -1)[i]
                inputs[at] = g.constant(f"bert.layers.{number}.{part}.{kind}", columns)
            g.insert(product, helper.make_node(product.op_type, inputs, [cut.output[0]], domain=product.domain))
            g.graph.node.remove(cut)


def either(attention, prefix):
    """A node that does what an attention with a mask does, without the mask if nothing is masked; prefix: of the names of its two forms."""

    def branch(form, inputs):
        out = prefix + form
        node = helper.make_node(attention.op_type, inputs, [out], domain=attention.domain)
        node.attribute.extend(attention.attribute)
        return helper.make_graph([node], out + "_graph", [], [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)])

    whole, masked = branch("whole", attention.input[:3]), branch("masked", attention.input)
    return helper.make_node("If", ["unmasked"], attention.output, then_branch=whole, else_branch=masked)


def attend_without_mask(g):
    """Has a run in which nothing is masked leave the mask out of the attention, where adding it takes a quarter of the time."""
    attentions = layers(g)
    if not attentions:
        return
    mask = attentions[0].input[4]
    g.insert(
        attentions[0],
        helper.make_node("ReduceMin", [mask], ["unmasked_least"], keepdims=0),
        helper.make_node("Cast", ["unmasked_least"], ["unmasked"], to=TensorProto.BOOL),
    )
    for number, attention in enumerate(attentions):
        g.insert(attention, either(attention, f"attention_{number}_"))
        g.graph.node.remove(attention)


def shorten(path):
    """Makes the changes to the graph in a file, as far as it is without them."""
    model = onnx.load(path)
    g = Graph(model.graph)
    three_products(g)
    attend_without_mask(g)
    g.prune()
    onnx.checker.check_model(model)
    onnx.save(model, path)


def whole_products(values):
    """The constants of a graph, with the queries', keys' and values' put together again."""
    out = {}
    for name, value in values.items():
        found = re.fullmatch(rf"(bert\.layers\.\d+)\.({'|'.join(PARTS)})\.(.+)", name)
        if not found:
            out[name] = value
        elif found[2] == PARTS[0]:
            out[f"{found[1]}.qkv.{found[3]}"] = np.concatenate([values[f"{found[1]}.{part}.{found[3]}"] for part in PARTS], -1)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packs", type=Path, nargs="+")
    for folder in parser.parse_args().packs:
        shorten(folder / "reranker.onnx")
        pack.put_hash(folder, "reranker.onnx")


if __name__ == "__main__":
    main()
