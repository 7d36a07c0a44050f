"""Reads long documents as runs of two-sentence passages, with the passages that answer one question together.

A group is a list of passage numbers of one document: the evidence of one question
(QMSum: the relevant turns; FairytaleQA: the gold sections), a paragraph (SQuAD, which
has no question over several places), or what answers the questions about one subject of
an article (topics).
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


def squad_topics(held_out):
    """SQuAD's training articles, or those held out; a group per subject that questions name."""
    articles, out = corpora.squad_articles(), []
    kept_out = corpora.held_out(len(articles))
    for number, (title, paragraphs) in enumerate(articles):
        if (number in kept_out) == held_out:
            asked = [(p["context"], [(q["question"], q["answers"][0]["answer_start"]) for q in p["qas"] if q["answers"]]) for p in paragraphs]
            out.append(topics(title, asked))
    return out


def squad_articles_topics():
    """The articles of SQuAD's dev questions, which are evaluated only; a group per subject that questions name."""
    root, asked, out = corpora.dataset("squad-articles"), {}, []
    with open(root / "queries.jsonl", encoding="utf-8") as f:
        for line in f:
            query = json.loads(line)
            evidence = query["metadata"]["evidence"][0]
            places = [evidence["text"].find(answer) for answer in query["metadata"]["answers"]]
            start = min([place for place in places if place >= 0], default=0)
            asked.setdefault(evidence["doc"], {}).setdefault(evidence["text"], []).append((query["text"], start))
    with open(root / "corpus.jsonl", encoding="utf-8") as f:
        for line in f:
            article = json.loads(line)
            questions = asked.get(article["_id"])
            if questions:
                paragraphs = article["text"].split("\n\n")
                out.append(topics(article["title"], [(p, questions.get(p, [])) for p in paragraphs]))
    return out


def topics(title, paragraphs):
    """An article with a group per subject: the passages that answer the questions that name it.

    paragraphs are (text, [(question, where its answer starts)]). A subject counts if its answers are in more than one paragraph,
    and if at most a quarter of the questions name it: others name what the whole article is about.
    """
    document, found, paragraph_of, asked = Document("squad topics"), {}, [], 0
    for paragraph, (context, questions) in enumerate(paragraphs):
        text = clean(context)
        numbers = document.add(text)
        paragraph_of += [paragraph] * len(numbers)
        ends = [end for _, end in sentences.spans(text)]
        for question, start in questions:
            asked += 1
            at = len(clean(context[:start]))
            sentence = sum(end <= at for end in ends)
            for subject in subjects(question, title):
                found.setdefault(subject, []).append(numbers[min(sentence // 2, len(numbers) - 1)])
    for group in found.values():
        if len(group) <= asked / 4 and len({paragraph_of[p] for p in group}) > 1:
            document.groups.append(group)
    return finished(document)


def subjects(question, title):
    """The names in a question: runs of capitalised words, without its first word and the words of the article's title."""
    own = {word.lower() for word in re.findall(r"\w+", title)}
    out, run = set(), []
    for place, word in enumerate([*re.findall(r"[^\W_][\w'’.-]*", question), ""]):
        if place and word[:1].isupper() and len(word) > 2 and word.lower() not in own:
            run.append(re.sub(r"['’]s$|\.$", "", word))
        elif run:
            out.add(" ".join(run))
            run = []
    return out


def clean(text):
    """Without QMSum's marks of sounds, and with single spaces."""
    return re.sub(r"\{[a-z]+\}|\s+", " ", text).strip()


def finished(document):
    """Each group once, without those of a single passage: they link nothing."""
    groups = {tuple(sorted(set(g))) for g in document.groups}
    document.groups = [list(g) for g in sorted(groups) if len(g) > 1]
    return document
