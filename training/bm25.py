"""BM25 over training passages, for hard negatives and first-stage scores: the formula, words, stop words and stems of
Sluice's English analyser, k1 1.2 and b 0.75. Differences: words are split by a regular expression instead of UAX #29.
"""

import re
import unicodedata
from collections import Counter

import numpy as np
import snowballstemmer

K1, B = 1.2, 0.75

# The stop words of Snowball's English list, as most analysers have them.
STOP = set(
    """a about above after again against all am an and any are as at be because been before being below between both but by
    can did do does doing don down during each few for from further had has have having he her here hers herself him himself his
    how i if in into is it its itself just me more most my myself no nor not now of off on once only or other our ours ourselves
    out over own s same she should so some such t than that the their theirs them themselves then there these they this those
    through to too under until up very was we were what when where which while who whom why will with you your yours yourself
    yourselves""".split()
)
# Of these, the words that say what kind of answer is asked for.
ASKING = {"how", "what", "when", "where", "which", "who", "whom", "why"}

WORD = re.compile(r"\w+(?:(?:[.'’](?=\w))\w+)*")
stem = snowballstemmer.stemmer("english").stemWord
_terms = {}


def term(word):
    """The index term of a word; empty for stop words."""
    found = _terms.get(word)
    if found is None:
        folded = word.lower().replace("’", "'")
        if not folded.isascii():
            folded = "".join(c for c in unicodedata.normalize("NFD", folded) if unicodedata.category(c) != "Mn")
        found = _terms[word] = "" if folded in STOP else stem(folded)
    return found


def terms(text):
    return [t for t in map(term, WORD.findall(text)) if t]


class Index:
    """An inverted index whose postings hold finished BM25 contributions."""

    def __init__(self, texts):
        counted = [Counter(terms(text)) for text in texts]
        self.size = len(texts)
        lengths = np.array([sum(c.values()) for c in counted], np.float64)
        average = max(lengths.mean(), 1.0)
        documents, frequencies = {}, {}
        for number, counts in enumerate(counted):
            for word, seen in counts.items():
                documents.setdefault(word, []).append(number)
                frequencies.setdefault(word, []).append(seen)
        self.postings = {}
        for word, held in documents.items():
            held = np.array(held)
            f = np.array(frequencies[word], np.float64)
            idf = np.log(1 + (self.size - len(held) + 0.5) / (len(held) + 0.5))
            weight = idf * (K1 + 1) * f / (f + K1 * (1 - B + B * lengths[held] / average))
            self.postings[word] = (held, weight)

    def search(self, question, depth, without=None):
        """(numbers, scores) of the best texts, best first; ties go to the lower number. without: a mask of texts left out."""
        total = np.zeros(self.size)
        for word in terms(question):
            if word in self.postings:
                held, weight = self.postings[word]
                total[held] += weight
        if without is not None:
            total[without] = 0
        if depth < self.size:
            some = np.argpartition(-total, depth)[:depth]
        else:
            some = np.arange(self.size)
        best = some[np.lexsort((some, -total[some]))]
        best = best[total[best] > 0]
        return best, total[best]
