"""Texts -> unit vectors by a pretrained encoder, in batches of like length."""

import numpy as np
import torch
import torch.nn.functional as F


class Embedder:
    """A Bert with its tokenizer, pooling ("mean" or "cls") and the prefix of its questions."""

    def __init__(self, model, tokenizer, pooling, question_prefix="", max_tokens=512):
        self.model, self.tokenizer, self.pooling = model.eval(), tokenizer, pooling
        self.question_prefix, self.max_tokens = question_prefix, max_tokens
        tokenizer.no_truncation()
        tokenizer.no_padding()

    def questions(self, texts):
        return self.texts([self.question_prefix + text for text in texts])

    @torch.inference_mode()
    def texts(self, texts, batch_tokens=8192):
        """Unit vectors [len(texts), width]."""
        ids = []
        for encoding in self.tokenizer.encode_batch(list(texts)):
            tokens = encoding.ids
            if len(tokens) > self.max_tokens:
                tokens = tokens[: self.max_tokens - 1] + tokens[-1:]
            ids.append(tokens)
        out = np.zeros((len(ids), self.model.shape.width), np.float32)
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        at = 0
        while at < len(order):
            longest = len(ids[order[at]])
            rows = order[at : at + max(1, batch_tokens // longest)]
            batch = torch.zeros(len(rows), longest, dtype=torch.long)
            mask = torch.zeros(len(rows), longest, dtype=torch.bool)
            for n, row in enumerate(rows):
                batch[n, : len(ids[row])] = torch.tensor(ids[row])
                mask[n, : len(ids[row])] = True
            with torch.autocast("cpu", dtype=torch.bfloat16):
                hidden = self.model(batch, mask)
            hidden = hidden.float()
            if self.pooling == "cls":
                vectors = hidden[:, 0]
            else:
                vectors = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            out[rows] = F.normalize(vectors, dim=1).numpy()
            at += len(rows)
        return out
