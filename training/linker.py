"""Trains the linker: SAKI's sentence-level transformer, whose attention says which passages belong together.

The elements of its sequence are vectors of two-sentence passages by the shipped encoder.
The attention that is shipped is averaged over layers and heads (SAKI, eq. 2-3); a passage
does not attend to itself, so that its weight goes to others. SAKI takes a large language
model over sentences as it is; ours is small and trained for the purpose, by two losses:
the averaged attention should lie on the passages that answer a question together with the
one that looks, and a passage that is hidden should be told from others by what its
sequence tells (InfoNCE), which is what makes a sentence-level language model.

It begins as a rule without anything learnt: passages attend to the nearest, and a step between
two neighbours is the longer the less alike they are (START, in Gaps). Training is held near the
rule, because what answers together lies together, and documents for training are few.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F

import corpora
import documents
import shipped

WINDOW = 256  # passages that the model sees at once
TRAINED = 128  # the longest window in training; it knows no absolute places, and longer ones do as well
SIDES = (1, 2, 4, 8)  # passages on each side of a gap that are compared over it
START = (2 / 3, 2 / 3, 2 / 3, 0.0)  # the rule: exp(-2 (cosine - its mean)), the cosine averaged over three sides


class Gaps(torch.nn.Module):
    """Where passages lie: each gap between neighbours is as wide as what follows is about something else.

    A gap is exp(-weights . (cosines - their means)): the cosines of what lies on its two sides, as TextTiling
    compares blocks, against those of the window's other gaps. An average gap is about 1 wide.
    """

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.tensor(START))

    def forward(self, vectors, mask):
        """Positions [n, p]."""
        p = vectors.shape[1]
        known = vectors * mask.unsqueeze(2)
        sums = torch.cat([torch.zeros_like(known[:, :1]), known.cumsum(dim=1)], dim=1)  # [n, p + 1, d]
        at = torch.arange(1, p, device=vectors.device)
        features = []
        for side in SIDES:
            before = sums[:, at] - sums[:, (at - side).clamp(min=0)]
            behind = sums[:, torch.minimum(at + side, torch.full_like(at, 0) + p)] - sums[:, at]
            features.append((F.normalize(before, dim=2) * F.normalize(behind, dim=2)).sum(2))
        features = torch.stack(features, dim=2)  # [n, p - 1, sides]
        there = mask[:, 1:].unsqueeze(2)
        means = (features * there).sum(dim=1, keepdim=True) / there.sum(dim=1, keepdim=True).clamp(min=1)
        gap = torch.exp((-((features - means) * self.weights).sum(2)).clamp(-3, 3))
        return F.pad(gap.cumsum(dim=1), (1, 0))


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
        torch.nn.init.zeros_(self.query.weight)  # what passages say begins to count when training finds that it should
        torch.nn.init.zeros_(self.query.bias)

    def forward(self, x, apart, bias, dropout):
        """(x, attention, what the passages' content adds to it before softmax)."""
        n, p, width = x.shape
        inputs = self.before(x)
        query, key, value = (
            f(inputs).view(n, p, self.heads, width // self.heads).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        content = query @ key.transpose(2, 3) / (width // self.heads) ** 0.5
        attention = torch.softmax(content - apart.unsqueeze(1) * F.softplus(self.slope).view(1, -1, 1, 1) + bias, dim=3)
        x = x + F.dropout(self.out((attention @ value).transpose(1, 2).reshape(n, p, width)), dropout, self.training)
        return x + F.dropout(self.inner(self.then(x)), dropout, self.training), attention, content


class Linker(torch.nn.Module):
    """vectors [n, p, 256], mask [n, p] (int64, 1: a passage) -> attention [n, p, p]. Untrained it is the rule."""

    def __init__(self, dimension=256, width=64, layers=2, heads=4, dropout=0.2):
        super().__init__()
        self.gaps = Gaps()
        self.project = torch.nn.Linear(dimension, width)
        self.layers = torch.nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.hidden = torch.nn.Parameter(torch.randn(dimension) * 0.05)
        self.guess = torch.nn.Linear(width, dimension)
        self.dropout = dropout

    def run(self, vectors, mask):
        """(x, attention, mean square of what content adds to scores)."""
        p = vectors.shape[1]
        places = self.gaps(vectors, mask.float())
        apart = (places.unsqueeze(2) - places.unsqueeze(1)).abs()
        bias = (1 - mask.float()).unsqueeze(1).unsqueeze(1) * -1e4 - torch.eye(p, device=vectors.device) * 1e5
        x, total, away = self.project(F.dropout(vectors, 2 * self.dropout, self.training)), 0, 0
        for layer in self.layers:
            x, attention, content = layer(x, apart, bias, self.dropout)
            total, away = total + attention.mean(dim=1), away + (content**2).mean()
        return x, total / len(self.layers), away / len(self.layers)

    def forward(self, vectors, mask):
        return self.run(vectors, mask)[1]

    def away(self):
        """How far the gaps' weights are from the rule's."""
        return ((self.gaps.weights - torch.tensor(START)) ** 2).sum()


class Texts:
    """Documents with the vectors of their passages."""

    def __init__(self, found, encode):
        self.documents = [d for d in found if len(d.passages) > 2]
        self.vectors = [encode(d.passages) for d in self.documents]

    def window(self, number, rng):
        """A random window of a document."""
        n = len(self.documents[number].passages)
        size = min(n, int(rng.integers(24, TRAINED + 1)))
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
    """The attention's loss, that of the hidden passages, and how far the model is from the rule: by content, by gaps."""
    _, attention, away = model.run(vectors, mask)
    rows = wanted.sum(2) > 0
    # Against what attending to all alike would catch, so that rows with much to find do not rule.
    caught = (attention * wanted).sum(2)[rows]
    link = -(caught + 1e-6).log().mean()
    hide = (torch.rand(mask.shape) < 0.15) & (mask == 1)
    x, _, _ = model.run(torch.where(hide.unsqueeze(2), model.hidden, vectors), mask)
    guessed = F.normalize(model.guess(x[hide]), dim=1)
    return link, F.cross_entropy(guessed @ vectors[hide].T * 20, torch.arange(int(hide.sum()))), away, model.away()


@torch.no_grad()
def whole(model, vectors):
    """The attention [p, p] between a document's passages, as Sluice puts it together.

    Windows overlap by half, the last one is whole, and a passage's links are those of the window in which
    it is farthest from a border (of two equal ones the stronger links of both).
    """
    n = len(vectors)
    starts = [0] if n <= WINDOW else [*range(0, n - WINDOW, WINDOW // 2), n - WINDOW]
    best, margin = torch.zeros(n, n), torch.full((n,), -1)
    for first in starts:
        part = vectors[first : first + WINDOW]
        end = first + len(part)
        attention = model(part.unsqueeze(0), torch.ones(1, len(part), dtype=torch.long))[0]
        at = torch.arange(first, end)
        room = torch.minimum(at - first if first > 0 else torch.full_like(at, n), end - 1 - at if end < n else torch.full_like(at, n))
        best[at[room > margin[at]]] = 0
        rows = at[room >= margin[at]]
        best[rows, first:end] = torch.maximum(best[rows, first:end], attention[rows - first])
        margin[at] = torch.maximum(margin[at], room)
    return best


def links(model, vectors, keep):
    """[p, keep] numbers of the strongest passages of a document."""
    return whole(model, vectors).fill_diagonal_(-1).topk(min(keep, len(vectors) - 1), dim=1).indices


def nearest(vectors, keep):
    return (vectors @ vectors.T).fill_diagonal_(-2).topk(min(keep, len(vectors) - 1), dim=1).indices


def adjacent(vectors, keep):
    """The nearest by place; of two equally near ones the following."""
    place = torch.arange(len(vectors)).float()
    apart = (place.unsqueeze(0) - place.unsqueeze(1)).abs() - 0.1 * (place.unsqueeze(0) > place.unsqueeze(1)).float()
    apart.fill_diagonal_(len(vectors) + 1)
    return apart.topk(min(keep, len(vectors) - 1), dim=1, largest=False).indices


def co_evidence(texts, way, keeps):
    """How much of what answers together with a passage is among its links: recall at each of `keeps`, of what could be."""
    found, could = np.zeros(len(keeps)), 0
    for document, vectors in zip(texts.documents, texts.vectors):
        chosen = way(vectors, max(keeps))
        for group in document.groups:
            inside = torch.zeros(len(vectors))
            inside[group] = 1
            caught = inside[chosen[group]].cumsum(1)
            for i, keep in enumerate(keeps):
                keep = min(keep, chosen.shape[1])
                found[i] += float(caught[:, keep - 1].sum()) / min(keep, len(group) - 1)
            could += len(group)
    return found / max(1, could)


def report(model, dev, keeps):
    ways = {
        "linker": lambda v, k: links(model.eval(), v, k), "rule alone": lambda v, k: links(Linker().eval(), v, k),
        "adjacent": adjacent, "nearest": nearest,
    }
    for name, texts in dev.items():
        print(f"{name:16} " + " ".join(f"{keep:>6}" for keep in keeps) + " links")
        for way, rule in ways.items():
            print(f"  {way:14} " + " ".join("%.4f" % x for x in co_evidence(texts, rule, keeps)), flush=True)


def read(few):
    """The training documents and those that settings are chosen on."""
    encode = shipped.Encoder().encode
    train = documents.qmsum("train")[few] + documents.fairytaleqa("train")[few] + documents.squad(False)[few]
    return Texts(train, encode), measured(encode, "val", few)


def measured(encode, split, few):
    """The documents of a split that is not trained on."""
    found = {"qmsum": documents.qmsum(split)[few], "fairytaleqa": documents.fairytaleqa(split)[few]}
    return {f"{name} {split}": Texts(texts, encode) for name, texts in found.items()}


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--content", type=float, default=0.05, help="how much content is held at nothing")
    parser.add_argument("--gaps", type=float, default=0.02, help="how much the gaps' weights are held at the rule's")
    parser.add_argument("--hidden", type=float, default=0.2, help="weight of the hidden passages' loss")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=int, nargs="+", default=[1, 3, 5, 10], help="links per passage, for the figures")
    parser.add_argument("--test", action="store_true", help="only measure the trained linker, on the test splits")
    parser.add_argument("--smoke", action="store_true", help="one epoch on few documents")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    started, few = time.time(), slice(0, 12 if args.smoke else None)
    if args.test:
        model = Linker()
        model.load_state_dict(torch.load(corpora.intermediate(args.work, "linker.pt", "linker"))["model"])
        report(model, measured(shipped.Encoder().encode, "test", few), args.keep)
        return
    train, dev = read(few)
    print(f"{len(train.documents)} documents, {time.time() - started:.0f} s", flush=True)

    # As many windows of each set, whatever its documents' lengths.
    source = np.array([d.source for d in train.documents])
    length = np.array([len(d.passages) for d in train.documents], float)
    sets = sorted(set(source))
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
            link, hidden, content, gaps = losses(model, vectors, mask, wanted)
            optimizer.zero_grad()
            (link + args.hidden * hidden + args.content * content + args.gaps * gaps).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            seen.append((link.item(), hidden.item(), content.item()))
        model.eval()
        scores = {name: co_evidence(t, lambda v, k: links(model, v, k), (1, 3, 5)) for name, t in dev.items()}
        print("epoch %d, losses %.4f %.4f, content %.4f," % (epoch + 1, *np.mean(seen, axis=0)),
              *("%s %.4f %.4f %.4f," % (name, *s) for name, s in scores.items()),
              "weights " + " ".join("%.2f" % w for w in model.gaps.weights), "%.0f s" % (time.time() - started), flush=True)
        if np.mean(list(scores.values())) > best:
            best = np.mean(list(scores.values()))
            torch.save({"model": model.state_dict(), "epoch": epoch + 1}, path)
    model.load_state_dict(torch.load(path)["model"])
    report(model, dev, args.keep)


if __name__ == "__main__":
    main()
