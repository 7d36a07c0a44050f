"""The reranker: a pretrained transformer over [CLS] question [SEP] text [SEP], with the pair model's five outputs."""

import torch
from torch import nn

CLS, SEP = 101, 102  # of BERT's vocabulary, which the pack's tokenizer has
MASKED = -1e4


class Reranker(nn.Module):
    """(question ids, mask [n, q], text ids, mask [n, t]) -> relevance, has_answer, llm_prefer [n, 3], start, end [n, t]."""

    def __init__(self, bert, dropout=0.1):
        super().__init__()
        self.bert = bert
        width = bert.shape.width
        self.dense = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.scores = nn.Linear(width, 3)
        self.spans = nn.Linear(width, 2)
        for layer in (self.dense, self.scores, self.spans):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)

    def forward(self, question, question_mask, text, text_mask):
        n, width = len(question), question.shape[1] + 2
        one = torch.ones_like(question[:, :1])
        ids = torch.cat([one * CLS, question, one * SEP, text, one * SEP], 1)
        mask = torch.cat([one, question_mask, one, text_mask, one], 1)
        # A shorter question is padded in the middle of its row: places are counted over what is there.
        places = (mask.cumsum(1) - 1).clamp(min=0)
        second = torch.cat([torch.zeros_like(ids[:, :width]), torch.ones_like(ids[:, width:])], 1)
        hidden = self.bert(ids, mask, second, places)
        first = self.dropout(torch.tanh(self.dense(hidden[:, 0])))
        spans = self.spans(hidden[:, width:-1]).float() + MASKED * (1 - text_mask[..., None].float())
        return self.scores(first).float(), spans[..., 0], spans[..., 1]
