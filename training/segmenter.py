"""Trains SAGE's segmentation model (algorithm 1) and gives it its share of the sentence vector.

Label 1: consecutive sentences of one paragraph; 0: the last and first sentence of
paragraphs of one article. Loss: mean squared error. The paper trains its embedder end to
end; here sentence vectors also serve retrieval, so that is done on a few entries of the
vector only. The encoder's vectors are turned so that the directions that texts use most
come first; the last few (CUES) make room for sums over frequent tokens (words such as
"he", "also", "after"), which are trained end to end with a head over pairs of sentences.
The head that ships is trained on the finished vectors, over windows (segmenter_head.py);
with --head only that is done, on the vectors of the pack.
"""

import json
import time

import numpy as np
import torch
import torch.nn.functional as F

import batches
import corpora
import encoder
import segmenter_head
import shipped
from head import CUES, FEATURES, Sampler, Segmenter
from segmenter_head import SS, area, calibrate


def load(work):
    """The final token table, the power of repeated tokens, the head and its threshold."""
    state = torch.load(corpora.intermediate(work, "segmenter.pt", "segmenter"), map_location="cpu")
    return state["table"].float(), state["power"], *load_head(work)


def load_head(work):
    """The head and its threshold."""
    state = torch.load(corpora.intermediate(work, "segmenter.pt", "segmenter"), map_location="cpu")
    model = Segmenter()
    model.load_state_dict(state["head"])
    return model.eval(), round(state["threshold"], 4)


def load_similarity(work):
    """The cosine that stands for a chance of SS, of the vectors of load's table."""
    return torch.load(corpora.intermediate(work, "segmenter.pt", "segmenter"), map_location="cpu")["similarity"]


def sentence_runs(corpus, numbers):
    starts = corpus.sentences[numbers]
    return starts, np.minimum(corpus.sentences[numbers + 1], starts + 512)


def make_room(table, vectors):
    """The table in the basis of the texts' principal directions, without the weakest CUES of them."""
    _, directions = torch.linalg.eigh(vectors.T @ vectors)  # ascending
    return table @ directions.flip(1)[:, : table.shape[1] - CUES]


class CueTable(torch.nn.Module):
    """The cue vectors of the frequent tokens of SQuAD's sentences."""

    def __init__(self, corpus, minimum):
        super().__init__()
        first, last = corpus.passage_tokens[:-1], corpus.passage_tokens[1:]
        kept = (corpus.source == "squad") & ~corpus.is_held_out
        tokens, _ = batches.gather(corpus.flat, first[kept], last[kept], np.zeros(kept.sum(), np.int64))
        self.frequent = np.bincount(tokens, minlength=corpus.vocabulary) >= minimum
        self.frequent[:2] = False
        self.vectors = torch.nn.Parameter(torch.randn(corpus.vocabulary, CUES) * 0.1)

    def table(self):
        keep = torch.from_numpy(self.frequent).to(self.vectors.device)
        return self.vectors.detach() * keep.unsqueeze(1)

    def forward(self, corpus, sentences, power, drop=0.0, rng=None):
        starts, ends = sentence_runs(corpus, sentences)
        tokens, rows = batches.gather(corpus.flat, starts, ends, np.arange(len(sentences)))
        keep = self.frequent[tokens]
        if drop:
            keep &= rng.random(len(tokens)) >= drop
        bags = batches.pack(tokens[keep], rows[keep], len(sentences), corpus.vocabulary, power)
        return encoder.embed(bags, self.vectors)


def accuracy(score, label, threshold=0.5):
    return ((score >= threshold) == (label == 1)).mean()


def fit(corpus, content, power, features, args, seed):
    """Trains cues, with a head over pairs of sentences, on frozen content vectors of all sentences.

    Returns the cues, and the head's accuracy and area on the held-out pairs.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    train, test = Sampler(corpus, False), Sampler(corpus, True)
    cues = CueTable(corpus, args.frequent).to(content.device)
    head = Segmenter(content.shape[1] + CUES, features=features).to(content.device)
    rates = [args.cue_rate, args.rate]
    groups = [{"params": cues.parameters(), "weight_decay": 0}, {"params": head.parameters()}]
    optimizer = torch.optim.AdamW(groups, lr=args.rate, weight_decay=args.decay)
    left, right, label = test.neighbours(np.random.default_rng(0))
    for epoch in range(args.cue_epochs):
        head.train()
        started, losses = time.time(), []
        lefts, rights, labels = train.epoch(rng)
        for i in range(0, len(lefts), args.batch):
            for group, rate in zip(optimizer.param_groups, rates):
                group["lr"] = rate * (1 - (epoch + i / len(lefts)) / args.cue_epochs)
            x = [
                head.project(content[picked], cues(corpus, picked, power, args.drop, rng))
                for picked in (lefts[i : i + args.batch], rights[i : i + args.batch])
            ]
            target = torch.from_numpy(labels[i : i + args.batch]).to(content.device)
            loss = F.mse_loss(head.judge(*x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        head.eval()
        with torch.no_grad():
            x = [head.project(content[picked], cues(corpus, picked, power)) for picked in (left, right)]
            score = head.judge(*x).cpu().numpy()
        print(
            f"{features}: epoch {epoch + 1}, {len(lefts)} pairs, loss {np.mean(losses):.4f}, pair accuracy "
            f"{accuracy(score, label):.4f}, area {area(score, label):.4f} on {len(score)} held-out pairs, "
            f"{time.time() - started:.0f} s",
            flush=True,
        )
    return cues.table(), (float(accuracy(score, label)), float(area(score, label)))


def ablate(corpus, content, power, args):
    """SAGE's table X on pairs of sentences, as SAGE's model sees them: every set of features, trained alike with cues, with several seeds.

    Each run's figures are in work/ablation.json as soon as they are known; a run that is there is not done again.
    """
    path = args.work / "ablation.json"
    done = json.loads(path.read_text()) if path.exists() else {}
    for seed in range(args.seed, args.seed + args.seeds):  # all sets with one seed first, so that a part says something
        for features in FEATURES:
            key = f"{features} seed {seed} epochs {args.cue_epochs}"
            if key not in done:
                done[key] = fit(corpus, content, power, features, args, seed)[1]
                path.with_suffix(".new").write_text(json.dumps(done, indent=1))
                path.with_suffix(".new").replace(path)
    print(f"accuracy at 0.5 and area on the held-out pairs, mean and standard deviation of {args.seeds} seeds:")
    for features in FEATURES:
        runs = [done[f"{features} seed {seed} epochs {args.cue_epochs}"] for seed in range(args.seed, args.seed + args.seeds)]
        (right, above), (spread, apart) = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=min(1, args.seeds - 1))
        print(f"{features:16} accuracy {right:.4f} +- {spread:.4f}, area {above:.4f} +- {apart:.4f}")


def calibrate_cosine(cosine, label):
    """As calibrate, for cosines."""
    return 2 * calibrate((1 + cosine) / 2, label) - 1


def similarity(corpus):
    """What the cosine of the shipped encoder's vectors, which ChunkRAG's rule cuts by, says of the held-out pairs."""
    left, right, label = Sampler(corpus, True).neighbours(np.random.default_rng(0))
    table = shipped.Encoder().table
    x = [encoder.encode_all(table, corpus, *sentence_runs(corpus, side), shipped.POWER) for side in (left, right)]
    cosine = (x[0] * x[1]).sum(dim=1).numpy()
    threshold = calibrate_cosine(cosine, label)
    print(
        f"cosine: area {area(cosine, label):.4f}; {threshold:.4f} stands for a chance of {SS}: accuracy {accuracy(cosine, label, threshold):.4f}; "
        f"quartiles inside paragraphs {np.quantile(cosine[label == 1], [0.25, 0.5, 0.75]).round(3)}, between {np.quantile(cosine[label == 0], [0.25, 0.5, 0.75]).round(3)}; "
        f"{100 * (cosine >= 0.8).mean():.2f} % are at 0.8 or above"
    )


def table_of_pack(corpus):
    """The shipped encoder's token vectors."""
    pack = shipped.Encoder()
    if len(pack.table) != corpus.vocabulary:
        raise SystemExit(f"the pack has {len(pack.table)} tokens, the corpus was prepared with {corpus.vocabulary}: use the pack's tokenizer.json")
    return pack.table


def vectors_of_pack(corpus, everything):
    """The shipped encoder's vectors of all sentences."""
    return encoder.encode_all(table_of_pack(corpus), corpus, *everything, shipped.POWER)


def join(content, cues, corpus, power, share):
    """One table: content beside cues, scaled so that cues are `share` of a sentence vector's length."""
    numbers = np.arange(0, len(corpus.sentences) - 1, 40)
    tokens, rows = batches.gather(corpus.flat, *sentence_runs(corpus, numbers), np.arange(len(numbers)))
    ids, offsets, weights = batches.pack(tokens, rows, len(numbers), corpus.vocabulary, power)

    def length(table):
        sums = F.embedding_bag(ids, table.cpu(), offsets, mode="sum", per_sample_weights=weights)
        return sums.norm(dim=1).mean()

    return torch.cat([content, cues * (share * length(content) / length(cues))], dim=1)


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--decay", type=float, default=0.05)
    parser.add_argument("--texts", type=int, default=3000, help="texts put together from pieces of different documents")
    parser.add_argument("--cue-epochs", type=int, default=4)
    parser.add_argument("--cue-rate", type=float, default=0.003)
    parser.add_argument("--drop", type=float, default=0.1, help="share of tokens left out of the cues")
    parser.add_argument("--frequent", type=int, default=200, help="how often a token occurs that gets a cue vector")
    parser.add_argument("--share", type=float, default=0.04, help="length of the cues in a sentence vector")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--head", action="store_true", help="train the head alone, on the vectors of the pack")
    parser.add_argument("--calibrate", action="store_true", help="find the threshold of the head in work/segmenter.pt anew")
    parser.add_argument("--ablation", action="store_true", help="train heads with fewer features too (SAGE, table X), keeping the figures only")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each set of features in the ablation, from --seed on")
    parser.add_argument("--smoke", action="store_true", help="one epoch")
    args = parser.parse_args()
    if args.smoke:
        args.epochs, args.cue_epochs, args.texts = 1, 1, 300
    torch.set_num_threads(args.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    corpus = batches.Corpus(args.work)
    everything = sentence_runs(corpus, np.arange(len(corpus.sentences) - 1))
    if args.ablation:  # of what ships: the pack's own vectors, so that no encoder need be trained first
        table = table_of_pack(corpus)[:, :-CUES].to(device)
        ablate(corpus, encoder.encode_all(table, corpus, *everything, shipped.POWER), shipped.POWER, args)
        similarity(corpus)
        segmenter_head.ablate(corpus, vectors_of_pack(corpus, everything), args)
        return
    state = {}
    if args.head or args.calibrate:
        vectors = vectors_of_pack(corpus, everything)
    else:
        full, power = encoder.load(args.work)
        full = full.to(device)
        table = make_room(full, encoder.encode_all(full, corpus, *everything, power))
        content = encoder.encode_all(table, corpus, *everything, power)
        cues, _ = fit(corpus, content, power, "all", args, args.seed)
        # What ships is fp16: measured and calibrated with that.
        table = join(table.cpu(), cues.cpu(), corpus, power, args.share).half()
        print("hit@1 %.4f nDCG@10 %.4f before" % encoder.validate(full.cpu(), corpus, power))
        print("hit@1 %.4f nDCG@10 %.4f with cues" % encoder.validate(table.float(), corpus, power))
        vectors = encoder.encode_all(table.float(), corpus, *everything, power)
        state = {"table": table, "power": power}

    if args.calibrate:
        head = load_head(args.work)[0]
    else:
        head = segmenter_head.train(segmenter_head.examples(corpus, vectors, args), args, seed=args.seed)
    threshold = segmenter_head.measure(head, vectors, corpus)
    left, right, label = Sampler(corpus, True).neighbours(np.random.default_rng(0))
    similar = calibrate_cosine((vectors[left] * vectors[right]).sum(dim=1).numpy(), label)
    print(f"threshold {threshold:.4f}, of single sentences' cosine {similar:.4f}: both stand for ss = {SS}")
    state |= {"head": head.state_dict(), "threshold": threshold, "similarity": similar}
    torch.save(state, args.work / "segmenter.pt")


if __name__ == "__main__":
    main()
