"""Reads the training corpora into articles and (question, passage) pairs.

Only files whose README entry allows training are opened here; evaluate.py
reads the evaluation sets, and nothing else does.
"""

import argparse
import csv
import json
import os
import random
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

TRAINING = Path(__file__).resolve().parent
DATASETS = Path(os.environ.get("SLUICE_DATASETS", TRAINING.parent.parent / "shared" / "datasets"))

HELD_OUT_ARTICLES = 42
HELD_OUT_SEED = 7


@dataclass
class Passage:
    text: str
    title: str = ""
    source: str = ""
    article: int = -1  # SQuAD article number, -1 elsewhere
    # Character spans (start, end) of answers, parallel to the questions.
    questions: list = field(default_factory=list)
    answers: list = field(default_factory=list)
    # Answers as text, where their places are not known; parallel to the questions, or empty.
    found: list = field(default_factory=list)


def arguments(description):
    """A parser with the options that every script has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--work", type=Path, default=TRAINING / "work", help="folder of intermediate files and checkpoints")
    parser.add_argument("--threads", type=int, default=2)
    return parser


def intermediate(work, name, maker):
    """The path of an intermediate file; ends the program when it is not there."""
    path = work / name
    if not path.exists():
        sys.exit(f"{path} is missing: run `make {maker}` first")
    return path


def dataset(*parts):
    """The path of a dataset file; ends the program when it is not there."""
    path = DATASETS.joinpath(*parts)
    if not path.exists():
        sys.exit(
            f"training data missing: {path}\n"
            "The scripts read the folder that SLUICE_DATASETS names, or ../shared/datasets beside the project root; "
            "training/README.md lists what has to be there."
        )
    return path


def squad_articles():
    """SQuAD v1.1 train as a list of (title, [paragraph dict])."""
    with open(dataset("squad-train.json"), encoding="utf-8") as f:
        data = json.load(f)
    articles = data if isinstance(data, list) else data["data"]
    return [(a["title"].replace("_", " "), a["paragraphs"]) for a in articles]


def held_out(count):
    """Indexes of the SQuAD train articles kept out of training, for tuning and calibration."""
    return set(random.Random(HELD_OUT_SEED).sample(range(count), HELD_OUT_ARTICLES))


def squad_passages():
    """All SQuAD train paragraphs, held-out articles included (see held_out)."""
    passages = []
    for number, (title, paragraphs) in enumerate(squad_articles()):
        for paragraph in paragraphs:
            passage = Passage(paragraph["context"].strip(), title, "squad", number)
            lead = len(paragraph["context"]) - len(paragraph["context"].lstrip())
            for qa in paragraph["qas"]:
                if not qa["answers"]:
                    continue
                answer = qa["answers"][0]
                start = answer["answer_start"] - lead
                passage.questions.append(qa["question"].strip())
                passage.answers.append((start, start + len(answer["text"])))
            passages.append(passage)
    return passages


def qed_passages():
    """The early-format QED train shards: real search questions over Wikipedia paragraphs."""
    by_text = {}
    folder = dataset("qed", "history-71e19e0")
    shards = sorted(folder.glob("nq-train-*-qed.jsonlines"))
    if not shards:
        sys.exit(f"training data missing: no nq-train-*-qed.jsonlines in {folder}")
    for shard in shards:
        with open(shard, encoding="utf-8") as f:
            for line in f:
                row = json.loads(line)
                # The paragraphs are in Penn Treebank quoting.
                text = row["paragraph_text"].replace("``", '"').replace("''", '"').strip()
                if not text:
                    continue
                passage = by_text.setdefault(text, Passage(text, row["title_text"], "qed"))
                passage.questions.append(row["question_text"].strip())
                passage.answers.append(None)
                passage.found.append(" ".join((row.get("answer_text") or [""])[:1]))
    return list(by_text.values())


def fairytale_passages():
    """FairytaleQA train: each section with the questions whose gold section it is."""
    root = dataset("fairytaleqa", "data-by-train-split")
    passages = []
    for stories in sorted((root / "section-stories" / "train").glob("*-story.csv")):
        name = stories.name[: -len("-story.csv")]
        sections = {}
        with open(stories, encoding="utf-8", newline="") as f:
            for row in csv.DictReader(f):
                text = re.sub(r"\s+", " ", row["text"] or "").strip()
                sections[row["section"].strip()] = Passage(
                    text, name.replace("-", " "), "fairytale"
                )
        questions = root / "questions" / "train" / f"{name}-questions.csv"
        with open(questions, encoding="utf-8", newline="") as f:
            for row in csv.DictReader(f):
                first = (row["cor_section"] or "").split(",")[0].strip()
                question = (row["question"] or "").strip()
                if first in sections and question:
                    sections[first].questions.append(question)
                    sections[first].answers.append(None)
                    sections[first].found.append((row["answer1"] or "").strip().rstrip("."))
        passages.extend(p for p in sections.values() if p.text)
    if not passages:
        sys.exit(f"training data missing: no stories under {root}")
    return passages


def qmsum_passages():
    """QMSum train: the relevant turns of a meeting for each specific query."""
    files = sorted(dataset("qmsum", "data", "ALL", "train").glob("*.json"))
    if not files:
        sys.exit("training data missing: no meetings in qmsum/data/ALL/train")
    passages = []
    for file in files:
        meeting = json.loads(file.read_text(encoding="utf-8"))
        turns = [f'{t["speaker"]}: {t["content"]}' for t in meeting["meeting_transcripts"]]
        for query in meeting["specific_query_list"]:
            parts = []
            for first, last in query["relevant_text_span"]:
                parts.extend(turns[int(first) : int(last) + 1])
            text = re.sub(r"\{[a-z]+\}|\s+", " ", " ".join(parts)).strip()
            if text:
                passages.append(Passage(text, "", "qmsum", -1, [query["query"].strip()], [None]))
    return passages


def medquad_passages():
    """MedQuAD: medical questions with their answers."""
    by_text = {}
    with open(dataset("medquad.jsonl"), encoding="utf-8") as f:
        for line in f:
            row = json.loads(line)
            text = re.sub(r"\s+", " ", row["answer"] or "").strip()
            question = (row["question"] or "").strip()
            if text and question:
                passage = by_text.setdefault(text, Passage(text, row["focus"] or "", "medquad"))
                passage.questions.append(question)
                passage.answers.append(None)
    return list(by_text.values())


def all_passages():
    """Every training passage; the order is fixed by the files' names."""
    return (
        squad_passages()
        + qed_passages()
        + fairytale_passages()
        + qmsum_passages()
        + medquad_passages()
    )
