"""Trains the reranker of reranker_model.py from pretrained layers: first spans in the gold texts alone, then the gold text and hard
negatives of BM25 with one softmax over all texts of a question (Clark & Gardner 2017), for spans and for relevance.

A checkpoint (work/NAME.pt) is written every few minutes; --resume goes on from it.
"""

import copy
import time
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F

import bm25
import corpora
import reranker_export
import teachers
import wordpiece
from pair import batch_of, losses, rate
from pair_data import HELD_OUT, TRAIN, Data
from pair_measure import measure
from reranker_model import Reranker


class Reads:
    """A reranker in the form that pair_measure asks of the pair model."""

    def __init__(self, model):
        self.model = model

    def eval(self):
        self.model.eval()

    def read(self, *batch):
        with torch.autocast(batch[0].device.type, dtype=torch.bfloat16):
            scores, start, end = self.model(*batch)
        return parts_of(scores, start, end)


def parts_of(scores, start, end):
    return {"relevance": scores[:, :1], "auxiliary": scores[:, 1:2], "labels": scores[:, 1:], "start": start, "end": end}


def by_length(model, batch, parts=4):
    """The model's outputs, the shorter texts apart from the longer ones, so that less is padding."""
    q, qm, t, tm = batch
    lengths = tm.sum(1)
    order = torch.argsort(lengths, stable=True)
    found = []
    for rows in order.chunk(parts):
        width = int(lengths[rows].max())
        asked = int(qm[rows].sum(1).max())
        with torch.autocast(t.device.type, dtype=torch.bfloat16):
            scores, start, end = model(q[rows, :asked], qm[rows, :asked], t[rows, :width], tm[rows, :width])
        more = (0, t.shape[1] - width)
        found.append((scores, F.pad(start, more, value=-1e4), F.pad(end, more, value=-1e4)))
    back = torch.argsort(order)
    return [torch.cat(x)[back] for x in zip(*found)]


def groups(model, args):
    """Parameters with their rates: heads faster than pretrained layers; token vectors slowest."""
    words, heads, rest = [], [], []
    for name, p in model.named_parameters():
        (words if "words" in name else rest if name.startswith("bert.") else heads).append(p)
    return [{"params": words, "lr": args.rate * 0.3, "weight_decay": 0.0}, {"params": rest, "lr": args.rate},
            {"params": heads, "lr": args.rate * 5}]


def train(args):
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    tokenizer = wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer"))
    data = Data(args.work, tokenizer)
    if args.swapped:
        data.find_like(np.load(corpora.intermediate(args.work, "distilled.npz", "distil"))["vectors"], bm25.stem)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    bert = teachers.load(args.teacher, args.work).bert
    if args.layers:
        bert.keep(args.layers)
    model = Reranker(bert, 0.1).to(device)
    optimizer = torch.optim.AdamW(groups(model, args), weight_decay=0.01, betas=(0.9, 0.98), fused=True)
    bases = [group["lr"] for group in optimizer.param_groups]
    reading, ranking = data.asked(TRAIN, spans_only=True), data.asked(TRAIN)
    ranking = data.with_fewer_medical(ranking, args.medical, args.seed)
    checkpoint, step = args.work / f"{args.name}.pt", 0
    if args.start and not checkpoint.exists():
        reranker_export.weights_of(args.start, model)
    if args.resume and checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=False)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    total = args.reader_steps + args.steps
    print(f"{args.name}: {bert.shape.layers} layers, {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M weights, "
          f"{len(reading)} questions with spans, {len(ranking)} in all; from step {step} of {total}", flush=True)

    def save():
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "args": vars(args)}
        torch.save(state, checkpoint.with_suffix(".new"))
        checkpoint.with_suffix(".new").replace(checkpoint)

    batches = SimpleNamespace(seed=args.seed)
    began, seen, tokens, saved = time.time(), [], 0, time.time()
    while step < total:
        model.train()
        torch.manual_seed(args.seed * 1_000_003 + step)  # dropout, so that a resumed run goes on as it would have
        rng = np.random.default_rng([args.seed, 1, step])
        after = step - args.reader_steps
        negatives = args.negatives if after >= 0 and after % args.every == 0 else 0
        if negatives:
            asked = batch_of(ranking, data, after // args.every, args.questions, batches)
        else:
            asked = batch_of(reading, data, step, args.reader_questions, batches)
        q, qm, t, tm, spans, holds = (x.to(device) for x in data.train_batch(asked, negatives, rng, args))
        parts = parts_of(*by_length(model, (q, qm, t, tm), 6 if negatives else 3))
        span, relevance, answers = losses(parts, spans, holds, tm, len(asked))
        loss = span + relevance + 0.5 * answers if negatives else span
        if negatives and args.swapped and (wrong := data.swapped_batch(asked, rng, int(rng.choice(args.caps)))) is not None:
            sounds = by_length(model, [x.to(device) for x in wrong], 2)[0][:, 1]
            loss = loss + 0.25 * F.binary_cross_entropy_with_logits(sounds, torch.zeros_like(sounds))
        for group, base in zip(optimizer.param_groups, bases):
            group["lr"] = base * rate(step, total, args.warm)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        tokens += int(qm.sum() + tm.sum())
        seen.append([span.item()] + ([relevance.item(), answers.item()] if negatives else [np.nan, np.nan]))
        if step % args.report == 0 or step == total:
            means, took = np.nanmean(seen, 0), time.time() - began
            print(f"step {step}/{total}: span {means[0]:.3f}, relevance {means[1]:.3f}, has_answer {means[2]:.3f}, "
                  f"{took / len(seen):.2f} s a step, {tokens / took:.0f} tokens/s", flush=True)
            began, seen, tokens = time.time(), [], 0
        if time.time() - saved > 120 or step == total:
            save()
            saved = time.time()
        if step % args.check == 0 or step == total:
            check(model, data, args)
            began = time.time()
    save()


def check(model, data, args):
    """Prints figures on some held-out questions."""
    some = np.random.default_rng(3).permutation(data.asked(HELD_OUT))[: args.checked]
    print("   held out: " + measure(Reads(copy.deepcopy(model).cpu()), data, some, 10, label="auxiliary"), flush=True)


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--name", default="reranker")
    parser.add_argument("--teacher", default="minilm")
    parser.add_argument("--start", type=corpora.Path, help="a shipped graph whose weights training starts from")
    parser.add_argument("--layers", type=int, nargs="*", help="numbers of the layers kept; all when absent")
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--warm", type=int, default=100)
    parser.add_argument("--reader-steps", type=int, default=1500)
    parser.add_argument("--reader-questions", type=int, default=32)
    parser.add_argument("--steps", type=int, default=1200, help="steps after those, with negatives")
    parser.add_argument("--every", type=int, default=1, help="only one of so many of these has negatives, the others read gold texts")
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--negatives", type=int, default=3)
    parser.add_argument("--medical", type=float, default=0.3, help="share of the medical pairs used")
    parser.add_argument("--keywords", type=float, default=0.1, help="share of questions given as keywords")
    parser.add_argument("--titled", type=float, default=0.85, help="share of questions whose texts have their title")
    parser.add_argument("--short", type=float, default=0.15, help="share of questions whose texts are 1 to 5 sentences")
    parser.add_argument("--caps", type=int, nargs="+", default=[112, 160, 256], help="longest text of a batch, in tokens")
    parser.add_argument("--caps-share", type=float, nargs="+", default=[0.3, 0.4, 0.3])
    parser.add_argument("--swapped", action="store_true", help="with negatives, questions with a word swapped too: they have no answer")
    parser.add_argument("--report", type=int, default=50)
    parser.add_argument("--check", type=int, default=500)
    parser.add_argument("--checked", type=int, default=200, help="held-out questions looked at in a check")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="a few steps, to see that it runs")
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()
    if args.smoke:
        args.reader_steps, args.steps, args.report, args.check, args.checked = 6, 4, 2, 10, 10
    train(args)


if __name__ == "__main__":
    main()
