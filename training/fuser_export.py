"""Adds the trained fuser to a pack: its graph, its section of the manifest and its goldens. The token vectors are the reader's,
rounded to fp16 and computed with in fp32.
"""

import numpy as np
import torch

import corpora
import export
import fuser_model
import goldens
import pack
import shipped
import wordpiece
from fuser import attend
from fuser_model import passage_scores
from pair_data import QUESTION_TOKENS, pad
from pair_export import shipped_form

ROW_TOKENS = 256  # of a question with a passage
PASSAGES = 100


def ready(work):
    return shipped_form(fuser_model.load(corpora.intermediate(work, "fuser.pt", "fuser-train")))


@torch.no_grad()
def run(model, question, texts):
    """Raw attention [heads, n, q + t] of one question's passages, its mask, and the question's length; from token ids."""
    question_ids, question_mask = pad([question])
    text_ids, text_mask = pad([t[: ROW_TOKENS - len(question)] for t in texts])
    raw, mask = attend(model, question_ids, question_mask, text_ids, text_mask)
    return raw[:, 0], mask[0], len(question)


def scores(raw, mask, width, tokens, with_question):
    """Eq. 3's score of every passage."""
    begin = 0 if with_question else width
    return passage_scores(raw[..., begin:], mask[..., begin:], tokens)


def write_graph(path, model):
    mask = torch.ones(3, 17, dtype=torch.long)
    passage = mask.clone()
    passage[:, :6] = 0
    rows = {0: "n", 1: "l"}
    torch.onnx.export(
        model,
        (torch.randint(2, len(model.table), (3, 17)), mask, passage),
        path,
        input_names=["input_ids", "attention_mask", "passage_mask"],
        output_names=["attention"],
        dynamic_axes={"input_ids": rows, "attention_mask": rows, "passage_mask": rows, "attention": {1: "n", 2: "l"}},
        opset_version=export.OPSET,
    )


def make_goldens(model, tokenizer, questions, texts):
    """Every question with all texts read together, with two of them and with one."""
    out = []
    for question in questions:
        ids = tokenizer.encode(question)[:QUESTION_TOKENS]
        for some in (texts, texts[-2:], texts[:1]):
            raw, mask, width = run(model, ids, [tokenizer.encode(text) for text in some])
            settings = [
                {"tokens": tokens, "with_question": on, "scores": [float(np.float32(x)) for x in scores(raw, mask, width, tokens, on)]}
                for tokens, on in ((4, False), (4, True), (1000, False))
            ]
            out.append({"question": question, "texts": some, "settings": settings})
    return out


def section(folder):
    return f"""\
# input_ids, attention_mask, passage_mask: int64 [n, l], one question's passages, each row the question's tokens and then a
# passage's -> attention: float32 [layers x heads = {fuser_model.LAYERS * fuser_model.HEADS}, n, l], raw scores of the decoder's first token (FunnelRAG's eq. 3).
# A passage has the form "title\\ntext".
fuser:
{pack.file_lines(folder, "fuser.onnx")}  max_tokens: {ROW_TOKENS}
  max_question_tokens: {QUESTION_TOKENS}
  max_passages: {PASSAGES}
"""


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--pack", type=corpora.Path, default=shipped.PACK)
    parser.add_argument("--version", default=None, help="new version of the pack")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tokenizer = wordpiece.Tokenizer.load(corpora.intermediate(args.work, "tokenizer.json", "tokenizer"))
    model = ready(args.work)
    write_graph(args.pack / "fuser.onnx", model)
    pack.put_goldens(args.pack, "fuser", make_goldens(model, tokenizer, goldens.QUESTIONS, goldens.TEXTS))
    pack.put_section(args.pack, "fuser", section(args.pack), args.version)
    print(f"{(args.pack / 'fuser.onnx').stat().st_size:>10} fuser.onnx")


if __name__ == "__main__":
    main()
