"""Development sets of seven domains as BEIR folders, for the weights of the default plan: text and questions that no model was trained
on, or whose data set says that it is for tuning.
"""

import csv
import json
import random
import re
import shutil

import corpora

QUESTIONS = 150


def encyclopedia():
    """Questions of the SQuAD articles kept out of training, among their paragraphs and those of as many others."""
    passages = corpora.squad_passages()
    kept_out = corpora.held_out(1 + max(p.article for p in passages))
    others = set(random.Random(1).sample(sorted({p.article for p in passages} - kept_out), len(kept_out)))
    texts, asked = [], []
    for number, p in enumerate(passages):
        if p.article in kept_out | others:
            texts.append((str(number), p.title, p.text))
            if p.article in kept_out:
                asked += [(question, [str(number)]) for question in p.questions]
    return texts, asked


def medicine():
    """MedQuAD's questions among the answers to other questions of the same kind; half of its pairs are in the models' training."""
    passages = random.Random(2).sample(corpora.medquad_passages(), 2000)
    return ([(str(n), "", p.text) for n, p in enumerate(passages)], [(p.questions[0], [str(n)]) for n, p in enumerate(passages)])


def meetings(split="val"):
    """QMSum's questions among parts of meetings, of 40 turns each."""
    texts, asked = [], []
    for file in sorted(corpora.dataset("qmsum", "data", "ALL", split).glob("*.json")):
        meeting = json.loads(file.read_text(encoding="utf-8"))
        turns = [re.sub(r"\{[a-z]+\}|\s+", " ", f'{t["speaker"]}: {t["content"]}').strip() for t in meeting["meeting_transcripts"]]
        for first in range(0, len(turns), 40):
            texts.append((f"{file.stem}-{first}", file.stem, "\n".join(turns[first : first + 40])))
        for query in meeting["specific_query_list"]:
            parts = {int(turn) // 40 * 40 for span in query["relevant_text_span"] for turn in range(int(span[0]), int(span[1]) + 1)}
            asked.append((query["query"], [f"{file.stem}-{first}" for first in sorted(parts)]))
    return texts, asked


def stories(split="val"):
    """FairytaleQA's questions among sections."""
    root, texts, asked = corpora.dataset("fairytaleqa", "data-by-train-split"), [], []
    for file in sorted((root / "section-stories" / split).glob("*-story.csv")):
        name = file.name[: -len("-story.csv")]
        with open(file, encoding="utf-8", newline="") as f:
            sections = {row["section"].strip(): re.sub(r"\s+", " ", row["text"] or "").strip() for row in csv.DictReader(f)}
        texts += [(f"{name}-{section}", name.replace("-", " "), text) for section, text in sections.items()]
        with open(root / "questions" / split / f"{name}-questions.csv", encoding="utf-8", newline="") as f:
            for row in csv.DictReader(f):
                gold = [f"{name}-{s.strip()}" for s in (row["cor_section"] or "").split(",") if s.strip() in sections]
                if gold and row["question"]:
                    asked.append((row["question"].strip(), gold))
    return texts, asked


def products():
    """Headings of technical pages, taken out of their page, among all pages."""
    texts, asked = [], []
    for file in sorted(corpora.dataset("nats-docs").rglob("*.md")):
        if "zh-cn" in file.parts:
            continue
        name, text = file.stem + str(len(texts)), file.read_text(encoding="utf-8")
        headings = [h for h in re.findall(r"^#{2,4} +(.+)$", text, re.M) if len(h.split()) >= 3]
        if headings:
            heading = random.Random(name).choice(headings)
            text = re.sub(r"^#{2,4} +" + re.escape(heading) + r"$", "", text, flags=re.M)
            asked.append((heading.strip("` "), [name]))
        texts.append((name, "", text))
    return texts, asked


def folder(*parts, split):
    """A data set that has BEIR's layout already."""
    root = corpora.dataset(*parts)
    lines = lambda name: [json.loads(line) for line in (root / name).read_text(encoding="utf-8").splitlines()]
    wanted = {}
    for line in (root / "qrels" / f"{split}.tsv").read_text().splitlines()[1:]:
        question, document, grade = line.split("\t")
        if int(grade) > 0:
            wanted.setdefault(question, []).append(document)
    texts = [(d["_id"], d.get("title", ""), d["text"]) for d in lines("corpus.jsonl")]
    return texts, [(q["text"], wanted[q["_id"]]) for q in lines("queries.jsonl") if q["_id"] in wanted]


DOMAINS = {
    "encyclopedia": encyclopedia,
    "medicine": medicine,
    "meetings": meetings,
    "stories": stories,
    "finance": lambda: folder("tables-finance", split="dev"),
    "products": products,
    "multihop": lambda: folder("multihop", "hotpotqa-100", split="test"),
}


def write(root, name):
    """Writes a domain's folder, and gives its questions with the documents that answer them."""
    texts, asked = DOMAINS[name]()
    random.Random(3).shuffle(asked)
    asked = asked[:QUESTIONS]
    to = root / name
    shutil.rmtree(to, ignore_errors=True)
    (to / "qrels").mkdir(parents=True)
    with open(to / "corpus.jsonl", "w", encoding="utf-8") as f:
        for ident, title, text in texts:
            f.write(json.dumps({"_id": ident, "title": title, "text": text}) + "\n")
    with open(to / "queries.jsonl", "w", encoding="utf-8") as f:
        for number, (question, _) in enumerate(asked):
            f.write(json.dumps({"_id": str(number), "text": question}) + "\n")
    with open(to / "qrels" / "dev.tsv", "w", encoding="utf-8") as f:
        f.write("query-id\tcorpus-id\tscore\n")
        for number, (_, gold) in enumerate(asked):
            f.writelines(f"{number}\t{document}\t1\n" for document in gold)
    return asked
