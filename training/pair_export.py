"""The pair model as it is shipped: token vectors rounded to fp16, FIT-RAG's labels put in. Adds its graph, its section of the
manifest and its goldens to a pack.
"""

import json

import numpy as np
import torch

import corpora
import export
import goldens
import pack
import pair_graph
import pair_labels
import wordpiece
from pair_data import QUESTION_TOKENS, TEXT_TOKENS, pad


def shipped_form(model):
    """Rounds the tables that the graph holds in fp16; everything is computed in fp32 from them."""
    for name in ("table", "importance"):
        setattr(model, name, torch.nn.Parameter(getattr(model, name).detach().half(), requires_grad=False))
    model.stems = model.stems.int()
    return model.eval()


def ready(work):
    """(model, settings): the trained reader with its labels, and what pair_calibrate.py found."""
    model, _ = pair_labels.load(work)
    model.labels.load_state_dict(torch.load(corpora.intermediate(work, "pair_labels.pt", "pair-labels"))["labels"])
    path = work / "pair_calibrated.json"
    settings = json.loads(path.read_text()) if path.exists() else {"bm25_weight": 0.0}
    return shipped_form(model), settings


def write_graph(path, model):
    """Writes the model as pair_graph runs it."""
    question, text = torch.randint(2, len(model.table), (3, 6)), torch.randint(2, len(model.table), (3, 17))
    rows = {"question_ids": "q", "question_mask": "q", "text_ids": "t", "text_mask": "t", "start": "t", "end": "t"}
    torch.onnx.export(
        pair_graph.Graph(model).eval(),
        (question, torch.ones_like(question), text, torch.ones_like(text)),
        path,
        input_names=["question_ids", "question_mask", "text_ids", "text_mask"],
        # features is what the labels' head reads: a language model's own preference is learnt on it (internal/preference).
        output_names=["scores", "start", "end", "features"],
        dynamic_axes={"scores": {0: "n"}, "features": {0: "n"}, **{name: {0: "n", 1: width} for name, width in rows.items()}},
        opset_version=export.OPSET,
        do_constant_folding=False,  # the tables would be in the file instead of what they are made from
    )


@torch.no_grad()
def make_goldens(model, tokenizer, questions, texts):
    """Every question with every text, in one padded batch per question; outputs of padding are left out."""
    def floats(tensor):
        return [float(np.float32(x)) for x in tensor]

    out = []
    rows = [tokenizer.encode(text)[:TEXT_TOKENS] for text in texts]
    for question in questions:
        ids = tokenizer.encode(question)[:QUESTION_TOKENS]
        text_ids, text_mask = pad(rows)
        question_ids, question_mask = pad([ids] * len(rows))
        scores, start, end = model(question_ids, question_mask, text_ids, text_mask)
        for text, row, *outputs in zip(texts, rows, scores, start, end):
            values = {"scores": floats(outputs[0]), "start": floats(outputs[1][: len(row)]), "end": floats(outputs[2][: len(row)])}
            out.append({"question": question, "text": text, "question_ids": ids, "text_ids": row, **values})
    return out


def section(folder, settings):
    """The manifest's section, and the pack's values that belong to no graph's section."""
    return f"""\
# question_ids, question_mask: int64 [n, q]; text_ids, text_mask: int64 [n, t] -> scores: float32 [n, 3] (relevance,
# has_answer, llm_prefer, as logits); start, end: float32 [n, t] (logits of an answer's first and last token); features: float32
# [n, 91], what the last two scores are computed from.
# A text has the form "title\\ntext". From has_answer_threshold on, our equivalent of FIT-RAG's delta,
# a text among BM25's best 50 holds the answer more likely than not.
pair:
{pack.file_lines(folder, "pair.onnx")}  scripts: [Latin]
  max_question_tokens: {QUESTION_TOKENS}
  max_text_tokens: {TEXT_TOKENS}
  has_answer_threshold: {settings["has_answer_threshold"]:.3f}
"""


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--pack", type=corpora.Path, default=corpora.TRAINING.parent / "models" / "default")
    parser.add_argument("--version", default=None, help="new version of the pack")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tokenizer = wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer"))
    model, settings = ready(args.work)
    write_graph(args.pack / "pair.onnx", model)
    pack.put_goldens(args.pack, "pair", make_goldens(model, tokenizer, goldens.QUESTIONS, goldens.TEXTS))
    pack.put_section(args.pack, "pair", section(args.pack, settings), args.version)
    print(f"{(args.pack / 'pair.onnx').stat().st_size:>10} pair.onnx")


if __name__ == "__main__":
    main()
