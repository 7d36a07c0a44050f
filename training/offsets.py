"""WordPiece encodings with the characters that each token covers, for answer spans."""

import wordpiece

_normal = {}


def _pieces_of(char):
    found = _normal.get(char)
    if found is None:
        found = _normal[char] = wordpiece.normalize(char)
    return found


def encode(tokenizer, text):
    """(ids, starts, ends): the ids that tokenizer.encode gives, and the characters [start, end) of each."""
    if text.isascii() and text.isprintable():
        spans = ((m.group(), range(m.start(), m.end())) for m in wordpiece.ASCII_WORDS.finditer(text.lower()))
    else:
        spans = _words(text)
    ids, starts, ends = [], [], []
    for word, places in spans:
        pieces = tokenizer.cache.get(word)
        if pieces is None:
            pieces = tokenizer.cache[word] = tokenizer.encode_word(word)
        if len(pieces) == 1:  # most words, and [UNK], which has no length of its own
            ids.append(pieces[0])
            starts.append(places[0])
            ends.append(places[-1] + 1)
            continue
        at = 0
        for number in pieces:
            length = tokenizer.lengths[number]
            ids.append(number)
            starts.append(places[at])
            ends.append(places[at + length - 1] + 1)
            at += length
    return ids, starts, ends


def _words(text):
    """Words as wordpiece.words splits them, each with the place of every character in the text."""
    word, places = [], []
    for index, original in enumerate(text):
        for char in _pieces_of(original):
            if char in wordpiece.WHITE_SPACE:
                if word:
                    yield "".join(word), places
                    word, places = [], []
            elif wordpiece.is_punctuation(char):
                if word:
                    yield "".join(word), places
                    word, places = [], []
                yield char, [index]
            else:
                word.append(char)
                places.append(index)
    if word:
        yield "".join(word), places
