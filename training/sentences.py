"""Splits text into sentences for training: Unicode's sentence rules, simplified, with a list of abbreviations.

A sentence ends at a terminator (. ! ? and the CJK ones) with any closing quotes or
brackets, when white space and something other than a lower-case letter follow, or at a
line end. Full UAX #29 differs in rare cases only (numbers, scripts without spaces).
"""

import re

# Lower-cased words that keep a following full stop from ending a sentence.
ABBREVIATIONS = {
    "mr", "mrs", "ms", "dr", "prof", "sr", "jr", "st", "rev", "gen", "col", "capt", "lt", "sgt",
    "gov", "sen", "rep", "hon", "pres", "messrs", "mme", "mlle", "vs", "etc", "e.g", "i.e", "cf",
    "al", "no", "nos", "vol", "pp", "p", "fig", "figs", "eq", "ch", "sec", "art", "ed", "eds",
    "approx", "ca", "c", "inc", "ltd", "co", "corp", "dept", "est", "jan", "feb", "mar", "apr",
    "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "u.s", "u.k", "u.n", "a.m", "p.m",
    "ph.d", "b.c", "a.d",
}

_END = re.compile(r"""[.!?…]+["'”’»)\]]*(?=\s)|[。！？]+["'”’»」』）]*|\n""")
_WORD = re.compile(r"(\S+)$")


def spans(text):
    """(start, end) of each sentence, in characters, without surrounding white space."""
    out, start = [], 0
    for match in _END.finditer(text):
        end = match.end()
        if match.group().startswith(".") and not ends_here(text, start, match):
            continue
        add(out, text, start, end)
        start = end
    add(out, text, start, len(text))
    return out


def ends_here(text, start, match):
    rest = text[match.end() :].lstrip()
    if rest[:1].islower():
        return False
    if match.group() != ".":
        return True
    before = _WORD.search(text, start, match.start())
    if before is None:
        return False
    word = before.group().lstrip("\"'“‘«([")
    # A single capital is an initial.
    return not (word.lower() in ABBREVIATIONS or (len(word) == 1 and word.isupper()))


def add(out, text, start, end):
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    end -= len(piece) - len(piece.rstrip())
    if end > start:
        out.append((start, end))


def split(text):
    return [text[start:end] for start, end in spans(text)]
