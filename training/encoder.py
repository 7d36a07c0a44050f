"""Trains the static text encoder: a vector and a weight per token, summed and brought to unit length.

Questions and passages share the encoder. The loss is InfoNCE over the batch's passages
plus, in the last epochs, one mined hard negative per question. Beside the real questions
there are made-up ones (part of a sentence asks for its passage), so that every token
of the text is learnt from, not only those that questions have. The checkpoint after each epoch is in
work/encoder.pt and training resumes from it.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F

import batches
import corpora


class Encoder(torch.nn.Module):
    def __init__(self, vocabulary, dimension, weights):
        super().__init__()
        self.vectors = torch.nn.Parameter(torch.randn(vocabulary, dimension) / dimension**0.5)
        self.weights = torch.nn.Parameter(torch.from_numpy(np.log(weights)).float())
        self.scale = torch.nn.Parameter(torch.tensor(3.0))

    def table(self):
        """Token vectors with their weights multiplied in: what the exported graph holds."""
        return self.vectors * self.weights.exp().unsqueeze(1)


def embed(bags, table):
    """Unit vectors of packed texts; a text without tokens has the zero vector."""
    ids, offsets, weights = (t.to(table.device) for t in bags)
    return F.normalize(F.embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=weights), dim=1)


def load(work):
    """The last checkpoint's token vectors, weights multiplied in, and the power of repeated tokens."""
    state = torch.load(corpora.intermediate(work, "encoder.pt", "encoder"), map_location="cpu")
    vectors, weights = state["model"]["vectors"], state["model"]["weights"]
    table = vectors * weights.exp().unsqueeze(1)
    table[:2] = 0  # [PAD] and [UNK] say nothing
    return table, state["args"]["power"]


def initial_weights(corpus):
    """Inverse document frequency over training passages; unseen tokens count as rare."""
    numbers = np.flatnonzero(~corpus.is_held_out)
    starts, ends = corpus.passage(numbers, 1 << 30)
    tokens, rows = batches.gather(corpus.flat, starts, ends, np.arange(len(numbers)))
    keys = np.unique(rows.astype(np.int64) * corpus.vocabulary + tokens)
    frequency = np.bincount(keys % corpus.vocabulary, minlength=corpus.vocabulary)
    idf = np.log(1 + (len(numbers) - frequency + 0.5) / (frequency + 0.5))
    return np.maximum(idf / idf.max(), 0.02)


@torch.no_grad()
def encode_all(table, corpus, starts, ends, power, step=4096):
    parts = range(0, len(starts), step)
    return torch.cat([embed(batches.runs(corpus, starts[i : i + step], ends[i : i + step], power), table) for i in parts])


def validate(table, corpus, power):
    """hit@1 and nDCG@10 of the held-out articles' questions over all SQuAD train paragraphs."""
    pool = np.flatnonzero(corpus.source == "squad")
    asked = np.flatnonzero(corpus.is_held_out[corpus.question_passage])
    gold = torch.from_numpy(np.searchsorted(pool, corpus.question_passage[asked]))
    found = encode_all(table, corpus, *corpus.passage(pool), power).cpu()
    vectors = encode_all(table, corpus, *corpus.question(asked), power).cpu()
    return ranking(vectors, found, gold)


def ranking(questions, passages, gold):
    """(hit@1, nDCG@10) where each question has one right passage."""
    ranks = []
    for i in range(0, len(questions), 1024):
        scores = questions[i : i + 1024] @ passages.T
        right = scores.gather(1, gold[i : i + 1024].unsqueeze(1))
        ranks.append((scores > right).sum(1))
    rank = torch.cat(ranks).double()
    gain = torch.where(rank < 10, 1 / torch.log2(rank + 2), torch.zeros_like(rank))
    return (rank == 0).double().mean().item(), gain.mean().item()


def mine(table, corpus, asked, power, depth):
    """For each question, its `depth` nearest training passages other than the right one."""
    pool = np.flatnonzero(~corpus.is_held_out)
    passages = encode_all(table, corpus, *corpus.passage(pool), power)
    gold = np.searchsorted(pool, corpus.question_passage[asked])
    out = np.empty((len(asked), depth), np.int64)
    for i in range(0, len(asked), 2048):
        part = asked[i : i + 2048]
        scores = encode_all(table, corpus, *corpus.question(part), power) @ passages.T
        scores[torch.arange(len(part)), torch.from_numpy(gold[i : i + 2048])] = -2
        out[i : i + 2048] = pool[scores.topk(depth).indices.cpu().numpy()]
    return out


def passage_bags(corpus, numbers, evidence, rng, args):
    """Passages as the model will meet them: whole, with their title, or a few sentences around the evidence."""
    starts, ends = corpus.passage(numbers, 10**9)
    starts, ends = starts.copy(), ends.copy()
    kind = rng.random(len(numbers))
    for row in np.flatnonzero((kind < args.windows) | (ends - starts > 512)):
        first, last = corpus.passages[numbers[row]], corpus.passages[numbers[row] + 1]
        width = rng.integers(1, 6)
        if kind[row] >= args.windows:
            starts[row] += rng.integers(0, ends[row] - starts[row] - 400)
            ends[row] = min(ends[row], starts[row] + 512)
        elif evidence[row] >= 0:
            at = first + evidence[row]
            left = max(first, at - rng.integers(0, width))
            starts[row] = corpus.sentences[left]
            ends[row] = corpus.sentences[min(last, max(left + width, at + 1))]
    ends = np.minimum(ends, starts + 512)
    order = np.arange(len(numbers))
    tokens, rows = batches.gather(corpus.flat, starts, ends, order)
    titled = np.flatnonzero(rng.random(len(numbers)) < args.titles)
    more, more_rows = batches.gather(corpus.flat, *corpus.title(numbers[titled]), titled)
    tokens, rows = np.concatenate([tokens, more]), np.concatenate([rows, more_rows])
    keep = rng.random(len(tokens)) >= args.drop
    return batches.pack(tokens[keep], rows[keep], len(numbers), corpus.vocabulary, args.power)


def order_of(corpus, asked, rng, mixed):
    """The epoch's questions: runs of one article stay together, so that a batch is hard."""
    article = corpus.article[corpus.question_passage[asked]].astype(np.float64)
    key = np.where(article >= 0, article, 10**6 + rng.random(len(asked)) * 500)
    groups = rng.permutation(10**6 + 501)[key.astype(np.int64)].astype(np.float64)
    scattered = rng.random(len(asked)) < mixed
    groups[scattered] = rng.random(scattered.sum()) * (10**6 + 501)
    return np.argsort(groups + rng.random(len(asked)) * 0.5)


def train(args):
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    corpus = batches.Corpus(args.work)
    checkpoint = args.work / "encoder.pt"
    model = Encoder(corpus.vocabulary, args.dimension, initial_weights(corpus)).to(device)
    groups = [
        {"params": [model.vectors], "lr": args.rate},
        {"params": [model.weights, model.scale], "lr": args.rate * args.weight_rate},
    ]
    optimizer = torch.optim.Adam(groups, betas=(0.9, 0.98), foreach=True)
    rates = [group["lr"] for group in groups]

    allowed = ~corpus.is_held_out[corpus.question_passage]
    rng = np.random.default_rng(args.seed)
    medical = corpus.source[corpus.question_passage] == "medquad"
    allowed &= ~medical | (rng.random(len(allowed)) < args.medical)
    asked = np.flatnonzero(allowed)
    pool = np.flatnonzero(~corpus.is_held_out & (corpus.passages[1:] > corpus.passages[:-1]))
    if args.smoke:
        asked = asked[:: len(asked) // 8000]
    steps = -(-len(asked) // args.batch) * args.epochs

    begin, step = 0, 0
    if args.resume and checkpoint.exists():
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin, step = state["epoch"], state["step"]
    print("hit@1 %.4f nDCG@10 %.4f at the start" % validate(model.table().detach(), corpus, args.power), flush=True)

    for epoch in range(begin, args.epochs):
        started, losses = time.time(), []
        rng = np.random.default_rng([args.seed, epoch])
        negatives = None
        if epoch >= args.mine_from:
            negatives = mine(model.table().detach(), corpus, asked, args.power, args.depth)
        mined = time.time() - started
        order = order_of(corpus, asked, rng, args.mixed)
        for i in range(0, len(order), args.batch):
            picked = order[i : i + args.batch]
            rate = min(1, (step + 1) / args.warm) * max(0.02, 1 - step / steps)
            for group, base in zip(optimizer.param_groups, rates):
                group["lr"] = rate * base
            passages = corpus.question_passage[asked[picked]]
            evidence = corpus.question_sentence[asked[picked]]
            if negatives is not None:
                extra = negatives[picked, rng.integers(0, args.depth, len(picked))]
                passages = np.concatenate([passages, extra])
                evidence = np.concatenate([evidence, np.full(len(extra), -1)])
            starts, ends = corpus.question(asked[picked])
            drop = np.full(len(picked), args.drop)
            more = int(len(picked) * args.pseudo)
            if more:
                about = rng.choice(pool, more)
                first, last = corpus.passages[about], corpus.passages[about + 1]
                taken = rng.integers(first, last)
                starts = np.concatenate([starts, corpus.sentences[taken]])
                ends = np.concatenate([ends, corpus.sentences[taken + 1]])
                drop = np.concatenate([drop, rng.uniform(0.3, 0.8, more)])
                passages = np.insert(passages, len(picked), about)
                evidence = np.insert(evidence, len(picked), taken - first)
            asking = len(starts)
            tokens, rows = batches.gather(corpus.flat, starts, ends, np.arange(asking))
            keep = rng.random(len(tokens)) >= drop[rows]
            questions = batches.pack(tokens[keep], rows[keep], asking, corpus.vocabulary, args.power)
            table = model.table()
            q = embed(questions, table)
            p = embed(passage_bags(corpus, passages, evidence, rng, args), table)
            logits = (q @ p.T) * model.scale.exp().clamp(max=args.max_scale)
            # Another question's passage is no negative when it is the same passage.
            numbers = torch.from_numpy(passages).to(device)
            same = numbers[:asking].unsqueeze(1) == numbers.unsqueeze(0)
            same[torch.arange(asking), torch.arange(asking)] = False
            logits = logits.masked_fill(same, -1e4)
            target = torch.arange(asking, device=device)
            loss = F.cross_entropy(logits, target)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            step += 1
        score = validate(model.table().detach(), corpus, args.power)
        print(
            f"epoch {epoch + 1}: loss {np.mean(losses):.4f}, hit@1 {score[0]:.4f}, nDCG@10 {score[1]:.4f}, "
            f"scale {model.scale.exp().item():.1f}, mining {mined:.0f} s, {time.time() - started:.0f} s",
            flush=True,
        )
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "epoch": epoch + 1,
            "step": step,
            "args": {"dimension": args.dimension, "power": args.power},
        }
        # Renamed into place, so that a kill leaves the old checkpoint whole.
        torch.save(state, checkpoint.with_suffix(".new"))
        checkpoint.with_suffix(".new").replace(checkpoint)


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--rate", type=float, default=0.003)
    parser.add_argument("--weight-rate", type=float, default=1.0, help="rate of token weights, relative to --rate")
    parser.add_argument("--pseudo", type=float, default=0.5, help="made-up questions (half of a random sentence) per real one")
    parser.add_argument("--warm", type=int, default=50, help="warm-up steps")
    parser.add_argument("--power", type=float, default=0.5, help="weight of a token seen n times in a text: n ** power")
    parser.add_argument("--drop", type=float, default=0.2, help="share of tokens left out, anew each time")
    parser.add_argument("--windows", type=float, default=0.25, help="share of passages cut to a few sentences")
    parser.add_argument("--titles", type=float, default=0.3, help="share of passages given with their title")
    parser.add_argument("--mixed", type=float, default=0.5, help="share of questions not kept with their article")
    parser.add_argument("--medical", type=float, default=0.5, help="share of the medical pairs used")
    parser.add_argument("--mine-from", type=int, default=6, help="first epoch with mined negatives")
    parser.add_argument("--depth", type=int, default=30, help="nearest passages that negatives are drawn from")
    parser.add_argument("--max-scale", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="a fifteenth of the questions, to see that it runs")
    parser.add_argument("--resume", action="store_true")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
