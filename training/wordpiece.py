"""BERT's text normalisation, word splitting and WordPiece, and a vocabulary learner.

The encoder here is the reference that the golden encodings come from. It follows
Hugging Face's BertNormalizer (clean_text, handle_chinese_chars, strip_accents,
lowercase), BertPreTokenizer and WordPiece step by step, without special tokens.
"""

import heapq
import json
import re
import unicodedata
from collections import Counter, defaultdict

PAD, UNK, CLS, SEP, MASK = SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PREFIX = "##"
MAX_WORD_CHARS = 100

CHINESE = [
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
]
# Code points with the Unicode property White_Space.
WHITE_SPACE = set(
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

# What the general path below does to ASCII, and the words left after it; for speed.
ASCII_CLEAN = {point: None for point in [*range(9), *range(11, 13), *range(14, 32), 127]}
ASCII_CLEAN.update({9: " ", 10: " ", 13: " "})
ASCII_WORDS = re.compile(r"[!-/:-@\[-`{-~]|[a-z0-9]+")


def is_control(char):
    if char in "\t\n\r":
        return False
    return unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs")


def is_chinese(char):
    point = ord(char)
    return any(low <= point <= high for low, high in CHINESE)


def is_punctuation(char):
    point = ord(char)
    if 33 <= point <= 47 or 58 <= point <= 64 or 91 <= point <= 96 or 123 <= point <= 126:
        return True
    return unicodedata.category(char).startswith("P")


def normalize(text):
    if text.isascii():
        return text.translate(ASCII_CLEAN).lower()
    out = []
    for char in text:
        if char in "\0\ufffd" or is_control(char):
            continue
        if char in WHITE_SPACE:
            out.append(" ")
        elif is_chinese(char):
            out.append(f" {char} ")
        else:
            out.append(char)
    decomposed = unicodedata.normalize("NFD", "".join(out))
    kept = (c for c in decomposed if unicodedata.category(c) != "Mn")
    # Lower-cased one character at a time, so that no rule looks at its neighbours.
    return "".join(c.lower() for c in kept)


def words(text):
    """The normalised words and punctuation marks of a text, in order."""
    if text.isascii():
        return ASCII_WORDS.findall(normalize(text))
    out, word = [], []
    for char in normalize(text):
        if char in WHITE_SPACE:
            if word:
                out.append("".join(word))
                word = []
        elif is_punctuation(char):
            if word:
                out.append("".join(word))
                word = []
            out.append(char)
        else:
            word.append(char)
    if word:
        out.append("".join(word))
    return out


class Tokenizer:
    """Encodes text to vocabulary ids; ids of words are cached."""

    def __init__(self, vocabulary):
        self.ids = {piece: number for number, piece in enumerate(vocabulary)}
        self.unk = self.ids[UNK]
        self.cache = {}
        # Characters of a word that each piece covers.
        self.lengths = [len(piece) - len(PREFIX) * (piece.startswith(PREFIX) and piece != PREFIX) for piece in self.ids]

    @classmethod
    def load(cls, path):
        model = json.loads(path.read_text(encoding="utf-8"))["model"]
        return cls(sorted(model["vocab"], key=model["vocab"].get))

    def __len__(self):
        return len(self.ids)

    def encode_word(self, word):
        if len(word) > MAX_WORD_CHARS:
            return [self.unk]
        out, start = [], 0
        while start < len(word):
            end = len(word)
            while end > start:
                piece = word[start:end] if start == 0 else PREFIX + word[start:end]
                if piece in self.ids:
                    break
                end -= 1
            if end == start:
                return [self.unk]
            out.append(self.ids[piece])
            start = end
        return out

    def encode(self, text):
        out = []
        for word in words(text):
            pieces = self.cache.get(word)
            if pieces is None:
                pieces = self.cache[word] = self.encode_word(word)
            out.extend(pieces)
        return out


def learn(counts, size, alphabet, minimum=2):
    """A vocabulary of at most `size` pieces: specials, alphabet, then pieces merged by frequency.

    counts maps normalised words to how often they occur. The most frequent pair of
    neighbouring pieces is merged again and again; ties go to the smaller pair, so the
    result depends on nothing but the counts.
    """
    vocabulary = list(SPECIALS) + sorted(alphabet)
    known = set(vocabulary)
    splits, frequency = [], []
    for word, count in sorted(counts.items()):
        pieces = [c if i == 0 else PREFIX + c for i, c in enumerate(word)]
        if len(pieces) > 1 and len(pieces) <= MAX_WORD_CHARS and all(p in known for p in pieces):
            splits.append(pieces)
            frequency.append(count)

    pairs = Counter()
    where = defaultdict(set)
    for number, pieces in enumerate(splits):
        for pair in zip(pieces, pieces[1:]):
            pairs[pair] += frequency[number]
            where[pair].add(number)
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(heap)

    while heap and len(vocabulary) < size:
        count, pair = heapq.heappop(heap)
        if pairs.get(pair, 0) != -count:
            continue  # an older entry; the current count has its own
        if -count < minimum:
            break
        left, right = pair
        merged = left + right[len(PREFIX) :]
        if merged not in known:
            known.add(merged)
            vocabulary.append(merged)
        changed = set()
        for number in where.pop(pair):
            before, weight = splits[number], frequency[number]
            after, i = [], 0
            while i < len(before):
                if i + 1 < len(before) and before[i] == left and before[i + 1] == right:
                    after.append(merged)
                    i += 2
                else:
                    after.append(before[i])
                    i += 1
            for old in zip(before, before[1:]):
                pairs[old] -= weight
                changed.add(old)
            for new in zip(after, after[1:]):
                pairs[new] += weight
                where[new].add(number)
                changed.add(new)
            splits[number] = after
        pairs.pop(pair, None)
        changed.discard(pair)
        for other in changed:
            if pairs[other] > 0:
                heapq.heappush(heap, (-pairs[other], other))
    return vocabulary


def tokenizer_json(vocabulary):
    """The vocabulary as a Hugging Face tokenizer.json document."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        # Empty on purpose: a literal "[MASK]" in a text is punctuation and a word.
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": True,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": PREFIX, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": UNK,
            "continuing_subword_prefix": PREFIX,
            "max_input_chars_per_word": MAX_WORD_CHARS,
            "vocab": {piece: number for number, piece in enumerate(vocabulary)},
        },
    }
