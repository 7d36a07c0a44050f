"""The segmenter's head of the pack `large`, on its encoder's vectors, with its threshold; and the encoder's similarity threshold.

It learns from what the default pack's head learns from (segmenter_head.py), from fewer texts, since each sentence is read by a transformer.
"""

import numpy as np
import torch

import batches
import corpora
import large
import large_encoder
import pack
import segmenter
import segmenter_export
import segmenter_head
import windows
from head import Sampler, Segmenter

PART = 10_000  # sentences between two savings


class Head(Segmenter):
    """The head without cues: no entries of these vectors were made for it."""

    def side(self, vectors):
        return torch.tanh(self.projection(self.blur(vectors * vectors.shape[1] ** 0.5)))


def read(corpus, args):
    """The numbers of the sentences that training and measuring read."""
    rng = np.random.default_rng(0)  # as segmenter_head.examples draws
    texts = windows.joined(corpus, False, ["squad"], args.texts // 2, rng)
    texts += windows.joined(corpus, False, segmenter_head.SOURCES, args.texts // 2, rng)
    articles, joined = segmenter_head.held_out(corpus)
    return np.unique(np.concatenate([t[0] for t in texts + windows.articles(corpus, False) + articles + joined]))


def vectors_of(corpus, numbers, embedder, path):
    """Vectors of all sentences, those of the numbers filled in; kept in work, so that a run goes on where the one before ended."""
    out = torch.zeros(len(corpus.sentences) - 1, large_encoder.WIDTH)
    done = np.load(path)["vectors"] if path.exists() else np.zeros((0, large_encoder.WIDTH), np.float16)
    while len(done) < len(numbers):
        rows = [embedder.words.framed(corpus.flat[first:last].tolist()) for first, last in (corpus.sentences[i : i + 2] for i in numbers[len(done) : len(done) + PART])]
        done = np.concatenate([done, embedder.run(rows).astype(np.float16)])
        np.savez(path.with_suffix(".new.npz"), vectors=done)
        path.with_suffix(".new.npz").replace(path)
        print(f"{len(done)} of {len(numbers)} sentences", flush=True)
    out[numbers] = torch.from_numpy(done.astype(np.float32))
    return out


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--pack", type=corpora.Path, default=large.PACK)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--decay", type=float, default=0.05)
    parser.add_argument("--texts", type=int, default=1200, help="texts put together from pieces of different documents")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    corpus = batches.Corpus(args.work)
    embedder = large_encoder.Embedder(args.work, args.pack, args.threads)
    vectors = vectors_of(corpus, read(corpus, args), embedder, args.work / "large_vectors.npz")
    head = segmenter_head.train(segmenter_head.examples(corpus, vectors, args), args, seed=args.seed, model=Head)
    threshold = round(segmenter_head.measure(head, vectors, corpus), 4)
    left, right, label = Sampler(corpus, True).neighbours(np.random.default_rng(0))
    similar = segmenter.calibrate_cosine((vectors[left] * vectors[right]).sum(dim=1).numpy(), label)
    print(f"threshold {threshold:.4f}, of single sentences' cosine {similar:.4f}: both stand for ss = {segmenter_head.SS}")
    segmenter_export.write_graph(args.pack / "segmenter.onnx", head, large_encoder.WIDTH)
    encode = lambda texts: torch.from_numpy(embedder.texts(texts))
    pairs, _ = segmenter_export.make_goldens(embedder.words.tokenizer, encode, head, threshold, large_encoder.MAX_TOKENS)
    pack.put_goldens(args.pack, "segmenter", pairs)
    pack.put_section(args.pack, "segmenter", segmenter_export.section(args.pack, threshold).replace("[places, 256]", f"[places, {large_encoder.WIDTH}]"))
    large_encoder.put_similarity(args.pack, similar)
    print(f"{(args.pack / 'segmenter.onnx').stat().st_size:>10} segmenter.onnx")


if __name__ == "__main__":
    main()
