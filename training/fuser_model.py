"""FunnelRAG's FiD at the size of this pack: every passage goes through the pair reader with the question, and a small
decoder's first token attends to the tokens of all passages at once (Izacard & Grave 2021; FunnelRAG eq. 3).

The decoder does not write an answer, it copies: each head of each layer points with its attention at the answer's first
token (even heads) or last token (odd heads), among all tokens of all passages, as pointer networks do (Vinyals et al. 2015).
"""

import torch
import torch.nn.functional as F
from torch import nn

from pair_model import MASKED, Pair

LAYERS, HEADS = 2, 2
WHOLE = 8  # entries of a token's memory that say what its whole passage is like
INNER = 192
TOKENS = 4  # the paper's lr


class Fuser(Pair):
    """Starts as the trained reader: its heads point where the reader's span scores and relevance say."""

    def __init__(self, table, importance, stems, width=96, drop=0.1):
        super().__init__(table, importance, stems, width, drop)
        self.size = width + WHOLE
        self.whole = nn.Linear(self.relevance.in_features, WHOLE)
        self.ask_text, self.answer_question = nn.Linear(width, width), nn.Linear(width, width)
        self.mix_question = nn.Linear(3 * width, width)
        self.norm_question = nn.LayerNorm(width)
        self.begin = nn.Parameter(torch.zeros(width))  # the decoder's first token
        self.queries = nn.ModuleList(nn.Linear(width, HEADS * self.size) for _ in range(LAYERS))
        self.values = nn.ModuleList(nn.Linear(HEADS * self.size, width) for _ in range(LAYERS - 1))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(LAYERS - 1))
        self.inner = nn.ModuleList(
            nn.Sequential(nn.Linear(width, INNER), nn.ReLU(), nn.Linear(INNER, width)) for _ in range(LAYERS - 1)
        )

    @torch.no_grad()
    def begin_as_reader(self):
        """Sets the decoder so that the raw scores of each head are the reader's start or end scores plus the relevance."""
        width, scale = self.size - WHOLE, self.size**0.5
        self.whole.weight.zero_()
        self.whole.bias.zero_()
        self.whole.weight[0] = self.relevance.weight[0]
        for layer in self.queries:
            for head in range(HEADS):
                ask, text = ((self.start_question, self.start_text), (self.end_question, self.end_text))[head % 2]
                rows = slice(head * self.size, head * self.size + width)
                layer.weight[rows] = ask.weight * scale / width**0.5
                layer.bias[rows] = ask.bias * scale / width**0.5 + text.weight[0] * scale
                rest = slice(head * self.size + width, (head + 1) * self.size)
                layer.weight[rest] = 0
                layer.bias[rest] = 0
                layer.bias[rest.start] = scale
        for layer in [*self.values, *(block[2] for block in self.inner)]:
            layer.weight.zero_()
            layer.bias.zero_()

    def memory(self, question_ids, question_mask, text_ids, text_mask):
        """(of question tokens [n, q, size], of text tokens [n, t, size], the question [n, width]): what the decoder attends to."""
        parts = self.read(question_ids, question_mask, text_ids, text_mask)
        x, q, hidden_at = parts["tokens"], parts["question"], MASKED * (1 - text_mask.float())
        # A question's tokens know the passage too, as in an encoder that reads both as one sequence.
        found = torch.bmm(self.ask_text(q), self.answer_question(x).transpose(1, 2)) * q.shape[2] ** -0.5
        found = torch.bmm(torch.softmax(found + hidden_at.unsqueeze(1), dim=2), x)
        q = self.norm_question(q + torch.relu(self.mix_question(torch.cat([q, found, q * found], dim=2))))
        whole = self.whole(parts["joint"]).unsqueeze(1)
        both = [torch.cat([side, whole.expand(-1, side.shape[1], -1)], dim=2) for side in (q, x)]
        return both[0], both[1], parts["about"]

    def decode(self, memory, mask, about):
        """Raw scores of the first token [layers x heads, n, m], layer by layer; memory [n, m, size], mask [n, m] of all passages."""
        state, out = about + self.begin, []
        hidden_at = (MASKED * (1 - mask)).unsqueeze(1)
        for number, layer in enumerate(self.queries):
            query = layer(state).view(-1, HEADS, self.size)
            raw = torch.bmm(query, memory.transpose(1, 2)) * self.size**-0.5
            out.append(raw.transpose(0, 1))
            if number < LAYERS - 1:
                drawn = torch.bmm(torch.softmax(raw + hidden_at, dim=2), memory).flatten(1)
                state = state + self.values[number](drawn)
                state = state + self.inner[number](self.norms[number](state))
        return torch.cat(out, dim=0)

    def forward(self, input_ids, attention_mask, passage_mask):
        """One question; every row is its tokens, then a passage's -> raw attention [layers x heads, n, l], at padding too."""
        n, long = input_ids.shape
        asked = (attention_mask - passage_mask)[0].sum()  # tokens of the question
        at_least = asked.clamp(min=1)  # a graph may be run without a question to see its sizes
        question_mask = (attention_mask - passage_mask)[:, :at_least]
        text_mask = passage_mask[:, asked:]
        q, t, about = self.memory(input_ids[:, :at_least], question_mask, input_ids[:, asked:], text_mask)
        memory = torch.cat([q[:, :asked], t], dim=1)
        raw = self.decode(memory.view(1, -1, self.size), attention_mask.float().view(1, -1), about[:1])
        return raw.view(LAYERS * HEADS, n, long)


def passage_scores(raw, mask, tokens=TOKENS):
    """Eq. 3: raw [heads, ..., t] -> [...], the mean over heads of the mean of each passage's highest `tokens` scores."""
    raw = raw.masked_fill(mask.unsqueeze(0) == 0, float("-inf"))
    best = raw.topk(min(tokens, raw.shape[-1]), dim=-1)[0]
    there = torch.isfinite(best)
    best = best.masked_fill(~there, 0).sum(-1) / there.sum(-1).clamp(min=1)
    return best.mean(0)


def from_reader(state):
    """A fuser out of a checkpoint of pair.py."""
    weights, used = state["average"], state["args"]
    model = Fuser(weights["table"], weights["importance"], weights["stems"], used["width"], used["drop"])
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if unexpected:
        raise ValueError(f"the reader has weights that the fuser lacks: {unexpected}")
    model.begin_as_reader()
    return model


def load(path):
    """The trained fuser, with the weights' moving average."""
    state = torch.load(path, map_location="cpu")
    weights, used = state["average"], state["args"]
    model = Fuser(weights["table"], weights["importance"], weights["stems"], used["width"], used["drop"])
    model.load_state_dict(weights)
    return model.eval()
