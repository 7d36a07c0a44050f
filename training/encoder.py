"""Trains the static text encoder: a vector and a weight per token, summed and brought to unit length.

Questions and passages share the encoder. The loss is InfoNCE over the batch's passages
plus one mined hard negative per question; the checkpoint after each epoch is in
work/encoder.pt and training resumes from it.
"""

import argparse
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import batches
import corpora

CHECKPOINT = corpora.WORK / "encoder.pt"


class Encoder(torch.nn.Module):
    def __init__(self, vocabulary, dimension, weights):
        super().__init__()
        self.vectors = torch.nn.Parameter(torch.randn(vocabulary, dimension) / dimension**0.5)
        self.weights = torch.nn.Parameter(torch.from_numpy(np.log(weights)).float())
        self.scale = torch.nn.Parameter(torch.tensor(3.0))

    def table(self):
        """Token vectors with their weights multiplied in: what the exported graph holds."""
        return self.vectors * self.weights.exp().unsqueeze(1)

    def forward(self, bags, table=None):
        ids, offsets, weights = (t.to(self.vectors.device) for t in bags)
        table = self.table() if table is None else table
        return F.normalize(
            F.embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=weights), dim=1
        )


def load(vocabulary):
    """The last checkpoint's model and the arguments it was trained with."""
    if not CHECKPOINT.exists():
        sys.exit(f"{CHECKPOINT} is missing: run `make encoder` first")
    state = torch.load(CHECKPOINT, map_location="cpu")
    model = Encoder(vocabulary, state["args"]["dimension"], np.ones(vocabulary))
    model.load_state_dict(state["model"])
    # Later steps use the shipped precision, so that thresholds fit the pack.
    with torch.no_grad():
        table = model.table()
        table[:2] = 0  # [PAD] and [UNK] say nothing
        model.vectors.copy_(table.half().float())
        model.weights.zero_()
    return model, state["args"]


def initial_weights(corpus):
    """Inverse document frequency over training passages; unseen tokens count as rare."""
    numbers = np.flatnonzero(~corpus.is_held_out)
    starts, ends = corpus.passage(numbers, 1 << 30)
    tokens, rows = batches.gather(corpus.flat, starts, ends, np.arange(len(numbers)))
    keys = np.unique(rows.astype(np.int64) * corpus.vocabulary + tokens)
    frequency = np.bincount(keys % corpus.vocabulary, minlength=corpus.vocabulary)
    idf = np.log(1 + (len(numbers) - frequency + 0.5) / (frequency + 0.5))
    return np.maximum(idf / idf.max(), 0.02)


def encode_all(model, corpus, starts, ends, power, step=4096):
    with torch.no_grad():
        table = model.table()
        return torch.cat(
            [
                model(batches.runs(corpus, starts[i : i + step], ends[i : i + step], power), table)
                for i in range(0, len(starts), step)
            ]
        )


def validate(model, corpus, power):
    """hit@1 and nDCG@10 of the held-out articles' questions over all SQuAD train paragraphs."""
    pool = np.flatnonzero(corpus.source == "squad")
    asked = np.flatnonzero(corpus.is_held_out[corpus.question_passage])
    gold = torch.from_numpy(np.searchsorted(pool, corpus.question_passage[asked]))
    found = encode_all(model, corpus, *corpus.passage(pool), power).cpu()
    vectors = encode_all(model, corpus, *corpus.question(asked), power).cpu()
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


def mine(model, corpus, asked, power, depth):
    """For each question, its `depth` nearest training passages other than the right one."""
    pool = np.flatnonzero(~corpus.is_held_out)
    passages = encode_all(model, corpus, *corpus.passage(pool), power)
    gold = np.searchsorted(pool, corpus.question_passage[asked])
    out = np.empty((len(asked), depth), np.int64)
    for i in range(0, len(asked), 2048):
        part = asked[i : i + 2048]
        scores = encode_all(model, corpus, *corpus.question(part), power) @ passages.T
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
    corpus = batches.Corpus()
    model = Encoder(corpus.vocabulary, args.dimension, initial_weights(corpus)).to(device)
    groups = [
        {"params": [model.vectors], "lr": args.rate},
        {"params": [model.weights, model.scale], "lr": args.rate * args.weight_rate},
    ]
    optimizer = torch.optim.Adam(groups, betas=(0.9, 0.98), foreach=True)

    allowed = ~corpus.is_held_out[corpus.question_passage]
    rng = np.random.default_rng(args.seed)
    medical = corpus.source[corpus.question_passage] == "medquad"
    allowed &= ~medical | (rng.random(len(allowed)) < args.medical)
    asked = np.flatnonzero(allowed)
    if args.smoke:
        asked = asked[:: len(asked) // 8000]
    steps = -(-len(asked) // args.batch) * args.epochs

    begin, step = 0, 0
    if args.resume and CHECKPOINT.exists():
        state = torch.load(CHECKPOINT)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin, step = state["epoch"], state["step"]
    print("hit@1 %.4f nDCG@10 %.4f at the start" % validate(model, corpus, args.power), flush=True)

    for epoch in range(begin, args.epochs):
        started, losses = time.time(), []
        rng = np.random.default_rng([args.seed, epoch])
        negatives = None
        if epoch >= args.mine_from:
            negatives = mine(model, corpus, asked, args.power, args.depth)
        mined = time.time() - started
        order = order_of(corpus, asked, rng, args.mixed)
        for i in range(0, len(order), args.batch):
            picked = order[i : i + args.batch]
            rate = min(1, (step + 1) / args.warm) * max(0.02, 1 - step / steps)
            for group, base in zip(optimizer.param_groups, groups):
                group["lr"] = rate * (args.rate if base is groups[0] else args.rate * args.weight_rate)
            passages = corpus.question_passage[asked[picked]]
            evidence = corpus.question_sentence[asked[picked]]
            if negatives is not None:
                extra = negatives[picked, rng.integers(0, args.depth, len(picked))]
                passages = np.concatenate([passages, extra])
                evidence = np.concatenate([evidence, np.full(len(extra), -1)])
            starts, ends = corpus.question(asked[picked])
            tokens, rows = batches.gather(corpus.flat, starts, ends, np.arange(len(picked)))
            keep = rng.random(len(tokens)) >= args.drop
            questions = batches.pack(tokens[keep], rows[keep], len(picked), corpus.vocabulary, args.power)
            table = model.table()
            q = model(questions, table)
            p = model(passage_bags(corpus, passages, evidence, rng, args), table)
            logits = (q @ p.T) * model.scale.exp().clamp(max=args.max_scale)
            # Another question's passage is no negative when it is the same passage.
            numbers = torch.from_numpy(passages).to(device)
            same = numbers[: len(picked)].unsqueeze(1) == numbers.unsqueeze(0)
            same[torch.arange(len(picked)), torch.arange(len(picked))] = False
            logits = logits.masked_fill(same, -1e4)
            target = torch.arange(len(picked), device=device)
            loss = F.cross_entropy(logits, target, label_smoothing=args.smoothing)
            if args.backward_loss:
                square = logits[:, : len(picked)]
                loss = loss + args.backward_loss * F.cross_entropy(square.T, target)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            step += 1
        score = validate(model, corpus, args.power)
        print(
            f"epoch {epoch + 1}: loss {np.mean(losses):.4f}, hit@1 {score[0]:.4f}, nDCG@10 {score[1]:.4f}, "
            f"scale {model.scale.exp().item():.1f}, mining {mined:.0f} s, {time.time() - started:.0f} s",
            flush=True,
        )
        if not args.scratch:
            torch.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "epoch": epoch + 1,
                    "step": step,
                    "args": vars(args),
                },
                CHECKPOINT,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--rate", type=float, default=0.003)
    parser.add_argument("--weight-rate", type=float, default=1.0, help="rate of token weights, relative to --rate")
    parser.add_argument("--warm", type=int, default=50, help="warm-up steps")
    parser.add_argument("--power", type=float, default=1.0, help="weight of a token seen n times in a text: n ** power")
    parser.add_argument("--drop", type=float, default=0.1, help="share of tokens left out, anew each time")
    parser.add_argument("--windows", type=float, default=0.25, help="share of passages cut to a few sentences")
    parser.add_argument("--titles", type=float, default=0.3, help="share of passages given with their title")
    parser.add_argument("--mixed", type=float, default=0.5, help="share of questions not kept with their article")
    parser.add_argument("--medical", type=float, default=0.5, help="share of the medical pairs used")
    parser.add_argument("--mine-from", type=int, default=2, help="first epoch with mined negatives")
    parser.add_argument("--depth", type=int, default=30, help="nearest passages that negatives are drawn from")
    parser.add_argument("--max-scale", type=float, default=60.0)
    parser.add_argument("--smoothing", type=float, default=0.0)
    parser.add_argument("--backward-loss", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="a fifteenth of the questions, to see that it runs")
    parser.add_argument("--scratch", action="store_true", help="an experiment: keep no checkpoint")
    parser.add_argument("--resume", action="store_true")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
