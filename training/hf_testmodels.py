"""Writes small, randomly initialised models of transformers' own classes as Hugging Face folders, for the model server's tests.

Each has a tokenizer trained on the texts of tokenizer_goldens.py. Goldens are computed here by PyTorch in fp32, one text at a time,
with the ids of Hugging Face's tokenizers library. One command, a minute, no data:
pip install torch transformers==5.23.0 tokenizers==0.23.3 sentencepiece==0.2.3 onnx && python3 hf_testmodels.py
"""

import json

import onnx
import torch
import transformers
from tokenizers import AddedToken, models, normalizers, pre_tokenizers, processors, trainers, Tokenizer

import tokenizer_goldens as goldens
from bert_testmodels import OUT, export, floats, write

LENGTH = 64
TEXTS = goldens.PLAIN[:6] + ["北京大学 中国人民 hello 世界", "नमस्ते दुनिया", "😀 👍🏽 café cafe\u0301 ﬁne", "  two  spaces   three", "word " * 100]
QUESTION = "What is the notice period of the contract?"
RULES = [("ﬁ", "fi"), ("ﬀ", "ff"), ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\n", " "), ("e\u0301", "é"), ("²", "2"), ("№", "No"), ("…", "...")]


def configuration(kind, size, **more):
    common = {
        "vocab_size": size, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
        "max_position_embeddings": LENGTH, "initializer_range": 0.2, "attn_implementation": "eager",
    }
    return getattr(transformers, kind)(**(common | more))


class Graph(torch.nn.Module):
    """The model with its inputs by position, and one output."""

    def __init__(self, model, types, name):
        super().__init__()
        self.model, self.types, self.name = model, types, name

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        more = {"token_type_ids": token_type_ids} if self.types else {}
        return self.model(input_ids=input_ids, attention_mask=attention_mask, **more)[self.name]


def run(graph, e):
    ids = torch.tensor([e.ids])
    with torch.no_grad():
        return graph(ids, torch.ones_like(ids), *([torch.tensor([e.type_ids])] if graph.types else []))[0]


def strip(path):
    """Makes one file of the graph, without what the exporter notes of this machine: the source lines behind each node."""
    model = onnx.load(path)
    for graph in [model.graph, *model.functions]:
        for part in [graph, *graph.node, *getattr(graph, "value_info", []), *getattr(graph, "input", []), *getattr(graph, "output", [])]:
            if hasattr(part, "metadata_props"):
                del part.metadata_props[:]
            if getattr(part, "doc_string", ""):
                part.doc_string = ""
    del model.metadata_props[:], model.graph.value_info[:]
    onnx.save(model, path)
    path.with_name(path.name + ".data").unlink(missing_ok=True)  # its weights, which are in the one file now


def folder(name, tokenizer, config, model, pooling=None, pad="<pad>", types=False, prompts=None, more=None):
    at = OUT / name
    model = model.eval()
    head = "logits" if hasattr(model, "classifier") else "last_hidden_state"
    graph = Graph(model, types, head)
    export(graph, at / "onnx" / "model.onnx", [(head, 2 if head == "logits" else 3)], types, opset=18)
    strip(at / "onnx" / "model.onnx")
    fields = {k: v for k, v in config.to_dict().items() if k in ("model_type", "hidden_size", "vocab_size", "max_position_embeddings", "pad_token_id", "id2label")}
    write(at / "config.json", fields)
    tokenizer.no_padding(), tokenizer.no_truncation()
    write(at / "tokenizer.json", json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")))
    write(at / "tokenizer_config.json", {"pad_token": pad, "model_max_length": LENGTH - (2 if "roberta" in fields["model_type"] else 0)})
    if pooling:
        kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
        write(at / "modules.json", [{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind} for i, (kind, path) in enumerate(kinds)])
        write(at / "1_Pooling" / "config.json", {"word_embedding_dimension": 64, f"pooling_mode_{pooling}": True, "include_prompt": True})
    if prompts:
        write(at / "config_sentence_transformers.json", {"prompts": prompts, "default_prompt_name": None, "similarity_fn_name": "cosine"})
    tokenizer.enable_truncation(LENGTH - (2 if "roberta" in fields["model_type"] else 0), strategy="longest_first")
    if head == "logits":
        rows = []
        for text in TEXTS:
            e = tokenizer.encode(QUESTION, text)
            rows.append({"question": QUESTION, "text": text, "ids": e.ids, "relevance": float(run(graph, e)[0])})
        write(at / "goldens.json", {"pair": rows})
        return
    rows = []
    for kind in ["", "query"] if prompts else [""]:
        prefix = (prompts or {}).get(kind or "document", (prompts or {}).get("passage", ""))
        for text in TEXTS:
            e = tokenizer.encode(prefix + text)
            states = run(graph, e)
            vector = {"mean_tokens": states.mean(0), "cls_token": states[0], "lasttoken": states[-1]}[pooling]
            rows.append({"text": text} | ({"kind": kind} if kind else {}) | {"ids": e.ids, "embedding": floats(vector / vector.norm())})
    write(at / "goldens.json", {"encoder": rows})


def wordpiece():
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(goldens.PLAIN * 4, trainers.WordPieceTrainer(vocab_size=400, special_tokens=special, show_progress=False))
    t.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A:0 [SEP]:0 $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)])
    return t


def main():
    torch.manual_seed(20240229)
    torch.set_num_threads(1)
    T = transformers
    words = wordpiece()
    size = words.get_vocab_size()
    config = configuration("BertConfig", size)
    folder("hf-bert", words, config, T.BertModel(config, add_pooling_layer=False), "cls_token", "[PAD]", types=True)

    config = configuration("NomicBertConfig", size, pad_token_id=0)
    prompts = {"query": "search_query: ", "document": "search_document: "}
    folder("hf-nomic", words, config, T.NomicBertModel(config), "mean_tokens", "[PAD]", types=True, prompts=prompts)

    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = goldens.unigram(special, "<unk>")
    xlmr = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)])
    table = normalizers.Precompiled(goldens.charsmap("", RULES))
    t = goldens.built(pieces, table, pre_tokenizers.Metaspace(), xlmr, special + ["<mask>"])
    config = configuration("XLMRobertaConfig", t.get_vocab_size(), pad_token_id=1, type_vocab_size=1, max_position_embeddings=LENGTH)
    prompts = {"query": "query: ", "passage": "passage: "}
    folder("hf-xlm-roberta", t, config, T.XLMRobertaModel(config, add_pooling_layer=False), "mean_tokens", prompts=prompts)
    config.num_labels = 1
    folder("hf-xlm-roberta-pair", t, config, T.XLMRobertaForSequenceClassification(config))

    level, whole = pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.ByteLevel.alphabet()
    byte = goldens.bpe(level, special + ["<mask>"], whole, size=450)
    t = goldens.built(byte, None, level, processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False), special + ["<mask>"])
    config = configuration("RobertaConfig", t.get_vocab_size(), pad_token_id=1, type_vocab_size=1, num_labels=1)
    folder("hf-roberta-pair", t, config, T.RobertaForSequenceClassification(config))

    bert = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    modern = goldens.bpe(level, [], whole, size=450)
    modern["vocab"] |= {s: len(modern["vocab"]) + i for i, s in enumerate(bert)}
    ids = [modern["vocab"][s] for s in bert]
    template = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", [("[CLS]", ids[1]), ("[SEP]", ids[2])])
    t = goldens.built(modern, normalizers.NFC(), level, template, bert, [AddedToken(" " * n, normalized=True) for n in (4, 3, 2)])
    config = configuration(
        "ModernBertConfig", t.get_vocab_size(), cls_token_id=ids[1], bos_token_id=ids[1], sep_token_id=ids[2], eos_token_id=ids[2], pad_token_id=ids[3],
        local_attention=16, reference_compile=False,
    )
    folder("hf-modernbert", t, config, T.ModernBertModel(config), "lasttoken", "[PAD]")

    for path in sorted(OUT.glob("hf-*")):
        print(f"{sum(p.stat().st_size for p in path.rglob('*') if p.is_file()):>8} {path.name}")


if __name__ == "__main__":
    main()
