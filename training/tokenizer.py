"""Learns the WordPiece vocabulary from the training text and writes work/tokenizer.json."""

import json
import time
from collections import Counter

import corpora
import wordpiece

# How much a corpus counts, so that the two specialised ones don't crowd out general words.
WEIGHTS = {"squad": 4, "qed": 4, "fairytale": 3, "qmsum": 1, "medquad": 1}

# Letters that every vocabulary gets, seen in training or not: text in these scripts then
# becomes letters rather than [UNK]. Values are inclusive code point ranges.
SCRIPTS = [
    (0x21, 0x7E),      # ASCII
    (0xA1, 0xFF),      # Latin-1
    (0x3B1, 0x3C9),    # Greek
    (0x430, 0x45F),    # Cyrillic
    (0x5D0, 0x5EA),    # Hebrew
    (0x621, 0x64A),    # Arabic
    (0x3041, 0x3096),  # Hiragana
    (0x30A1, 0x30FC),  # Katakana
    (0x1100, 0x1112),  # Hangul letters, as decomposition leaves them
    (0x1161, 0x1175),
    (0x11A8, 0x11C2),
]


def alphabet(counts, minimum):
    letters = set()
    for low, high in SCRIPTS:
        for point in range(low, high + 1):
            letters.update(wordpiece.words(chr(point)))
    seen = Counter()
    for word, count in counts.items():
        for char in word:
            seen[char] += count
    letters.update(char for char, count in seen.items() if count >= minimum)
    pieces = set()
    for text in letters:
        for char in text:
            pieces.add(char)
            if not wordpiece.is_chinese(char) and not wordpiece.is_punctuation(char):
                pieces.add(wordpiece.PREFIX + char)
    return pieces


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--size", type=int, default=30000, help="entries in the vocabulary")
    parser.add_argument("--alphabet-minimum", type=int, default=40, help="weighted count that earns a character its entry")
    args = parser.parse_args()

    started = time.time()
    counts = Counter()
    passages = corpora.all_passages()
    kept_out = corpora.held_out(1 + max(p.article for p in passages))
    for passage in passages:
        if passage.article in kept_out:
            continue
        weight = WEIGHTS[passage.source]
        for text in [passage.text, passage.title, *passage.questions]:
            for word in wordpiece.words(text):
                counts[word] += weight
    print(f"{len(passages)} passages, {len(counts)} distinct words, {time.time() - started:.0f} s")

    vocabulary = wordpiece.learn(counts, args.size, alphabet(counts, args.alphabet_minimum))
    args.work.mkdir(parents=True, exist_ok=True)
    path = args.work / "tokenizer.json"
    document = json.dumps(wordpiece.tokenizer_json(vocabulary), ensure_ascii=False, indent=0)
    path.write_text(document + "\n", encoding="utf-8")

    tokenizer = wordpiece.Tokenizer(vocabulary)
    total = pieces = unknown = 0
    for word, count in counts.items():
        ids = tokenizer.encode_word(word)
        total += count
        pieces += count * len(ids)
        unknown += count * (tokenizer.unk in ids)
    print(
        f"{len(vocabulary)} entries, {pieces / total:.3f} pieces per word, "
        f"{100 * unknown / total:.3f} % unknown, {time.time() - started:.0f} s -> {path}"
    )


if __name__ == "__main__":
    main()
