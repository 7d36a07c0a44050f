"""Reads the shipped pack's encoder back, so that what builds on its vectors needs no earlier step of training.

Only as much of the ONNX format is read as the initialisers of our own graphs need.
"""

import numpy as np
import torch

import batches
import corpora
import encoder
import wordpiece

PACK = corpora.TRAINING.parent / "models" / "default"
POWER = 0.5  # of repeated tokens; encoder.py trains with it
TYPES = {1: np.float32, 7: np.int64, 10: np.float16}  # ONNX's numbers of element types


def number(data, at):
    """A base-128 number at a place, and the place behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """(field number, value) of a protobuf message: a number, or the bytes of what is nested."""
    at = 0
    while at < len(data):
        key, at = number(data, at)
        if key & 7 == 0:
            value, at = number(data, at)
        else:
            length, at = {1: (8, at), 5: (4, at)}.get(key & 7) or number(data, at)
            value, at = data[at : at + length], at + length
        yield key >> 3, value


def initialisers(path):
    """The arrays that a graph file holds, by name."""
    graph = next(value for name, value in fields(memoryview(path.read_bytes())) if name == 7)
    out = {}
    for place, tensor in fields(graph):
        if place != 5:
            continue
        shape, kind, name, raw = [], None, "", b""
        for part, value in fields(tensor):
            if part == 1:
                shape.append(value)
            elif part == 2:
                kind = TYPES.get(value)
            elif part == 8:
                name = bytes(value).decode()
            elif part == 9:
                raw = value
        if kind and len(raw):
            out[name] = np.frombuffer(raw, kind).reshape(shape)
    return out


class Encoder:
    """The shipped encoder: texts to unit vectors."""

    def __init__(self, pack=PACK, limit=512):
        self.tokenizer = wordpiece.Tokenizer.load(pack / "tokenizer.json")
        tables = [a for a in initialisers(pack / "encoder.onnx").values() if a.ndim == 2 and len(a) == len(self.tokenizer)]
        self.table = torch.from_numpy(tables[0].astype(np.float32))
        self.limit = limit

    def encode(self, texts):
        """[texts, 256], in fp32."""
        rows = [self.tokenizer.encode(text)[: self.limit] for text in texts]
        owner = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
        flat = np.array([i for r in rows for i in r], np.int64)
        return encoder.embed(batches.pack(flat, owner, len(rows), len(self.tokenizer), POWER), self.table)
