"""Writes the encodings that Go's tokenizer is held to with Unigram and BPE: those of Hugging Face's tokenizers library.

The vocabularies are trained on the texts below. Offsets are in UTF-8 bytes. One command, seconds, no data:
pip install tokenizers==0.23.3 sentencepiece==0.2.3 && python3 tokenizer_goldens.py
"""

import base64
import gzip
import io
import json

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import corpora

OUT = corpora.TRAINING.parent / "internal" / "inference" / "tokenizer" / "testdata"

PLAIN = [
    "Hello, World!", "The quick brown fox jumps over the lazy dog.", "don't isn't rock'n'roll we'll they've I'm he'd you're",
    "The invoice of 12 March 2024 is due within thirty days; late payment bears interest.", "What is the notice period of the contract?",
    "state-of-the-art e-mail U.S.A. C++ C# .NET foo_bar", "https://example.org/a/b?c=d&e=f#g user@example.org",
    "1,234,567.89 -42 3.14159 50% $3.50 €20 2024-02-29 v1.2.3-rc.4 192.168.0.1", "x² + y² = z² H₂O ½ № §",
    "café naïve résumé Ångström ÜBER über Straße STRASSE ẞ", "ﬁne ﬀ œuvre Æther Łódź Dvořák", "İstanbul ISTANBUL ıssız",
    "ΟΔΟΣ Σίσυφος ς Ελλάδα", "Москва ёлка Йод, договор и счёт", "שָׁלוֹם שלום", "مرحبا بالعالم", "اللغة العربية، ١٢٣؟", "नमस्ते दुनिया, अनुबंध की अवधि",
    "สวัสดีชาวโลก ไทย", "한국어 대한민국 가", "ひらがな カタカナ ガギグ", "北京大学 中国人民 hello 世界", "東京タワー 漢字かな交じり文", "Tiếng Việt",
    "😀 👍🏽 👩‍👩‍👧 🇩🇪 ❤️ ☃ a😀b ★★★ 🚀 launch",
]
HARD = [
    "", " ", "\n\t ", "a", "  ", "   leading  and   trailing    ", "cafe\u0301 nai\u0308ve A\u030angstro\u0308m e\u0301\u0302\u0323 \u1e69 s\u0323\u0307 s\u0307\u0323",
    "Z\u0351\u036b\u0343a\u0321l\u0353g\u0348o", "\u0301", "x\u0301\u0301", "\u0301abc", "ab\u0301c", "か\u3099 は\u309a \u1112\u1161\u11ab 각", "ㅎㅏㄴ ﾊﾝｶｸ ｶﾞ ﾊﾟ",
    "ĳ Ǆ ǅ ﬃ Ⓐ ª º ㌔ ㈱ ① Ⅳ ﷺ", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 豈 𠀀b", "a\tb\nc\r\nd\r\n\r\ne", "a\u0000b\u0007c\u001bd\u007fe", "a\u0085b\u00a0c\u00add",
    "a\u200bb\u200cc\u200dd\u200ee\u2028f\u2029g\u202eh\u2060i\u3000j", "abc\ufeff \ufffdb \ufffc \ue000x", "\u302e\u302f가\u302e", "मुझे क्‍षि श्री กำ เกี่ยว ล้ำ",
    "! ? ... … ?! -- — – (a) [b] {c} <d> “h” «i» „j“ 、。「」 ¿Qué? ¡Hola!", "## heading __init__ #hashtag @name `a` a|b a~b a^b ▁ ▁▁x a▁b Ġ Ċ",
    "'s 't' S'S 'S it's 'lll '''", "\u00a0nbsp \u2003em  \u2003 x", "tab\t\tend\t", "one  two   three     four        eight                         many\n\n\nlines",
    "price: 12345678901234567890", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "a" * 3000, "中" * 300, "é" * 500, "xqzjkvbw" * 60, "!" * 300, "word " * 400,
    "👨‍👩‍👧‍👦" * 40, "\u0600\u0661 \u0600a", "|||NAME||| and <extra_7>x<extra_7>", "Donaudampfschifffahrtsgesellschaftskapitän", "…" * 40, "½" * 30, " ½", "½ a",
]
RANGES = [
    (0x20, 0x7E), (0x20, 0x7E), (0x61, 0x7A), (0x61, 0x7A), (0x00, 0x1F), (0x7F, 0xFF), (0x100, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x45F), (0x591, 0x5F4),
    (0x620, 0x65F), (0x660, 0x6D3), (0x900, 0x94D), (0xE00, 0xE4E), (0x1E00, 0x1EFF), (0x2000, 0x206F), (0x20A0, 0x20BF), (0x2100, 0x2138), (0x3000, 0x303F),
    (0x3040, 0x30FF), (0x3300, 0x3357), (0x4E00, 0x4E40), (0xAC00, 0xAC40), (0x1100, 0x11FF), (0xF900, 0xF920), (0xFB00, 0xFB06), (0xFF00, 0xFF60), (0x1F300, 0x1F64F), (0x20000, 0x20010),
]


def random_texts(count):
    """Texts of characters that meet nowhere, from a fixed generator."""
    seed = 20240229
    texts = []

    def below(n):
        nonlocal seed
        seed = (seed * 1664525 + 1013904223) & 0xFFFFFFFF
        return seed * n >> 32

    for _ in range(count):
        text = ""
        for _ in range(1 + below(24)):
            low, high = RANGES[below(len(RANGES))]
            text += chr(low + below(high - low + 1))
        # Of a text that begins with what is left out, that library gives every span one character too early.
        texts.append("x" + text if text < " " else text)
    return texts


def unigram(special, unknown):
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(PLAIN * 4, trainers.UnigramTrainer(vocab_size=700, special_tokens=special, unk_token=unknown, show_progress=False))
    return json.loads(t.to_str())["model"]


def bpe(pre, special=(), alphabet=(), size=700, **settings):
    t = Tokenizer(models.BPE(**settings))
    t.pre_tokenizer = pre
    t.train_from_iterator(PLAIN * 4, trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), initial_alphabet=list(alphabet), show_progress=False))
    return json.loads(t.to_str())["model"]


def built(model, normalizer, pre, post, special, added=(), **settings):
    """A tokenizer of parts; model is one's JSON, with some settings changed."""
    t = Tokenizer(models.BPE())
    raw = json.loads(t.to_str())
    raw["model"] = model | settings
    t = Tokenizer.from_str(json.dumps(raw))
    t.add_special_tokens([AddedToken(s, normalized=False, lstrip=s in ("<mask>", "[MASK]")) for s in special])
    t.add_tokens(list(added))
    if normalizer is not None:
        t.normalizer = normalizer
    t.pre_tokenizer, t.post_processor = pre, post
    return t


def offsets(text, encoding):
    places, at = [], 0
    for c in text + " ":
        places.append(at)
        at += len(c.encode())
    return [places[i] for pair in encoding.offsets for i in pair]


def row(t, text):
    e = t.encode(text, add_special_tokens=False)
    return {"text": text, "ids": e.ids, "spans": offsets(text, e)}


def pairs(t):
    rows = []
    for first, second, limit in [("What is it?", "A naïve café.", 0), ("", "x", 0), ("one two three four five six seven", "eight nine", 12), ("one two", "three four five six seven eight nine", 13)]:
        if limit:
            t.enable_truncation(limit, strategy="longest_first")
        e = t.encode(first, second)
        t.no_truncation()
        rows.append({"first": first, "second": second, "limit": limit, "strategy": "longest_first", "ids": e.ids, "types": e.type_ids})
    return rows


def charsmap(rule, rules=None):
    """SentencePiece's compiled rules: the named ones, or those of a table of (from, to)."""
    model = io.BytesIO()
    more = {}
    if rules:
        table = corpora.TRAINING / "rules.tsv"
        table.write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in rules), encoding="utf-8")
        more = {"normalization_rule_tsv": str(table)}
    else:
        more = {"normalization_rule_name": rule}
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(PLAIN), model_writer=model, vocab_size=400, character_coverage=1.0, hard_vocab_limit=False, minloglevel=2, **more
        )
    finally:
        if rules:
            table.unlink()
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


def main():
    table = charsmap("nmt_nfkc")
    (OUT / "nmt_nfkc.gz").write_bytes(gzip.compress(table, 9, mtime=0))
    nfkc = lambda: normalizers.Precompiled(table)
    ids = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = unigram(ids, "<unk>")
    xlmr = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)])
    spaced = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    level, whole = pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.ByteLevel.alphabet()
    byte = bpe(level, ids + ["<mask>"], whole)
    bert = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    modern = bpe(level, [], whole)
    modern["vocab"] |= {s: len(modern["vocab"]) + i for i, s in enumerate(bert)}
    cls, sep = modern["vocab"]["[CLS]"], modern["vocab"]["[SEP]"]
    roberta = lambda prefix: processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=prefix)
    template = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A:0 [SEP]:0 $B:1 [SEP]:1", [("[CLS]", cls), ("[SEP]", sep)])
    runs = [AddedToken(" " * n, normalized=True) for n in (24, 12, 8, 5, 4, 3, 2)] + [AddedToken("|||NAME|||", normalized=False), AddedToken("<extra_7>", normalized=True)]
    chars = bpe(pre_tokenizers.Metaspace(), ["<s>", "</s>", "<unk>"], (), unk_token="<unk>", fuse_unk=True)
    partial = bpe(pre_tokenizers.ByteLevel(add_prefix_space=True), ["<s>", "<pad>", "</s>", "<unk>"], (), unk_token="<unk>")
    few = [p for p in partial["vocab"] if len(p) == 1][:60]
    partial["merges"] = [m for m in partial["merges"] if all(c in few for c in "".join(m))]
    partial["vocab"] = {p: i for i, p in enumerate(["<s>", "<pad>", "</s>", "<unk>"] + [p for p in partial["vocab"] if len(p) < 4 and p[0] != "<" and all(c in few for c in p)])}
    partial["merges"] = [m for m in partial["merges"] if all(p in partial["vocab"] for p in (*m, "".join(m)))]

    N = normalizers
    settings = {
        "xlm-roberta": built(pieces, nfkc(), pre_tokenizers.Metaspace(), xlmr, ids + ["<mask>"]),
        "xlm-roberta, as converted before": built(
            pieces, N.Sequence([nfkc(), N.Strip(left=False, right=True), N.Replace(Regex(" {2,}"), "▁")]), pre_tokenizers.Metaspace(prepend_scheme="first"), xlmr, ids, ["<extra_7>"]
        ),
        "e5": built(pieces, N.Sequence([nfkc(), N.Replace(Regex(" {2,}"), " ")]), spaced, xlmr, ids),
        "NFKC": built(pieces, N.Sequence([N.NFKC(), N.Lowercase()]), pre_tokenizers.Metaspace(prepend_scheme="never"), xlmr, ids),
        "NFKD": built(pieces, N.Sequence([N.Replace("``", '"'), N.NFKD(), N.StripAccents(), N.Strip()]), pre_tokenizers.Metaspace(split=False), xlmr, ids),
        "NFD": built(pieces, N.Sequence([N.NFD(), N.Prepend("▁")]), spaced, xlmr, ids),
        "roberta": built(byte, None, level, roberta(False), ids + ["<mask>"]),
        "roberta, prefixed": built(byte, None, pre_tokenizers.ByteLevel(add_prefix_space=True), roberta(True), ids + ["<mask>"], ignore_merges=True),
        "modernbert": built(modern, N.NFC(), level, template, bert, runs),
        "bytes without words": built(modern, N.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), processors.Sequence([processors.ByteLevel(trim_offsets=True), template]), bert),
        "bytes, some unknown": built(partial, None, pre_tokenizers.ByteLevel(add_prefix_space=True), xlmr, ids, fuse_unk=True),
        "bytes, some left out": built(partial, None, level, xlmr, ids, unk_token=None),
        "characters": built(chars, N.NFC(), pre_tokenizers.Metaspace(), None, ["<s>", "</s>", "<unk>"]),
        "characters, unknown ones apart": built(chars, None, pre_tokenizers.Metaspace(), None, ["<s>", "</s>", "<unk>"], fuse_unk=False),
    }
    texts = PLAIN + HARD + random_texts(120)
    known = {}
    out = []
    for name, t in settings.items():
        file = json.loads(t.to_str())
        file.pop("decoder")
        model = json.dumps(file["model"]["vocab"])
        # A vocabulary is written once: others name the setting that has it.
        if model in known:
            file["model"]["vocab"], file["model"]["merges"] = known[model], None
        else:
            known[model] = name
        text = json.dumps(file, ensure_ascii=False).replace(base64.b64encode(table).decode(), "nmt_nfkc")
        cases = [row(t, text) for text in texts]
        if name == "bytes, some left out":
            # Of a word with a byte that is left out, that library gives the spans of what is behind it too early.
            for case in cases:
                del case["spans"]
        out.append({"name": name, "file": json.loads(text), "cases": cases, "pairs": pairs(t) if t.post_processor else []})
    data = json.dumps({"settings": out}, ensure_ascii=False, separators=(",", ":")).encode()
    (OUT / "others.json.gz").write_bytes(gzip.compress(data, 9, mtime=0))
    print(len(out), "settings of", len(texts), "texts,", len(data), "bytes")


if __name__ == "__main__":
    main()
