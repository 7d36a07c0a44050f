"""Trains the two labels of FIT-RAG's scorer, has_answer and llm_prefer, on what the trained reader knows of a text.

The reader (work/pair.pt) stays as it is. has_answer: the text holds the answer's words. llm_prefer: our own reader
answers right from this text and not without it (from the question alone). Both are asked on questions of articles that the
reader was not trained on, so that it is right as often as it will be. The loss is FIT-RAG's (eq. 2-11, algorithm 2): weight
w for samples whose labels agree, 1-w for the others, w learnt by hypergradient descent. Eq. 9 and 10 lack the minus
sign of d(theta)/dw as printed; both are negated here, and w stays inside (0, 1).
"""

import time

import numpy as np
import torch
import torch.nn.functional as F

import corpora
import wordpiece
from pair_data import HELD_OUT, LABEL, TRAIN, Data, pad
from pair_measure import area, best_spans, overlap
from pair_model import Pair
from pair_prepare import Holder

RIGHT = 0.8  # token F1 from which an answer of the reader counts as right
DELTA = 4.5  # FIT-RAG's threshold of has_answer, a logit


def load(work, average=True):
    """The trained model, with the weights' moving average, and the settings it was trained with."""
    state = torch.load(corpora.intermediate(work, "pair.pt", "pair"), map_location="cpu")
    weights = state["average" if average else "model"]
    used = state["args"]
    model = Pair(weights["table"], weights["importance"], weights["stems"], used["width"], used["drop"])
    model.load_state_dict(weights)
    return model.eval(), state


def sample(data, q, rng, holder, texts, windows):
    """Rows of a question: its gold text and some candidates, whole or as windows of a few sentences."""
    listed = data.candidates[q]
    listed = listed[(listed >= 0) & (listed != data.gold[q])]
    near, far = listed[: texts // 2], listed[texts // 2 :]
    chosen = [data.gold[q], *near, *rng.permutation(far)[: texts - 1 - len(near)]]
    short = rng.random() < windows
    answer = data.answers[data.answers_offsets[q] : data.answers_offsets[q + 1]]
    rows, heads, holds = [], [], []
    for text in chosen:
        around = data.start[q] if text == data.gold[q] and rng.random() < 0.6 else -1
        ids, _ = data.row(text, True, 384, rng, short, (around, around))
        rows.append(ids)
        heads.append(len(data.heading(text)))
        holds.append(holder.find(ids[heads[-1] :].astype(np.uint16), answer.astype(np.uint16)) >= 0)
    return rows, heads, holds, answer


@torch.no_grad()
def collect(model, data, asked, rng, holder, texts=8, windows=0.4):
    """What the reader knows of each (question, text), and the labels has_answer and llm_prefer."""
    known, labels = [], []
    for q in asked:
        rows, heads, holds, answer = sample(data, q, rng, holder, texts, windows)
        question = data.question(q)
        rows.append(question)  # answering without any text
        heads.append(0)
        question_ids, question_mask = pad([question])
        text_ids, text_mask = pad(rows)
        parts = model.read(question_ids.expand(len(rows), -1), question_mask.expand(len(rows), -1), text_ids, text_mask)
        before = torch.arange(text_ids.shape[1]).unsqueeze(0) < torch.tensor(heads).unsqueeze(1)
        first, last, _ = best_spans(parts["start"], parts["end"], before)
        right = [overlap(text_ids[i, f : l + 1].tolist(), answer.tolist()) >= RIGHT for i, (f, l) in enumerate(zip(first, last))]
        known.append(parts["known"][:-1])
        labels.append(torch.tensor([[float(h), float(r and not right[-1])] for h, r in zip(holds, right)]))
    return torch.cat(known), torch.cat(labels)


def loss_of(head, known, labels):
    """Per sample, the sum of both labels' cross-entropy (the paper's l)."""
    return F.binary_cross_entropy_with_logits(head(known), labels, reduction="none").sum(1)


def gradient(head, loss):
    return torch.autograd.grad(loss, list(head.parameters()), allow_unused=False)


def dot(left, right):
    return sum((a * b).sum() for a, b in zip(left, right)).item()


def fit(head, known, labels, args, seed, learnt):
    """Algorithm 2 on minibatches of D_t (nine tenths) and D_v; returns w after every epoch. learnt=False keeps w at 1/2."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    for layer in head:
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()
    order = torch.from_numpy(rng.permutation(len(known)))
    cut = len(order) // 10
    held, used = order[:cut], order[cut:]
    same = labels[:, 0] == labels[:, 1]
    pools = [held[same[held]], held[~same[held]]]
    parameters, weight, course = list(head.parameters()), 0.5, []
    steps = len(used) // args.batch
    for epoch in range(args.epochs):
        shuffled = used[torch.from_numpy(rng.permutation(len(used)))]
        for step in range(steps):
            eta = args.rate * max(0.02, 1 - (epoch * steps + step) / (args.epochs * steps))
            rows = shuffled[step * args.batch : (step + 1) * args.batch]
            loss, agree = loss_of(head, known[rows], labels[rows]), same[rows].float()
            matched = gradient(head, (loss * agree).sum() / len(rows))
            loss = loss_of(head, known[rows], labels[rows])
            mismatched = gradient(head, (loss * (1 - agree)).sum() / len(rows))
            with torch.no_grad():
                for p, a, b in zip(parameters, matched, mismatched):
                    # Twice, so that w = 1/2 is the plain loss.
                    p -= 2 * eta * (weight * a + (1 - weight) * b)
            if not learnt:
                continue
            apart = [a - b for a, b in zip(matched, mismatched)]
            directions = []
            for pool in pools:
                rows = pool[torch.from_numpy(rng.integers(len(pool), size=args.batch))]
                directions.append(-2 * eta * dot(gradient(head, loss_of(head, known[rows], labels[rows]).mean()), apart))
            weight = float(np.clip(weight - args.hyper_rate * sum(directions) / 2, 0.01, 0.99))
        course.append(weight)
    return course


@torch.no_grad()
def judge(head, known, labels):
    logits = head(known)
    mixed = labels[:, 0] != labels[:, 1]
    return [
        area(logits[:, 0].numpy(), labels[:, 0].numpy()),
        area(logits[:, 1].numpy(), labels[:, 1].numpy()),
        loss_of(head, known, labels).mean().item(),
        loss_of(head, known[mixed], labels[mixed]).mean().item(),
        ((logits[mixed] > 0).float() == labels[mixed]).float().mean().item(),
    ]


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--questions", type=int, default=3000, help="questions of the label articles")
    parser.add_argument("--others", type=int, default=1000, help="training questions of other kinds, with known answers")
    parser.add_argument("--checked", type=int, default=700, help="held-out questions, for figures and calibration")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--hyper-rate", type=float, default=0.02)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    if args.smoke:
        args.questions, args.others, args.checked, args.epochs, args.seeds = 60, 20, 40, 2, 1
    torch.set_num_threads(args.threads)
    started = time.time()
    tokenizer = wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer"))
    data, holder = Data(args.work, tokenizer), Holder(tokenizer)
    model, state = load(args.work)
    rng = np.random.default_rng(args.seed)
    asked = rng.permutation(data.asked(LABEL, spans_only=True))[: args.questions]
    # SQuAD's training questions are left out: the reader has seen their answers several times.
    real = np.flatnonzero((data.split[data.gold] == TRAIN) & (data.start >= 0) & (data.article[data.gold] < 0))
    asked = np.concatenate([asked, rng.permutation(real)[: args.others]])
    known, labels = collect(model, data, asked, rng, holder)
    checked = rng.permutation(data.asked(HELD_OUT, spans_only=True))[: args.checked]
    known_checked, labels_checked = collect(model, data, checked, rng, holder)
    agree = (labels[:, 0] == labels[:, 1]).float().mean()
    print(
        f"{len(labels)} samples: has_answer {labels[:, 0].mean():.3f}, llm_prefer {labels[:, 1].mean():.3f}, labels agree in {agree:.3f}; "
        f"held out {len(labels_checked)}: {labels_checked[:, 0].mean():.3f}, {labels_checked[:, 1].mean():.3f}, {time.time() - started:.0f} s", flush=True
    )
    figures = {}
    for learnt in (False, True):
        for seed in range(args.seeds, 0, -1):  # seed 1 with learnt weights comes last and is kept
            course = fit(model.labels, known, labels, args, seed, learnt)
            figures.setdefault(learnt, []).append(judge(model.labels, known_checked, labels_checked) + [course[-1]])
            if learnt and seed == 1:
                print("w after every epoch: " + " ".join(f"{w:.3f}" for w in course))
    for learnt, rows in figures.items():
        mean, spread = np.mean(rows, 0), np.std(rows, 0)
        print(
            ("w learnt" if learnt else "w = 1/2 ") + f": held-out AUC has_answer {mean[0]:.4f} ({spread[0]:.4f}), llm_prefer {mean[1]:.4f} "
            f"({spread[1]:.4f}); loss {mean[2]:.4f}; where the labels differ: loss {mean[3]:.4f}, right {mean[4]:.4f} ({spread[4]:.4f}); w {mean[5]:.3f}"
        )
    torch.save({"labels": model.labels.state_dict(), "step": state["step"]}, args.work / "pair_labels.pt")


if __name__ == "__main__":
    main()
