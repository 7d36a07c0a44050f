"""Puts the scorer of reranker_scorer.py into the reranker's graph of a pack, in place of the one that is there.

The graph gets the input `spans`, one int64 that is 1 unless it is given. With 1, a branch of the graph does what the reranker did before; with
0, another has the scorer's scores, and start and end are what masked tokens have.
"""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import TensorProto, helper, numpy_helper

import corpora
import pack
import reranker_export
import reranker_graph
import reranker_model
import wordpiece
from pair_data import TRAIN, Data
from reranker_scorer import Shared, chosen, start

OUTPUTS = ("scores", "start", "end")
MICROSOFT = "com.microsoft"


def take_out(g):
    """Takes out the scorer that a graph has: the branch with the spans becomes the graph's own nodes."""
    either = g.maker("scores")
    if either.op_type != "If":
        return
    whole = next(a.g for a in either.attribute if a.name == "then_branch")
    names = {inner.name: outer for inner, outer in zip(whole.output, either.output)}
    for node in whole.node:
        node.output[:] = [names.get(name, name) for name in node.output]
    g.insert(either, *whole.node)
    g.graph.node.remove(either)
    for values in (g.graph.input, g.graph.initializer):
        for value in [v for v in values if v.name == "spans"]:
            values.remove(value)
    g.constants.pop("spans", None)
    g.prune()


def ranges(scorer, shared, data, questions=150):
    """{name: (scale, zero point)} of what the scorer's products read, over training questions."""
    low, high = {}, {}

    def seen(name, values):
        low[name], high[name] = min(low.get(name, 0), float(values.min())), max(high.get(name, 0), float(values.max()))

    scorer.seen = seen
    for _, question, ids, _ in chosen(data, TRAIN, questions):
        shared.score(scorer, question, ids)
    scale = {name: (high[name] - low[name]) / 255 for name in low}
    return {name: (s, int(np.clip(np.rint(-low[name] / s), 0, 255))) for name, s in scale.items()} | {"tanh": (2 / 255, 128)}


class Branch:
    """The nodes and constants of the scorer's branch."""

    def __init__(self, ranges):
        self.ranges, self.nodes, self.constants = ranges, [], {}

    def constant(self, name, value):
        self.constants.setdefault(name, numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op, inputs, output, domain="", **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], domain=domain, **attributes))
        return output

    def rows(self, tokens, first, last, output):
        """The vectors of some tokens of [n, tokens, width]."""
        return self.node("Slice", [tokens, first, last, self.constant("scorer.tokens", np.array([1], np.int64))], output)

    def bytes_of(self, values, name):
        """Values in eight bits, with scale and zero point."""
        scale, zero = self.ranges[name]
        scale, zero = self.constant(f"scorer.{name}_scale", np.float32(scale)), self.constant(f"scorer.{name}_zero_point", np.uint8(zero))
        return self.node("QuantizeLinear", [values, scale, zero], f"scorer.{name}_quantized"), scale, zero

    def product(self, values, weight, bias, name, output):
        """Of values in eight bits and weights in seven, as reranker_export.write_graph makes them."""
        weight = weight.detach().numpy().T.astype(np.float32)
        scale = np.maximum(np.abs(weight).max(0), 1e-9) / 63
        inputs = [values[0], self.constant(f"{name}.weight", np.rint(weight / scale).astype(np.int8)), values[1],
                  self.constant(f"{name}.scale", scale.astype(np.float32)), values[2],
                  self.constant(f"{name}.zero_point", np.zeros(weight.shape[1], np.int8)), self.constant(f"{name}.bias", bias.detach().numpy())]
        return self.node("MatMulIntegerToFloat", inputs, output, MICROSOFT)

    def norm(self, values, layer, name):
        weights = [self.constant(f"{name}.{part}", getattr(layer, part).detach().numpy()) for part in ("weight", "bias")]
        return self.node("LayerNormalization", [values, *weights], name, axis=-1, epsilon=layer.eps)

    def sum(self, *values):
        # An Add would be joined with the LayerNormalization behind it into an operator that takes longer than both.
        return self.node("Sum", values, f"{values[-1]}_sum")


def branch(scorer, ranges, hidden, mask):
    """The scorer as a graph without inputs: hidden names what the shared layers make, in fp32 and (with _quantized) in eight bits, mask the
    mask of all tokens."""
    b = Branch(ranges)
    zero, one, two, end = (b.constant(f"scorer.integer_{n}", np.array([n], np.int64)) for n in (0, 1, 2, 2**31))
    asked = b.node("Slice", [b.node("Shape", ["question_ids"], "scorer.question"), one, two], "scorer.asked")
    asking_end = b.node("Add", [asked, two], "scorer.asking_end")  # [CLS] and [SEP] are before the text too
    tokens = (hidden + "_quantized", hidden + "_scale", hidden + "_zero_point")
    asking = b.rows(hidden, zero, asking_end, "scorer.asking")
    small = (b.rows(tokens[0], zero, asking_end, "scorer.asking_quantized"), *tokens[1:])
    text = (b.rows(tokens[0], asking_end, end, "scorer.text_quantized"), *tokens[1:])
    for number, layer in enumerate(scorer.layers):
        name, width = f"scorer.layers.{number}", layer.qkv.weight.shape[1]
        weights = {part: (layer.qkv.weight[i * width :][:width], layer.qkv.bias[i * width :][:width], f"{name}.{part}")
                   for i, part in enumerate(reranker_graph.PARTS)}
        if number == 0:  # all tokens are as the shared layers made them
            memory = [b.product(tokens, *weights[part], f"{name}.{part}") for part in ("key", "value")]
        else:
            small = b.bytes_of(asking, f"{number - 1}.next")
            memory = [b.node("Concat", [b.product(few, *weights[part], f"{name}.{part}_of_{of}") for of, few in (("asking", small), ("text", text))],
                             f"{name}.{part}", axis=1) for part in ("key", "value")]
        if number == len(scorer.layers) - 1:
            asking, small = b.rows(asking, zero, one, "scorer.first"), (b.rows(small[0], zero, one, "scorer.first_quantized"), *small[1:])
        query = b.product(small, *weights["query"], f"{name}.query")
        attention = helper.make_node("MultiHeadAttention", [query, *memory, "", mask], [f"{name}.attention"], domain=MICROSOFT, num_heads=layer.heads)
        b.nodes.append(reranker_graph.either(attention, f"{name}."))
        out = b.product(b.bytes_of(attention.output[0], f"{number}.out"), layer.out.weight, layer.out.bias, f"{name}.out", f"{name}.out")
        inner = b.norm(b.sum(asking, out), layer.norm1, f"{name}.norm1")
        up = b.product(b.bytes_of(inner, f"{number}.up"), layer.up.weight, layer.up.bias, f"{name}.up", f"{name}.up")
        wide = b.bytes_of(b.node("Gelu", [up], f"{name}.gelu", MICROSOFT), f"{number}.down")
        down = b.product(wide, layer.down.weight, layer.down.bias, f"{name}.down", f"{name}.down")
        asking = b.norm(b.sum(inner, down), layer.norm2, f"{name}.norm2")
    first = b.bytes_of(b.node("Squeeze", [asking, one], "scorer.vector"), f"{len(scorer.layers) - 1}.next")
    dense = b.product(first, scorer.dense.weight, scorer.dense.bias, "scorer.dense", "scorer.dense")
    tanh = b.bytes_of(b.node("Tanh", [dense], "scorer.tanh"), "tanh")
    b.product(tanh, scorer.scores.weight, scorer.scores.bias, "scorer.scores", "scorer.scores")
    b.node("Shape", ["text_mask"], "scorer.shape")
    for name in OUTPUTS[1:]:
        b.node("Expand", [b.constant("scorer.unread", np.float32(reranker_model.MASKED)), "scorer.shape"], f"scorer.{name}")
    outputs = [helper.make_tensor_value_info(f"scorer.{name}", TensorProto.FLOAT, None) for name in OUTPUTS]
    return helper.make_graph(b.nodes, "scorer", [], outputs, list(b.constants.values()))


def put_in(g, scorer, shared, ranges):
    """Gives the reranker the input spans, and without them the scorer's scores."""
    hidden = reranker_graph.hidden(shared)
    reached, behind = {hidden, hidden + "_quantized"}, []
    for node in g.graph.node:
        read = {*node.input, *(name for a in node.attribute if a.type == onnx.AttributeProto.GRAPH for inner in a.g.node for name in inner.input)}
        if read & reached and node.output[0] not in reached:
            reached.update(node.output)
            behind.append(node)
    for node in behind:
        g.graph.node.remove(node)
        node.output[:] = [f"whole.{name}" if name in OUTPUTS else name for name in node.output]
    whole = helper.make_graph(behind, "whole", [], [helper.make_tensor_value_info(f"whole.{name}", TensorProto.FLOAT, None) for name in OUTPUTS])
    g.graph.input.append(helper.make_tensor_value_info("spans", TensorProto.INT64, [1]))
    g.constant("spans", np.ones(1, np.int64))
    alone = branch(scorer, ranges, hidden, reranker_graph.mask(g))
    g.graph.node.extend([
        helper.make_node("Squeeze", ["spans"], ["spans_one"]),
        helper.make_node("Cast", ["spans_one"], ["spans_wanted"], to=TensorProto.BOOL),
        helper.make_node("If", ["spans_wanted"], OUTPUTS, then_branch=whole, else_branch=alone),
    ])


def put_goldens(folder, scorer, shared):
    """Adds the scores without spans, in fp32, to the reranker's goldens, and returns how far the graph is from them at most."""
    rows = json.loads((folder / "goldens.json").read_text(encoding="utf-8"))["reranker"]
    session = ort.InferenceSession(str(folder / "reranker.onnx"), providers=["CPUExecutionProvider"])
    worst = 0.0
    for row in rows:
        if not row["text_ids"]:
            continue
        inputs = reranker_export.inputs_of(row["question_ids"], row["text_ids"]) | {"spans": np.zeros(1, np.int64)}
        wanted = shared.score(scorer, row["question_ids"], row["text_ids"]).numpy()
        worst = max(worst, float(np.abs(session.run(["scores"], inputs)[0][0] - wanted).max()))
        row["scores_without_spans"] = [round(float(x), 5) for x in wanted]
    pack.put_goldens(folder, "reranker", rows)
    return worst


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--pack", type=Path, default=Path("../models/default"))
    parser.add_argument("--name", default="reranker_scorer")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    path = args.pack / "reranker.onnx"
    found = torch.load(corpora.intermediate(args.work, f"{args.name}.pt", "reranker-scorer"), weights_only=False)
    data = Data(args.work, wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer")))
    model = onnx.load(path)
    scorer, shared = start(path, found["shared"]), Shared(path, found["shared"])
    scorer.load_state_dict(found["scorer"])
    reranker_export.told_apart(scorer)  # llm_prefer has no labels of its own
    g = reranker_graph.Graph(model.graph)
    take_out(g)
    put_in(g, scorer.eval(), found["shared"], ranges(scorer, shared, data))
    onnx.checker.check_model(model)
    onnx.save(model, path)
    pack.put_hash(args.pack, path.name)
    worst = put_goldens(args.pack, scorer, shared)
    print(f"{path.stat().st_size:>10} {path}; scores without spans {worst:.3f} from fp32 at most")


if __name__ == "__main__":
    main()
