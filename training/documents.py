"""Reads long documents as runs of two-sentence passages, with the passages that answer one question together.

A group is a list of passage numbers of one document: the evidence of one question
(QMSum: the relevant turns; FairytaleQA: the gold sections), or a paragraph (SQuAD, which
has no question over several places).
"""

import csv
import json
import re
from dataclasses import dataclass, field

import corpora
import sentences


@dataclass
class Document:
    source: str
    passages: list = field(default_factory=list)  # texts, in order
    groups: list = field(default_factory=list)  # lists of passage numbers, ascending

    def add(self, text, size=2):
        """Cuts text into passages of `size` sentences; returns their numbers."""
        first = len(self.passages)
        parts = sentences.split(text)
        self.passages += [" ".join(parts[i : i + size]) for i in range(0, len(parts), size)]
        return list(range(first, len(self.passages)))


def qmsum(split):
    """Meetings; a group per query. A turn never shares a passage with the next one."""
    out = []
    for file in sorted(corpora.dataset("qmsum", "data", "ALL", split).glob("*.json")):
        meeting = json.loads(file.read_text(encoding="utf-8"))
        document = Document("qmsum")
        turns = [document.add(clean(t["content"])) for t in meeting["meeting_transcripts"]]
        for query in meeting["specific_query_list"]:
            spans = [(int(first), int(last)) for first, last in query["relevant_text_span"]]
            document.groups.append([p for first, last in spans for turn in turns[first : last + 1] for p in turn])
        out.append(finished(document))
    return out


def fairytaleqa(split):
    """Stories; a group per set of gold sections."""
    root, out = corpora.dataset("fairytaleqa", "data-by-train-split"), []
    for file in sorted((root / "section-stories" / split).glob("*-story.csv")):
        document, sections = Document("fairytaleqa"), {}
        with open(file, encoding="utf-8", newline="") as f:
            for row in csv.DictReader(f):
                sections[row["section"].strip()] = document.add(clean(row["text"] or ""))
        name = file.name[: -len("-story.csv")]
        with open(root / "questions" / split / f"{name}-questions.csv", encoding="utf-8", newline="") as f:
            gold = {tuple(s.strip() for s in (row["cor_section"] or "").split(",")) for row in csv.DictReader(f)}
        for names in sorted(gold):
            document.groups.append([p for n in names for p in sections.get(n, [])])
        out.append(finished(document))
    return out


def squad(held_out):
    """SQuAD's training articles, or those held out; a group per paragraph."""
    articles, out = corpora.squad_articles(), []
    kept_out = corpora.held_out(len(articles))
    for number, (_, paragraphs) in enumerate(articles):
        if (number in kept_out) != held_out:
            continue
        document = Document("squad")
        document.groups = [document.add(clean(p["context"])) for p in paragraphs]
        out.append(finished(document))
    return out


def clean(text):
    """Without QMSum's marks of sounds, and with single spaces."""
    return re.sub(r"\{[a-z]+\}|\s+", " ", text).strip()


def finished(document):
    """Each group once, without those of a single passage: they link nothing."""
    groups = {tuple(sorted(set(g))) for g in document.groups}
    document.groups = [list(g) for g in sorted(groups) if len(g) > 1]
    return document
