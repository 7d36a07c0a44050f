"""The pair model as the graph that is shipped: the function of pair_model.Pair, in an order that costs less to run.

- Every row of tokens has one more, which is masked, and masked tokens have an entry of their own with zeros in every table. So
  a place beyond the ends is a place of the row, a convolution is one Gather and one product, and matches need no mask.
- Linear maps of the text's tokens that meet the question's are taken to the question's side, which is ten times shorter.
- The matches lie in one tensor [n, kinds, question, text], and each reduction is made once for all kinds.

Masks are ones and then zeros, as the model server and pair_data.pad have them.
"""

import torch
import torch.nn.functional as F
from torch import nn

from pair_model import AVERAGE, KERNELS, MASKED, WINDOWS

LONGEST = 513  # tokens of a row, the one that is added included
ENDS = 11  # tokens that an answer's end may lie behind its start, in the features
# The wider of two windows is made of the narrower one: the maximum over as many steps, to either side, as reach so far.
REACH, STEPS = (WINDOWS[1] - WINDOWS[0]) // 2, 3
assert 2 * REACH % STEPS == 0 and 2 * REACH // STEPS <= WINDOWS[0]
# What the columns of pair_model.Pair.text_features are divided by.
SCALES = [4, 1, 4, 1, 1, 1, 1, 2, 8, 5, 12, 3, 0.5, 1, 1, 1] + [1] * len(KERNELS) + [8, 8, 8, 8, 16]


class Convolution(nn.Module):
    """pair_model.Layer; places: [3 t], the row's places that the tokens' three inputs come from."""

    def __init__(self, layer):
        super().__init__()
        self.norm, self.linear, self.dilation = layer.norm, layer.linear, layer.dilation

    def forward(self, x, mask, places):
        y = self.norm(x) * mask
        y = y.index_select(1, places).reshape(-1, self.linear.in_features)
        return x + torch.relu(self.linear(y)).reshape(x.shape)


def linear(weight, bias):
    out = nn.Linear(weight.shape[1], weight.shape[0])
    out.weight, out.bias = nn.Parameter(weight.float().contiguous()), nn.Parameter(bias.float())
    return out


class Graph(nn.Module):
    def __init__(self, pair):
        super().__init__()
        self.width, self.vocabulary = pair.project.out_features, len(pair.table)
        # Behind the vocabulary are two entries for masked tokens, of texts and of questions, which match nothing.
        table = pair.table.detach()
        self.register_buffer("table", torch.cat([table, table.new_zeros(2, table.shape[1])]))
        self.register_buffer("importance", torch.cat([F.softplus(pair.importance.detach().float()), torch.zeros(2)]))
        self.register_buffer("stems", torch.cat([pair.stems.int(), torch.tensor([-1, -2], dtype=torch.int32)]))
        self.project = pair.project
        self.before = nn.ModuleList(Convolution(layer) for layer in pair.before)
        self.after = nn.ModuleList(Convolution(layer) for layer in pair.after)
        self.final, self.hidden, self.relevance, self.labels = pair.final, pair.hidden, pair.relevance, pair.labels
        with torch.no_grad():
            self.join(pair)
        dilations = sorted({layer.dilation for layer in [*self.before, *self.after]})
        at = torch.arange(LONGEST).unsqueeze(1)
        near = torch.stack([at + torch.tensor([-d, 0, d]) for d in dilations])
        self.register_buffer("near", torch.where(near < 0, torch.full_like(near, LONGEST), near))
        self.dilations = dilations
        self.register_buffer("kernels", torch.tensor(KERNELS).view(1, -1, 1, 1))
        self.register_buffer("scales", 1 / torch.tensor(SCALES).view(1, -1))

    def join(self, pair):
        """Puts together the linear maps of one vector."""
        width = self.width

        def parts(linear):
            return linear.weight.double(), linear.bias.double()

        text, text_bias = parts(pair.to_text)
        asked, asked_bias = parts(pair.to_question)
        scale = width**-0.5
        fuse, fuse_bias = parts(pair.fuse)
        asks, asks_bias = parts(pair.asks)
        # Of a question's token: its side of the attention, the attention's bias, how much it asks, its part of fuse.
        maps = [text.T @ asked * scale, (text_bias @ asked * scale).unsqueeze(0), asks, fuse[:, width : 2 * width]]
        biases = [text.T @ asked_bias * scale, (text_bias @ asked_bias * scale).unsqueeze(0), asks_bias, torch.zeros(width)]
        self.of_question = linear(torch.cat(maps), torch.cat(biases))
        # Of a text's token: itself, its product with the question's tokens, what is known of it (see rows in forward).
        factors = torch.tensor([1, 4, 4, 1, 1, 1, 1, 1, 1, 1]).double()
        known = (fuse[:, 3 * width :] * factors)[:, [0, 3, 5, 1, 2, 4, 6, 7, 8, 9]]
        self.of_text = nn.Parameter(torch.cat([fuse[:, :width], fuse[:, 2 * width : 3 * width], known], 1).T.float().contiguous())
        # Of the question as a whole: its part of fuse, and the heads that a text's tokens meet.
        maps, biases = zip(parts(pair.fuse_question))
        maps, biases = list(maps), [biases[0] + fuse_bias]
        for question, token in ((pair.start_question, pair.start_text), (pair.end_question, pair.end_text), (pair.pool_question, pair.pool_text)):
            map, bias = parts(question)
            maps.append(map * scale)
            biases.append(bias * scale + token.weight.double().squeeze(0))
        self.of_about = linear(torch.cat(maps), torch.cat(biases))
        self.head_bias = nn.Parameter(torch.cat([pair.start_text.bias, pair.end_text.bias, pair.pool_text.bias]).view(1, 3, 1))
        self.bonus = [x.item() for x in pair.exact_bonus]
        k, b = pair.saturation[0].exp().item(), torch.sigmoid(pair.saturation[1]).item()
        self.base, self.slope = k * (1 - b), k * b / AVERAGE

    def row(self, ids, mask, number):
        """(ids, those behind them, the mask), one token longer, which is masked as all from there on: those have the number."""
        mask = F.pad(mask, (0, 2))
        ids = torch.where(mask > 0, F.pad(ids, (0, 2)), torch.tensor(number))
        return ids[:, :-1], ids[:, 1:], mask[:, :-1].float()

    def encode(self, ids, mask, places):
        """The tokens' states, and their vectors of length 1; those of masked ones are 0."""
        raw = F.embedding(ids, self.table).float()
        x = self.project(raw.reshape(-1, raw.shape[2])).reshape(raw.shape[0], raw.shape[1], self.width)
        for layer in self.before:
            x = layer(x, mask, self.place(places, layer))
        return x, raw / (raw.norm(dim=2, keepdim=True) + 1e-6)

    def places(self, row):
        """[dilations, t, 3]: places that a convolution's inputs come from; beyond the ends: the row's last, which is masked."""
        length = row.shape[1]
        return torch.minimum(self.near[:, :length], torch.tensor(length - 1))

    def place(self, places, layer):
        return places[self.dilations.index(layer.dilation)].reshape(-1)

    def forward(self, question_ids, question_mask, text_ids, text_mask):
        w = self.width
        text, text_behind, tm = self.row(text_ids, text_mask, self.vocabulary)
        question, question_behind, qm = self.row(question_ids, question_mask, self.vocabulary + 1)
        of_text = self.places(text)
        by_token = tm.unsqueeze(2)
        t, text_unit = self.encode(text, by_token, of_text)
        q, question_unit = self.encode(question, qm.unsqueeze(2), self.places(question))

        side, bias, asks, of_fuse = self.of_question(q).split([w, 1, 1, w], 2)
        hidden = (MASKED * (1 - qm)).unsqueeze(2)
        about = torch.matmul(torch.softmax(asks + hidden, 1).transpose(1, 2), q)  # [n, 1, width]
        of_about = self.of_about(about)

        # Whether the tokens are the same, have one stem, have the same behind them: [n, 3, q, t]. Cosines beside them, and
        # where two in a row are the same.
        of_texts = torch.stack([text, self.stems[text].long(), text_behind], 1).unsqueeze(2)
        of_questions = torch.stack([question, self.stems[question].long(), question_behind], 1).unsqueeze(3)
        exact, stem, following = (of_texts == of_questions).float().split(1, 1)
        soft = torch.matmul(question_unit, text_unit.transpose(1, 2)).unsqueeze(1)
        matches = torch.cat([exact, stem, soft, exact * following], 1)

        weight = self.importance[question]  # [n, q]
        total = weight.sum(1, keepdim=True) + 1e-3
        share = weight / total

        attention = torch.matmul(side, t.transpose(1, 2)) + (exact * self.bonus[0] + stem * self.bonus[1])[:, 0] + (bias + hidden)
        attention = torch.softmax(attention, 1).transpose(1, 2)  # [n, t, q]
        product = t * torch.matmul(attention, q)
        others = torch.matmul(attention, of_fuse + of_about[:, :, :w])

        # Of every token: the best match of each kind, the matches' share, the matches around.
        best, shared = matches.amax(2), torch.matmul(share.unsqueeze(1).unsqueeze(1), matches)[:, :, 0]
        weighted = (torch.max(stem, torch.relu(soft) ** 2) * share.unsqueeze(1).unsqueeze(3))[:, 0]
        near = F.max_pool1d(F.pad(weighted, (REACH, REACH)), WINDOWS[0], stride=1, padding=WINDOWS[0] // 2)
        wide = F.max_pool1d(near, STEPS + 1, stride=1, dilation=2 * REACH // STEPS)
        local = torch.stack([near[:, :, REACH:-REACH].sum(1), wide.sum(1)], 1)
        place = (8 / (7 + torch.cumsum(tm, 1))).unsqueeze(1)
        rows = torch.cat([best[:, :1], best[:, 2:], shared[:, :3], F.pad(best[:, 3:, :-1], (1, 0)), local, place], 1)

        x = torch.cat([t, product, rows.transpose(1, 2)], 2)
        x = torch.addmm(others.reshape(-1, w), x.reshape(-1, len(self.of_text)), self.of_text)
        x = torch.relu(x).reshape(t.shape) + t
        for layer in self.after:
            x = layer(x, by_token, self.place(of_text, layer))
        x = self.final(x)

        heads = torch.matmul(of_about[:, :, w:].reshape(-1, 3, w), x.transpose(1, 2)) + ((MASKED * (1 - tm)).unsqueeze(1) + self.head_bias)
        spans = heads[:, :2]
        pooled = torch.matmul(torch.softmax(heads[:, 2:], 2), x)
        whole = torch.cat([pooled, about, pooled * about], 2).reshape(-1, 3 * w)

        features = self.features(matches, soft, local * tm.unsqueeze(1), spans, weight, total, share, qm, tm)
        joint = torch.cat([torch.relu(self.hidden(torch.cat([whole, features], 1))), features], 1)
        relevance = self.relevance(joint)
        known = torch.cat([joint, relevance], 1)
        scores = torch.cat([relevance, self.labels(known)], 1)
        return scores, spans[:, 0, :-1], spans[:, 1, :-1], known

    def features(self, matches, soft, local, spans, weight, total, share, qm, tm):
        """pair_model.Pair.text_features."""
        length = tm.sum(1, keepdim=True)
        seen = matches.sum(3)[:, :2]  # exact, stem: [n, 2, q]
        base = (self.base + self.slope * length).unsqueeze(2)
        best = matches.amax(3)  # [n, 4, q]
        exact, stem, soft_best, _ = best.split(1, 1)
        softly = torch.max(stem, soft_best)
        missing = (weight.unsqueeze(1) * (1 - softly)).amax(2)
        near = torch.exp((soft - self.kernels) ** 2 * -50)
        near = torch.matmul(near, tm.unsqueeze(1).unsqueeze(3))[:, :, :, 0]  # [n, kernels, q]
        # What a question's tokens add up to, each by its share.
        by_share = torch.matmul(torch.cat([seen / (seen + base), best, softly, torch.log(1 + near)], 1), share.unsqueeze(2))[:, :, 0]
        literal, lexical, literally, covered, _, bigrams, softly, *kernels = by_share.split(1, 1)
        end = spans[:, 1:]
        best_end = F.max_pool1d(F.pad(end, (0, ENDS), value=MASKED), ENDS + 1, stride=1)
        columns = [
            lexical * total, lexical, literal * total, literal, covered, literally, softly, missing, total, torch.log(length) - 5,
            qm.sum(1, keepdim=True), best[:, 3].sum(1, keepdim=True), bigrams, local.amax(2), local[:, 0].sum(1, keepdim=True) / (length + 1), *kernels,
            torch.logsumexp(spans, 2), spans.amax(2), (spans[:, :1] + best_end).amax(2),
        ]
        return (torch.cat(columns, 1) * self.scales).clamp(-20, 20)
