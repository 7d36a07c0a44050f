"""The reranker as it is shipped: eight-bit weights, its graph, its section of the manifest, its tokenizer and goldens in a pack."""

import functools
import hashlib
import json
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

import bert
import corpora
import goldens
import pack
import pair_export
import reranker_graph
import reranker_model
import teachers
import wordpiece
from pair_data import QUESTION_TOKENS, TEXT_TOKENS, TRAIN, Data
from pair_measure import best_spans

VOCABULARY = "reranker-tokenizer.json"


def load(work, name, teacher="minilm", chance=(1.0, 0.0)):
    """The trained reranker of a checkpoint, in fp32; chance is what Platt scaling makes of has_answer."""
    state = torch.load(work / f"{name}.pt", map_location="cpu", weights_only=False)
    layers = 1 + max(int(key.split(".")[2]) for key in state["model"] if key.startswith("bert.layers."))
    shape = teachers.load(teacher, work).bert.shape
    shape.layers = layers
    model = reranker_model.Reranker(bert.Bert(shape), 0.0)
    model.load_state_dict(state["model"])
    return told_apart(model, *chance).eval()


@torch.no_grad()
def told_apart(model, slope=1.0, shift=0.0):
    """The model with has_answer as the logit of a chance (Platt scaling), and llm_prefer the same: it has no labels of its own."""
    model.scores.weight[1] *= slope
    model.scores.bias[1] = slope * model.scores.bias[1] + shift
    model.scores.weight[2], model.scores.bias[2] = model.scores.weight[1], model.scores.bias[1]
    return model


class Attention(torch.autograd.Function):
    """ONNX Runtime's own operator for attention in a graph that is exported: of queries, keys and values [n, l, w] and a mask [n, l]."""

    @staticmethod
    def forward(ctx, q, k, v, mask, heads):
        n, l, w = q.shape
        q, k, v = (x.view(n, l, heads, w // heads).transpose(1, 2) for x in (q, k, v))
        bias = (mask[:, None, None, :] - 1) * -reranker_model.MASKED
        return (torch.softmax(q @ k.transpose(2, 3) * (w // heads) ** -0.5 + bias, 3) @ v).transpose(1, 2).reshape(n, l, w)

    @staticmethod
    def symbolic(g, q, k, v, mask, heads):
        none = g.op("prim::Constant")
        none.setType(torch._C.OptionalType.ofTensor())
        return g.op("com.microsoft::MultiHeadAttention", q, k, v, none, mask, num_heads_i=heads).setType(q.type())


def attend(layer, x, bias):
    return Attention.apply(*layer.qkv(x).chunk(3, -1), (bias[:, 0, 0, :] == 0).int(), layer.heads)


def one_operator(bert):
    """Has the layers' attention exported as ONNX Runtime's own operator."""
    for layer in bert.layers:
        layer.attend = functools.partial(attend, layer)


def write_fp32(path, model):
    one_operator(model.bert)
    question, text = torch.randint(1000, 2000, (3, 6)), torch.randint(1000, 2000, (3, 17))
    rows = {"question_ids": "q", "question_mask": "q", "text_ids": "t", "text_mask": "t", "start": "t", "end": "t"}
    torch.onnx.export(
        model,
        (question, torch.ones_like(question), text, torch.ones_like(text)),
        path,
        input_names=["question_ids", "question_mask", "text_ids", "text_mask"],
        output_names=["scores", "start", "end"],
        dynamic_axes={"scores": {0: "n"}, **{name: {0: "n", 1: width} for name, width in rows.items()}},
        opset_version=17,
        dynamo=False,
        custom_opsets={"com.microsoft": 1},
    )


def byte_tables(graph):
    """Token vectors in eight bits, a scale for each row: looked up first, made floats afterwards."""
    for node in list(graph.node):
        if node.op_type != "Gather":
            continue
        table = next((i for i in graph.initializer if i.name == node.input[0]), None)
        if table is None or len(table.dims) != 2 or table.dims[0] < 10_000:
            continue
        values = numpy_helper.to_array(table).astype(np.float32)
        scale = np.maximum(np.abs(values).max(1, keepdims=True) / 127, 1e-12)
        name, out = table.name, node.output[0]
        graph.initializer.remove(table)
        graph.initializer.extend([
            numpy_helper.from_array(np.rint(values / scale).astype(np.int8), name + "_bytes"),
            numpy_helper.from_array(scale.astype(np.float32), name + "_scale"),
        ])
        at = list(graph.node).index(node)
        new = [
            helper.make_node("Gather", [name + "_bytes", node.input[1]], [out + "_bytes"]),
            helper.make_node("Cast", [out + "_bytes"], [out + "_floats"], to=TensorProto.FLOAT),
            helper.make_node("Gather", [name + "_scale", node.input[1]], [out + "_scale"]),
            helper.make_node("Mul", [out + "_floats", out + "_scale"], [out]),
        ]
        graph.node.remove(node)
        for i, n in enumerate(new):
            graph.node.insert(at + i, n)


def ranges(path, batches):
    """{name: (scale, zero point)} of what every DynamicQuantizeLinear of a graph saw over the batches, the widest of all: cutting off even a
    ten-thousandth of the values at each end costs a point of exact match."""
    graph = onnx.load(path)
    nodes = [node for node in graph.graph.node if node.op_type == "DynamicQuantizeLinear"]
    for node in nodes:
        graph.graph.output.append(helper.make_tensor_value_info(node.input[0], TensorProto.FLOAT, None))
    session = ort.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [node.input[0] for node in nodes]
    low, high = np.zeros(len(names)), np.zeros(len(names))
    for batch in batches:
        for i, values in enumerate(session.run(names, batch)):
            low[i], high[i] = min(low[i], values.min()), max(high[i], values.max())
    scale = (high - low) / 255
    return {node.output[0]: (s, int(np.clip(np.rint(-l / s), 0, 255))) for node, s, l in zip(nodes, scale, low)}


def fix_ranges(graph, found):
    """Quantises activations by constants: with ranges of the batch at hand, what else is in a batch would change a text's scores."""
    for node in list(graph.node):
        if node.op_type != "DynamicQuantizeLinear":
            continue
        (scale, zero), (out, out_scale, out_zero) = found[node.output[0]], node.output
        graph.initializer.extend([
            numpy_helper.from_array(np.array(scale, np.float32), out_scale),
            numpy_helper.from_array(np.array(zero, np.uint8), out_zero),
        ])
        at = list(graph.node).index(node)
        graph.node.remove(node)
        graph.node.insert(at, helper.make_node("QuantizeLinear", [node.input[0], out_scale, out_zero], [out]))


def weights_of(path, model):
    """Gives a model the weights of a graph that write_graph made, as near as eight bits are: training goes on from what is shipped."""
    graph = onnx.load(path).graph
    values = reranker_graph.whole_products({i.name: numpy_helper.to_array(i) for i in graph.initializer})
    state = model.state_dict()
    found = {name: value for name, value in values.items() if name in state}
    found["bert.words.weight"] = values["bert.words.weight_bytes"] * values["bert.words.weight_scale"]
    # Weights of other products lost their names; they stand in the order in which they are used.
    products = [name.removesuffix("_quantized") for name in values if name.endswith("_quantized")]
    layers = iter([f"bert.layers.{i}.{part}.weight" for i in range(model.bert.shape.layers) for part in ("out", "up", "down")])
    heads = {(len(state[name]), state[name].shape[1]): name for name in ("dense.weight", "spans.weight", "scores.weight")}
    for name in products:
        weight = (values[name + "_quantized"].astype(np.float32) * values[name + "_scale"]).T
        found[name if name in state else next(layers, None) or heads[weight.shape]] = weight
    model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in found.items()})


def join(graph):
    """Takes a product in eight bits, its scale and its bias for one operator of ONNX Runtime's, which saves passes over the result."""
    made = {output: node for node in graph.node for output in node.output}
    used = {}
    for node in graph.node:
        for name in node.input:
            used.setdefault(name, []).append(node)
    constants = {i.name for i in graph.initializer}
    for node in [node for node in graph.node if node.op_type == "MatMulInteger"]:
        values, weights, value_zero, weight_zero = node.input
        cast = used[node.output[0]][0]
        product = used[cast.output[0]][0]
        scales = made[next(name for name in product.input if name != cast.output[0])]
        inputs, last = [values, weights, *scales.input, value_zero, weight_zero], product
        after = used[product.output[0]]
        if len(after) == 1 and after[0].op_type == "Add" and (bias := constants.intersection(after[0].input)):
            inputs.append(bias.pop())
            last = after[0]
        for old in (node, cast, scales) if last is product else (node, cast, scales, product):
            graph.node.remove(old)
        at = list(graph.node).index(last)
        graph.node.remove(last)
        graph.node.insert(at, helper.make_node("MatMulIntegerToFloat", inputs, [last.output[0]], domain="com.microsoft"))
    # An Add before a LayerNormalization would be joined with it into an operator that takes longer than both.
    for node in graph.node:
        if node.op_type == "LayerNormalization" and (before := made.get(node.input[0])) is not None and before.op_type == "Add":
            before.op_type = "Sum"


def write_graph(path, model, batches, write=write_fp32):
    """Writes the graph with weights and products in eight bits; activations have the ranges that they reach on the batches."""
    with tempfile.TemporaryDirectory() as temporary:
        whole, bytes_ = Path(temporary) / "fp32.onnx", Path(temporary) / "int8.onnx"
        write(whole, model)
        # Weights have seven bits: without VNNI a processor's sums of two products of eight bits overflow.
        quantize_dynamic(whole, bytes_, op_types_to_quantize=["MatMul", "Gemm"], per_channel=True, reduce_range=True,
                         weight_type=QuantType.QInt8, extra_options={"MatMulConstBOnly": True})
        found = ranges(bytes_, batches)
        graph = onnx.load(bytes_)
    fix_ranges(graph.graph, found)
    join(graph.graph)
    byte_tables(graph.graph)
    onnx.checker.check_model(graph)
    onnx.save(graph, path)


def calibration(data, questions=200):
    """Batches of training questions with their best candidates, over which activations' ranges are found."""
    names = ("question_ids", "question_mask", "text_ids", "text_mask")
    asked = np.random.default_rng(5).permutation(data.asked(TRAIN))[:questions]
    for q in asked:
        texts = data.candidates[q][:3]
        yield dict(zip(names, (x.numpy() for x in data.plain_batch(q, texts[texts >= 0]))))


def inputs_of(question, text):
    """A graph's inputs for one pair."""
    q, t = (np.asarray(ids, np.int64)[None] for ids in (question, text))
    return {"question_ids": q, "question_mask": np.ones_like(q), "text_ids": t, "text_mask": np.ones_like(t)}


def difference(path, rows):
    """The largest difference of the shipped graph's scores, and of its best span's, from the goldens."""
    session, worst = ort.InferenceSession(str(path)), 0.0
    for row in rows:
        if not row["text_ids"]:
            continue
        scores, start, end = session.run(None, inputs_of(row["question_ids"], row["text_ids"]))
        best = best_spans(torch.from_numpy(start), torch.from_numpy(end))[2][0].item()
        wanted = best_spans(torch.tensor([row["start"]]), torch.tensor([row["end"]]))[2][0].item()
        worst = max(worst, np.abs(scores[0] - row["scores"]).max(), abs(best - wanted))
    return float(worst)


def section(folder, settings, tolerance):
    digest = hashlib.sha256((folder / VOCABULARY).read_bytes()).hexdigest()
    return f"""\
# The same inputs and outputs as pair's, by a transformer: six layers of all-MiniLM-L6-v2, trained as the pair model is. It has BERT's
# vocabulary; the graph puts [CLS] and [SEP] around both texts. Weights and products have eight bits: tolerance is how far scores were
# from the fp32 original's on the goldens. Without spans the scores are those of its scorer (training/reranker_scorer.py).
reranker:
{pack.file_lines(folder, "reranker.onnx")}  scripts: [Latin]
  tolerance: {tolerance:.2f}
  tokenizer:
    file: {VOCABULARY}
    sha256: {digest}
    pad: "[PAD]"
    before: []
    after: []
  max_question_tokens: {QUESTION_TOKENS}
  max_text_tokens: {TEXT_TOKENS}
  has_answer_threshold: {settings["has_answer_threshold"]:.3f}
"""


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--name", default="reranker")
    parser.add_argument("--pack", type=corpora.Path, default=corpora.TRAINING.parent / "models" / "default")
    parser.add_argument("--version", default=None, help="new version of the pack")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    vocabulary = corpora.intermediate(args.work, "tokenizer.json", "tokenizer")
    tokenizer = wordpiece.Tokenizer.load(vocabulary)
    settings = json.loads(corpora.intermediate(args.work, f"{args.name}_calibrated.json", "reranker-calibrate").read_text())
    model = load(args.work, args.name, chance=settings["platt"])
    rows = pair_export.make_goldens(model, tokenizer, goldens.QUESTIONS, goldens.TEXTS)
    (args.pack / VOCABULARY).write_bytes(vocabulary.read_bytes())
    write_graph(args.pack / "reranker.onnx", model, list(calibration(Data(args.work, tokenizer))))
    reranker_graph.shorten(args.pack / "reranker.onnx")
    worst = difference(args.pack / "reranker.onnx", rows)
    pack.put_goldens(args.pack, "reranker", rows)
    pack.put_section(args.pack, "reranker", section(args.pack, settings, 1.5 * worst), args.version)
    pack.put_calibrated(args.pack, "answerable_reranker", settings["answerable"])
    print(f"{(args.pack / 'reranker.onnx').stat().st_size:>10} reranker.onnx; {worst:.3f} from the fp32 original at most")


if __name__ == "__main__":
    main()
