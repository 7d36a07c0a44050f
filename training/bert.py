"""BERT as a PyTorch module, with the weights of pretrained packages.

Nothing but what the small models need: post-norm layers, GELU, learnt positions (Devlin et al. 2019). Two segments
are told apart by token types.
"""

import json
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Shape:
    vocabulary: int = 30522
    width: int = 384
    layers: int = 6
    heads: int = 12
    inner: int = 1536
    positions: int = 512
    epsilon: float = 1e-12


class Layer(nn.Module):
    def __init__(self, shape, dropout):
        super().__init__()
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.norm1 = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.up = nn.Linear(shape.width, shape.inner)
        self.down = nn.Linear(shape.inner, shape.width)
        self.norm2 = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.dropout = dropout

    def attend(self, x, bias):
        n, l, w = x.shape
        q, k, v = self.qkv(x).view(n, l, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        # Products and softmax apart: on a CPU PyTorch's fused attention takes several times as long to go back through.
        a = torch.softmax(q @ k.transpose(2, 3) * (w // self.heads) ** -0.5 + bias, 3).to(v.dtype) @ v
        return a.transpose(1, 2).reshape(n, l, w)

    def forward(self, x, bias):
        a = self.out(self.attend(x, bias))
        x = self.norm1(x + F.dropout(a, self.dropout, self.training))
        h = self.down(F.gelu(self.up(x)))
        return self.norm2(x + F.dropout(h, self.dropout, self.training))


class Bert(nn.Module):
    """Token ids, types and mask [n, l] -> token vectors [n, l, width]."""

    def __init__(self, shape, dropout=0.0):
        super().__init__()
        self.shape = shape
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Embedding(shape.positions, shape.width)
        self.types = nn.Embedding(2, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.layers = nn.ModuleList(Layer(shape, dropout) for _ in range(shape.layers))
        self.dropout = dropout

    def forward(self, ids, mask, types=None, places=None):
        n, l = ids.shape
        x = self.words(ids) + (self.places.weight[:l] if places is None else self.places(places))
        x = x + (self.types.weight[0] if types is None else self.types(types))
        x = F.dropout(self.norm(x), self.dropout, self.training)
        bias = torch.zeros(n, 1, 1, l, dtype=x.dtype, device=x.device).masked_fill(~mask.bool()[:, None, None, :], -1e4)
        for layer in self.layers:
            x = layer(x, bias)
        return x

    def keep(self, layers):
        """Keeps the layers of the given numbers, in their order."""
        self.layers = nn.ModuleList(self.layers[i] for i in layers)
        self.shape.layers = len(layers)
        return self


def from_names(weights, shape, dropout=0.0):
    """A Bert from weights under the names of Hugging Face's BertModel."""
    model = Bert(shape, dropout)
    get = lambda name: torch.from_numpy(np.array(weights[name], dtype=np.float32))
    state = {
        "words.weight": get("embeddings.word_embeddings.weight"),
        "places.weight": get("embeddings.position_embeddings.weight"),
        "types.weight": get("embeddings.token_type_embeddings.weight"),
        "norm.weight": get("embeddings.LayerNorm.weight"),
        "norm.bias": get("embeddings.LayerNorm.bias"),
    }
    for i in range(shape.layers):
        theirs, ours = f"encoder.layer.{i}.", f"layers.{i}."
        for kind in ("weight", "bias"):
            state[ours + "qkv." + kind] = torch.cat(
                [get(theirs + f"attention.self.{part}.{kind}") for part in ("query", "key", "value")]
            )
            for our, their in (
                ("out", "attention.output.dense"),
                ("norm1", "attention.output.LayerNorm"),
                ("up", "intermediate.dense"),
                ("down", "output.dense"),
                ("norm2", "output.LayerNorm"),
            ):
                state[ours + our + "." + kind] = get(theirs + their + "." + kind)
    model.load_state_dict(state)
    return model


def from_safetensors(path, config):
    """A Bert from a folder's model.safetensors and config.json."""
    from safetensors.numpy import load_file

    c = json.loads(config.read_text())
    shape = Shape(
        c["vocab_size"], c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"],
        c["intermediate_size"], c["max_position_embeddings"], c["layer_norm_eps"],
    )
    weights = load_file(path)
    strip = "bert." if any(name.startswith("bert.") for name in weights) else ""
    return from_names({name.removeprefix(strip): value for name, value in weights.items()}, shape)


def from_onnx(path, shape):
    """A Bert from a graph that PyTorch exported: the weights of products lost their names there, and are found by their nodes'."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    values = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    weights = {name: value for name, value in values.items() if name.startswith(("embeddings.", "encoder."))}
    for node in graph.node:
        if node.op_type != "MatMul" or node.input[1] not in values:
            continue
        name = node.name.strip("/").replace("/MatMul", "").replace("/", ".")
        weights[name + ".weight"] = values[node.input[1]].T
    return from_names(weights, shape)
