"""Static token vectors out of a teacher, in Model2Vec's way: what the teacher says of each token by itself, its principal directions,
each token weighted by how rare it is in the training texts (smooth inverse frequency). Written to work/distilled.npz.
"""

import numpy as np
import torch
import torch.nn.functional as F

import batches
import corpora
import teachers


@torch.inference_mode()
def outputs(teacher, vocabulary, pooling, step=1024):
    """The teacher's vector for every token between its special ones."""
    out = []
    cls, sep = (teacher.tokenizer.token_to_id(t) for t in ("[CLS]", "[SEP]"))
    for first in range(0, vocabulary, step):
        tokens = torch.arange(first, min(first + step, vocabulary))
        ids = torch.stack([torch.full_like(tokens, cls), tokens, torch.full_like(tokens, sep)], 1)
        hidden = teacher.bert.eval()(ids, torch.ones_like(ids))
        out.append({"cls": hidden[:, 0], "mean": hidden.mean(1), "token": hidden[:, 1]}[pooling])
    return torch.cat(out)


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--teacher", default="bge")
    parser.add_argument("--dimension", type=int, default=248, help="principal directions kept; the segmenter's cues come beside them")
    parser.add_argument("--pooling", default="mean", choices=("cls", "mean", "token"))
    parser.add_argument("--smooth", type=float, default=1e-4, help="a of a / (a + p), SIF")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    teacher = teachers.load(args.teacher, args.work)
    vectors = F.normalize(outputs(teacher, teacher.bert.shape.vocabulary, args.pooling), dim=1)
    corpus = batches.Corpus(args.work)
    counts = np.bincount(corpus.flat, minlength=len(vectors)).astype(np.float64) + 1
    used = torch.from_numpy(counts > 1)
    centred = vectors - vectors[used].mean(0)
    directions = torch.linalg.svd(centred[used], full_matrices=False)[2][: args.dimension]
    kept = F.normalize(centred @ directions.T, dim=1)
    weight = args.smooth / (args.smooth + counts / counts.sum())
    # What no text has, [unused] tokens among them, weighs like a rare word.
    print(f"{int(used.sum())} of {len(used)} tokens are in the texts; {args.dimension} directions keep "
          f"{float((centred @ directions.T).pow(2).sum() / centred.pow(2).sum()):.3f} of the variance")
    np.savez(args.work / "distilled.npz", vectors=kept.numpy().astype(np.float32), weights=weight.astype(np.float32))


if __name__ == "__main__":
    main()
