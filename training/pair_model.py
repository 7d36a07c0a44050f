"""The pair model: one pass over (question, text) gives relevance, has_answer, llm_prefer and an answer span.

A convolutional reader (dilated residual layers over both sides, question-text attention in between; no recurrence) with
hand-made evidence beside it: exact, stem and soft matches of question tokens, weighted by a learnt weight per token,
counted over the whole text (as BM25 and K-NRM do) and over windows around every token. The layer kinds are
those of "Fast Reading Comprehension with ConvNets" (Wu et al. 2017), BiDAF (Seo et al. 2017) and K-NRM (Xiong et al. 2017).
"""

import re

import torch
import torch.nn.functional as F
from torch import nn

MASKED = -1e4
KERNELS = (0.9, 0.7, 0.5, 0.3, 0.1)
WINDOWS = (15, 51)  # tokens around a token in which matches are counted
AVERAGE = 150.0  # tokens of a common text; BM25's average length
TOKEN_FEATURES = 10
TEXT_FEATURES = 26
HIDDEN = 64


def stem_classes(pieces, stem):
    """A number per vocabulary entry, equal for entries whose whole words have one stem; others have their own."""
    out, seen = [], {}
    for number, piece in enumerate(pieces):
        key = stem(piece) if re.fullmatch(r"[a-z]{3,}", piece) else piece
        out.append(seen.setdefault(key, number))
    return torch.tensor(out)


class Beside(torch.autograd.Function):
    """[n, t, w] -> [n, t, 3w]: every row with the rows `d` before and after it, zeros beyond the ends."""

    @staticmethod
    def forward(ctx, x, d):
        ctx.d, w = d, x.shape[2]
        out = x.new_zeros(x.shape[0], x.shape[1], 3 * w)
        out[:, d:, :w] = x[:, :-d]
        out[:, :, w : 2 * w] = x
        out[:, :-d, 2 * w :] = x[:, d:]
        return out

    @staticmethod
    def backward(ctx, grad):
        d, w = ctx.d, grad.shape[2] // 3
        out = grad[:, :, w : 2 * w].clone()
        out[:, :-d] += grad[:, d:, :w]
        out[:, d:] += grad[:, :-d, 2 * w :]
        return out, None


class Drop(nn.Module):
    """Dropout of whole entries of a text's vectors: one draw for all tokens, which also costs less."""

    def __init__(self, share):
        super().__init__()
        self.share = share

    def forward(self, x):
        if not self.training or not self.share:
            return x
        kept = torch.rand(x.shape[0], 1, x.shape[2], device=x.device) >= self.share
        return x * (kept / (1 - self.share))


class Layer(nn.Module):
    """A residual convolution over three tokens, `dilation` apart. x: [n, t, width]; mask: [n, t, 1]."""

    def __init__(self, width, dilation, drop):
        super().__init__()
        self.dilation = dilation
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(3 * width, width)
        self.drop = Drop(drop)

    def forward(self, x, mask):
        d, t = self.dilation, x.shape[1]
        y = self.norm(x) * mask
        if self.training and t > d:
            y = Beside.apply(y, d)  # the same without autograd's copies
        else:
            y = F.pad(y, (0, 0, d, d))
            y = torch.cat([y[:, :t], y[:, d : t + d], y[:, 2 * d : t + 2 * d]], dim=2)
        return x + self.drop(torch.relu(self.linear(y)))


class Pair(nn.Module):
    def __init__(self, table, importance, stems, width=96, drop=0.1, before=(1, 2), after=(1, 2, 4)):
        super().__init__()
        vocabulary, entries = table.shape
        self.table = nn.Parameter(table.clone())
        self.importance = nn.Parameter(importance.clone())  # before softplus
        self.register_buffer("stems", stems)
        self.blur = Drop(drop)
        self.project = nn.Linear(entries, width)
        self.before = nn.ModuleList(Layer(width, d, drop) for d in before)
        self.asks = nn.Linear(width, 1)
        self.to_text, self.to_question = nn.Linear(width, width), nn.Linear(width, width)
        self.exact_bonus = nn.Parameter(torch.tensor([2.0, 2.0]))
        self.fuse = nn.Linear(3 * width + TOKEN_FEATURES, width)
        self.fuse_question = nn.Linear(width, width)
        self.after = nn.ModuleList(Layer(width, d, drop) for d in after)
        self.final = nn.LayerNorm(width)
        self.start_question, self.end_question = nn.Linear(width, width), nn.Linear(width, width)
        self.start_text, self.end_text = nn.Linear(width, 1), nn.Linear(width, 1)
        self.pool_question, self.pool_text = nn.Linear(width, width), nn.Linear(width, 1)
        self.saturation = nn.Parameter(torch.tensor([0.2, -0.5]))  # log k1, logit-like b
        self.hidden = nn.Linear(3 * width + TEXT_FEATURES, HIDDEN)
        self.drop = nn.Dropout(drop)
        self.relevance = nn.Linear(HIDDEN + TEXT_FEATURES, 1)
        # The two labels of FIT-RAG; trained by pair_labels.py on the rest, which then stays as it is.
        self.labels = nn.Sequential(nn.Linear(HIDDEN + TEXT_FEATURES + 1, 48), nn.ReLU(), nn.Linear(48, 2))
        self.auxiliary = nn.Linear(HIDDEN + TEXT_FEATURES, 1)  # has_answer while the rest is trained

    def rows(self, ids):
        return F.embedding(ids, self.table).float(), F.softplus(F.embedding(ids, self.importance.unsqueeze(1)).float())

    def encode(self, x, mask):
        x = self.project(x) * mask
        for layer in self.before:
            x = layer(x, mask)
        return x

    def matches(self, question_ids, text_ids, question, text, both):
        """Exact, stem and soft matches [n, t, q], each 0 where masked."""
        exact = (text_ids.unsqueeze(2) == question_ids.unsqueeze(1)).float() * both
        stems = F.embedding(text_ids, self.stems.unsqueeze(1)), F.embedding(question_ids, self.stems.unsqueeze(1))
        stem = (stems[0] == stems[1].transpose(1, 2)).float() * both
        unit = [x / (x.norm(dim=2, keepdim=True) + 1e-6) for x in (text, question)]
        return exact, stem, torch.bmm(unit[0], unit[1].transpose(1, 2)) * both

    def forward(self, question_ids, question_mask, text_ids, text_mask):
        parts = self.read(question_ids, question_mask, text_ids, text_mask)
        scores = torch.cat([parts["relevance"], parts["labels"]], dim=1)
        return scores, parts["start"], parts["end"]

    def read(self, question_ids, question_mask, text_ids, text_mask):
        qm, tm = question_mask.float(), text_mask.float()
        both = tm.unsqueeze(2) * qm.unsqueeze(1)
        raw_question, weight_question = self.rows(question_ids)
        raw_text, weight_text = self.rows(text_ids)
        exact, stem, soft = self.matches(question_ids, text_ids, raw_question, raw_text, both)
        weight = weight_question.squeeze(2) * qm  # [n, q]
        total = weight.sum(1, keepdim=True) + 1e-3
        share = (weight / total).unsqueeze(1)  # [n, 1, q]

        q = self.encode(self.blur(raw_question), qm.unsqueeze(2))
        t = self.encode(self.blur(raw_text), tm.unsqueeze(2))
        asks = torch.softmax(self.asks(q).squeeze(2) + MASKED * (1 - qm), dim=1)
        about = torch.bmm(asks.unsqueeze(1), q).squeeze(1)  # [n, width]

        attention = torch.bmm(self.to_text(t), self.to_question(q).transpose(1, 2)) * q.shape[2] ** -0.5
        attention = attention + self.exact_bonus[0] * exact + self.exact_bonus[1] * stem
        aligned = torch.bmm(torch.softmax(attention + MASKED * (1 - qm).unsqueeze(1), dim=2), q)

        per_token, local, bigrams = self.token_features(exact, stem, soft, share, weight_text, attention, tm)
        x = torch.cat([t, aligned, t * aligned, per_token], dim=2)
        x = torch.relu(self.fuse(x) + self.fuse_question(about).unsqueeze(1)) + t
        for layer in self.after:
            x = layer(x, tm.unsqueeze(2))
        x = self.final(x)

        hidden_at = MASKED * (1 - tm)
        start = (x * self.start_question(about).unsqueeze(1)).sum(2) * x.shape[2] ** -0.5 + self.start_text(x).squeeze(2)
        end = (x * self.end_question(about).unsqueeze(1)).sum(2) * x.shape[2] ** -0.5 + self.end_text(x).squeeze(2)
        start, end = start * tm + hidden_at, end * tm + hidden_at
        focus = torch.softmax((x * self.pool_question(about).unsqueeze(1)).sum(2) * x.shape[2] ** -0.5 + self.pool_text(x).squeeze(2) + hidden_at, dim=1)
        pooled = torch.bmm(focus.unsqueeze(1), x).squeeze(1)

        features = self.text_features(exact, stem, soft, weight, total, share, local, bigrams, start, end, qm, tm)
        hidden = torch.relu(self.hidden(torch.cat([pooled, about, pooled * about, features], dim=1)))
        joint = torch.cat([self.drop(hidden), features], dim=1)
        relevance = self.relevance(joint)
        known = torch.cat([joint, relevance], dim=1)
        return {
            "start": start, "end": end, "relevance": relevance, "auxiliary": self.auxiliary(joint), "known": known,
            "labels": self.labels(known),
            # What fuser.py reads beside the scores: both sides' tokens, the question as a whole, the text as a whole.
            "tokens": x, "question": q, "about": about, "joint": joint,
        }

    def token_features(self, exact, stem, soft, share, weight_text, attention, tm):
        """What is known of every text token; the matches around it; pairs of neighbours that both match."""
        best = torch.max(stem, soft.clamp(min=0) ** 2)
        weighted = best * share
        local = []
        for width in WINDOWS:
            near = F.max_pool1d(weighted.transpose(1, 2), width, stride=1, padding=width // 2)
            local.append(near.sum(1) * tm)
        following = F.pad(exact[:, 1:, 1:], (0, 1, 0, 1))
        pairs = exact * following
        pair = pairs.amax(2)
        before = F.pad(pair[:, :-1], (1, 0))
        place = torch.cumsum(tm, dim=1) * tm
        columns = [
            exact.amax(2), (exact * share).sum(2) * 4, (stem * share).sum(2) * 4, soft.amax(2).clamp(min=0), (soft * share).sum(2),
            pair, before, local[0], local[1], 8 / (7 + place.clamp(min=1)),
        ]
        return torch.stack(columns, dim=2) * tm.unsqueeze(2), local, pairs

    def text_features(self, exact, stem, soft, weight, total, share, local, bigrams, start, end, qm, tm):
        """Evidence of the whole text, [n, TEXT_FEATURES], scaled to be near 1."""
        length = tm.sum(1, keepdim=True)
        k, b = self.saturation[0].exp(), torch.sigmoid(self.saturation[1])
        base = k * (1 - b + b * length / AVERAGE)

        def saturated(match):
            seen = match.sum(1)
            return seen / (seen + base) * weight

        lexical, literal = saturated(stem), saturated(exact)
        covered, literally = stem.amax(1), exact.amax(1)
        softly = torch.max(covered, soft.amax(1).clamp(min=0))
        missing = (weight * (1 - softly)).amax(1, keepdim=True)
        kernels = []
        for mean in KERNELS:
            held = (torch.exp(-((soft - mean) ** 2) / 0.02) * tm.unsqueeze(2)).sum(1)
            kernels.append((torch.log(1 + held) * share.squeeze(1)).sum(1, keepdim=True))
        best_end = F.max_pool1d(F.pad(end, (0, 11), value=MASKED).unsqueeze(1), 12, stride=1).squeeze(1)
        columns = [
            lexical.sum(1, keepdim=True) / 4, lexical.sum(1, keepdim=True) / total,
            literal.sum(1, keepdim=True) / 4, literal.sum(1, keepdim=True) / total,
            (covered * weight).sum(1, keepdim=True) / total, (literally * weight).sum(1, keepdim=True) / total,
            (softly * weight).sum(1, keepdim=True) / total, missing / 2, total / 8, torch.log(length) / 5 - 1,
            qm.sum(1, keepdim=True) / 12, bigrams.amax(1).sum(1, keepdim=True) / 3, (bigrams * share).amax(1).sum(1, keepdim=True) * 2,
            local[0].amax(1, keepdim=True), local[1].amax(1, keepdim=True), local[0].sum(1, keepdim=True) / (length + 1),
            *kernels,
            torch.logsumexp(start, 1, keepdim=True) / 8, torch.logsumexp(end, 1, keepdim=True) / 8,
            start.amax(1, keepdim=True) / 8, end.amax(1, keepdim=True) / 8,
            (start + best_end).clamp(min=2 * MASKED).amax(1, keepdim=True) / 16,
        ]
        return torch.cat([c.clamp(-20, 20) for c in columns], dim=1)


def initial(encoder_table, pieces, frequency, texts, stem, entries=128):
    """(table, importance, stems): the encoder's token directions brought to `entries` by PCA, and idf weights."""
    vectors = encoder_table / encoder_table.norm(dim=1, keepdim=True).clamp(min=1e-6)
    common = torch.from_numpy(frequency).float().clamp(max=1000).sqrt().unsqueeze(1)
    _, directions = torch.linalg.eigh((vectors * common).T @ (vectors * common))  # ascending
    table = vectors @ directions.flip(1)[:, :entries]
    table = table / table.norm(dim=1, keepdim=True).clamp(min=1e-6) * entries**0.5 * 0.3
    idf = torch.log(1 + (texts + 0.5) / (torch.from_numpy(frequency).float() + 0.5))
    wanted = (idf / 5).clamp(min=0.02)
    importance = torch.log(torch.expm1(wanted))
    table[:2] = 0
    return table, importance, stem_classes(pieces, stem)
