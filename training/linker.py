"""Trains the linker: SAKI's sentence-level transformer, whose attention says which passages belong together.

The elements of its sequence are vectors of two-sentence passages by the shipped encoder.
The attention that is shipped is averaged over layers and heads (SAKI, eq. 2-3); a passage
does not attend to itself, so that its weight goes to others. SAKI takes a large language
model over sentences as it is; ours is small and trained for the purpose, by two losses:
the averaged attention should lie on the passages that answer a question together with the
one that looks, and a passage that is hidden should be told from others by what its
sequence tells (InfoNCE), which is what makes a sentence-level language model.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F

import corpora
import documents
import shipped

WINDOW = 128  # passages that the model sees at once
SIDES = (1, 2, 4)  # passages on each side of a gap that are compared over it


class Gaps(torch.nn.Module):
    """Where passages lie: each gap between neighbours is as wide as what follows is about something else.

    A gap's width is learnt from the cosines of what lies on its two sides, as TextTiling
    compares blocks. More than these few numbers was learnt by heart, and did worse on
    documents that were not trained on.
    """

    def __init__(self, inner=8):
        super().__init__()
        self.inner = torch.nn.Linear(len(SIDES), inner)
        self.outer = torch.nn.Linear(inner, 1)

    def forward(self, vectors, mask):
        """Positions [n, p]."""
        known = vectors * mask.unsqueeze(2)
        features = []
        sums = torch.cat([torch.zeros_like(known[:, :1]), known.cumsum(dim=1)], dim=1)  # [n, p + 1, d]
        p = vectors.shape[1]
        for side in SIDES:
            at = torch.arange(1, p, device=vectors.device)
            before = sums[:, at] - sums[:, (at - side).clamp(min=0)]
            behind = sums[:, torch.minimum(at + side, torch.full_like(at, 0) + p)] - sums[:, at]
            features.append((F.normalize(before, dim=2) * F.normalize(behind, dim=2)).sum(2, keepdim=True))
        gap = F.softplus(self.outer(torch.tanh(self.inner(torch.cat(features, dim=2)))))
        return F.pad(gap.squeeze(2).cumsum(dim=1), (1, 0))


class Layer(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before = torch.nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (torch.nn.Linear(width, width) for _ in range(4))
        # How fast attention falls with distance: each head begins with another reach.
        self.slope = torch.nn.Parameter(0.7 ** torch.arange(heads).float())
        self.then = torch.nn.LayerNorm(width)
        self.inner = torch.nn.Sequential(torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.Linear(2 * width, width))
        for part in (self.query, self.key):  # what a passage says counts as much as training finds
            torch.nn.init.normal_(part.weight, std=0.005)

    def forward(self, x, apart, bias, dropout):
        n, p, width = x.shape
        inputs = self.before(x)
        query, key, value = (
            f(inputs).view(n, p, self.heads, width // self.heads).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(2, 3) / (width // self.heads) ** 0.5
        scores = scores - apart.unsqueeze(1) * F.softplus(self.slope).view(1, -1, 1, 1) + bias
        attention = torch.softmax(scores, dim=3)
        x = x + F.dropout(self.out((attention @ value).transpose(1, 2).reshape(n, p, width)), dropout, self.training)
        return x + F.dropout(self.inner(self.then(x)), dropout, self.training), attention


class Linker(torch.nn.Module):
    """vectors [n, p, 256], mask [n, p] (int64, 1: a passage) -> attention [n, p, p]."""

    def __init__(self, dimension=256, width=64, layers=2, heads=4, dropout=0.2):
        super().__init__()
        self.gaps = Gaps()
        self.project = torch.nn.Linear(dimension, width)
        self.layers = torch.nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.hidden = torch.nn.Parameter(torch.randn(dimension) * 0.05)
        self.guess = torch.nn.Linear(width, dimension)
        self.dropout = dropout

    def run(self, vectors, mask):
        p = vectors.shape[1]
        places = self.gaps(vectors, mask.float())
        apart = (places.unsqueeze(2) - places.unsqueeze(1)).abs()
        bias = (1 - mask.float()).unsqueeze(1).unsqueeze(1) * -1e4 - torch.eye(p, device=vectors.device) * 1e5
        x, total = self.project(F.dropout(vectors, 2 * self.dropout, self.training)), 0
        for layer in self.layers:
            x, attention = layer(x, apart, bias, self.dropout)
            total = total + attention.mean(dim=1)
        return x, total / len(self.layers)

    def forward(self, vectors, mask):
        return self.run(vectors, mask)[1]


class Texts:
    """Documents with the vectors of their passages."""

    def __init__(self, found, encode):
        self.documents = [d for d in found if len(d.passages) > 2]
        self.vectors = [encode(d.passages) for d in self.documents]

    def window(self, number, rng):
        """A random window of a document, as long as the model reads or shorter."""
        n = len(self.documents[number].passages)
        size = min(n, int(rng.integers(24, WINDOW + 1)))
        return number, int(rng.integers(0, n - size + 1)), size


def together(document, first, size):
    """Which passages of a window share a group: [size, size], without the diagonal."""
    out = torch.zeros(size, size)
    for group in document.groups:
        inside = [p - first for p in group if first <= p < first + size]
        if len(inside) > 1:
            at = torch.tensor(inside)
            out[at.unsqueeze(1), at.unsqueeze(0)] = 1
    out.fill_diagonal_(0)
    return out


def batch(texts, windows):
    size = max(w[2] for w in windows)
    vectors, mask = torch.zeros(len(windows), size, 256), torch.zeros(len(windows), size, dtype=torch.long)
    wanted = torch.zeros(len(windows), size, size)
    for row, (number, first, length) in enumerate(windows):
        vectors[row, :length] = texts.vectors[number][first : first + length]
        mask[row, :length] = 1
        wanted[row, :length, :length] = together(texts.documents[number], first, length)
    return vectors, mask, wanted


def losses(model, vectors, mask, wanted):
    """The attention's loss, and that of the hidden passages."""
    attention = model(vectors, mask)
    rows = wanted.sum(2) > 0
    # Against what attending to all alike would catch, so that rows with much to find do not rule.
    caught = (attention * wanted).sum(2)[rows]
    link = -(caught + 1e-6).log().mean()
    hide = (torch.rand(mask.shape) < 0.15) & (mask == 1)
    x, _ = model.run(torch.where(hide.unsqueeze(2), model.hidden, vectors), mask)
    guessed = F.normalize(model.guess(x[hide]), dim=1)
    return link, F.cross_entropy(guessed @ vectors[hide].T * 20, torch.arange(int(hide.sum())))


def links(model, vectors, keep):
    """[p, keep] numbers of the strongest passages of a document, through windows that overlap by half."""
    n = len(vectors)
    best = torch.zeros(n, n)
    with torch.no_grad():
        for first in range(0, max(1, n - WINDOW // 2), WINDOW // 2):
            part = vectors[first : first + WINDOW]
            attention = model(part.unsqueeze(0), torch.ones(1, len(part), dtype=torch.long))[0]
            place = best[first : first + WINDOW, first : first + WINDOW]
            torch.maximum(place, attention, out=place)
    return best.fill_diagonal_(-1).topk(min(keep, n - 1), dim=1).indices


def nearest(vectors, keep):
    return (vectors @ vectors.T).fill_diagonal_(-2).topk(min(keep, len(vectors) - 1), dim=1).indices


def adjacent(vectors, keep):
    n = len(vectors)
    apart = (torch.arange(n).unsqueeze(0) - torch.arange(n).unsqueeze(1)).abs().float()
    apart.fill_diagonal_(n + 1)
    return apart.topk(min(keep, n - 1), dim=1, largest=False).indices


def co_evidence(texts, rule, keep):
    """How much of what answers together with a passage is among its links: recall at `keep`, of what could be."""
    found, could = 0.0, 0
    for document, vectors in zip(texts.documents, texts.vectors):
        chosen = rule(vectors, keep)
        for group in document.groups:
            inside = torch.zeros(len(vectors))
            inside[group] = 1
            found += float(inside[chosen[group]].sum(1).div(min(chosen.shape[1], len(group) - 1)).sum())
            could += len(group)
    return found / max(1, could)


def report(model, texts, keep):
    model.eval()
    row = [co_evidence(texts, rule, keep) for rule in (lambda v, k: links(model, v, k), nearest, adjacent)]
    return "linker %.4f nearest %.4f adjacent %.4f" % tuple(row)


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=int, nargs="+", default=[1, 3, 5, 10], help="links per passage, for the figures")
    parser.add_argument("--smoke", action="store_true", help="one epoch on few documents")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    started = time.time()

    encode = shipped.Encoder().encode
    few = slice(0, 12 if args.smoke else None)
    sets = {"qmsum": documents.qmsum("train"), "fairytaleqa": documents.fairytaleqa("train"), "squad": documents.squad(False)}
    train = Texts([d for found in sets.values() for d in found[few]], encode)
    dev = {"qmsum val": Texts(documents.qmsum("val")[few], encode), "fairytaleqa val": Texts(documents.fairytaleqa("val")[few], encode)}
    print(f"{len(train.documents)} documents, {time.time() - started:.0f} s", flush=True)

    # As many windows of each set, whatever its documents' lengths.
    source = np.array([d.source for d in train.documents])
    length = np.array([len(d.passages) for d in train.documents], float)
    chance = sum((source == name) * length / length[source == name].sum() for name in sets) / len(sets)

    model = Linker()
    small = [p for name, p in model.named_parameters() if "gaps" in name or "slope" in name]
    large = [p for name, p in model.named_parameters() if "gaps" not in name and "slope" not in name]
    groups = [{"params": small, "share": 10, "weight_decay": 0}, {"params": large, "share": 1, "weight_decay": 1.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.rate)
    epochs, steps = (1, 4) if args.smoke else (args.epochs, 60)
    best = -1.0
    path = args.work / "linker.pt"
    args.work.mkdir(parents=True, exist_ok=True)
    for epoch in range(epochs):
        model.train()
        seen = []
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = group["share"] * args.rate * min(1, (epoch * steps + step + 1) / 100) * (1 - (epoch * steps + step) / (epochs * steps))
            picked = rng.choice(len(train.documents), args.batch, p=chance)
            vectors, mask, wanted = batch(train, [train.window(n, rng) for n in picked])
            link, hidden = losses(model, vectors, mask, wanted)
            optimizer.zero_grad()
            (link + 0.2 * hidden).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            seen.append((link.item(), hidden.item()))
        model.eval()
        scores = [co_evidence(t, lambda v, k: links(model, v, k), 5) for t in dev.values()]
        print("epoch %d, losses %.4f %.4f," % (epoch + 1, *np.mean(seen, axis=0)), *("%s %.4f" % s for s in zip(dev, scores)), "%.0f s" % (time.time() - started), flush=True)
        if np.mean(scores) > best:
            best = np.mean(scores)
            torch.save({"model": model.state_dict(), "epoch": epoch + 1}, path)
    model.load_state_dict(torch.load(path)["model"])
    for name, texts in dev.items():
        for keep in args.keep:
            print(f"{name}, {keep} links: {report(model, texts, keep)}", flush=True)


if __name__ == "__main__":
    main()
