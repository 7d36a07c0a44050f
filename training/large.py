"""Assembles the pack `large`: all that does not work on vectors is the default pack's; what does stays as it is in `large`.

    python3 large.py --version 1.0.0    # any Python: it needs nothing trained

large_encoder.py, large_segmenter.py and large_linker.py put their graphs into the pack that this makes. When a graph of the default
pack is another this is all there is to do again.
"""

import json
import re
import shutil

import corpora
import pack

MODELS = corpora.TRAINING.parent / "models"
PACK = MODELS / "large"
NAME = "sluice-large"
SPACE = "bge-small-en-v1.5-int8-v1"  # another whenever the encoder's vectors are others
# What works on vectors: sections of the manifest, thresholds, and goldens.
OWN = ("encoder", "segmenter", "linker")
OWN_CALIBRATED = ("dedupe",)
OWN_GOLDENS = (*OWN, "segmentation")


def section(name):
    """Matches a section of a manifest, with the comment lines before it."""
    return re.compile(rf"^(?:#[^\n]*\n)*{name}:[^\n]*\n(?:[ \t]+[^\n]*\n)*", re.MULTILINE)


def manifest(base, own, version):
    """The default pack's manifest, with the sections of its own that `large` has already."""
    for name in OWN:
        base = section(name).sub("", base)
    base = re.sub(r"^#[^\n]*\n", "# Written by training/large.py and large_*.py; MODEL_CARD.md says what the pack was made from.\n", base, count=1)
    for field, value in (("name", NAME), ("version", version), ("space", SPACE)):
        base = re.sub(rf"^{field}:.*$", f"{field}: {value}", base, count=1, flags=re.MULTILINE)
    base = re.sub(r"^  # No special tokens[^\n]*\n", "  # Of the pair model and the fuser; the encoder and the reranker have BERT's.\n", base, flags=re.MULTILINE)
    for name in OWN_CALIBRATED:
        line = re.compile(rf"^  {name}: .*$", re.MULTILINE)
        if match := line.search(own):
            base = line.sub(match.group(), base)
    found = [section(name).search(own) for name in OWN]
    return base.rstrip("\n") + "\n" + "".join(match.group() for match in found if match)


def assemble(folder, base, version):
    folder.mkdir(parents=True, exist_ok=True)
    own = folder / "manifest.yaml"
    text = manifest((base / "manifest.yaml").read_text(encoding="utf-8"), own.read_text(encoding="utf-8") if own.exists() else "", version)
    own.write_text(text, encoding="utf-8")
    kept = {match[1] for name in OWN if (part := section(name).search(text)) for match in re.finditer(r"file: (\S+)", part.group())}
    for name in sorted(set(re.findall(r"file: (\S+)", text)) - kept | {"reranker-tokenizer.json"}):
        shutil.copyfile(base / name, folder / name)
    goldens = {key: rows for key, rows in json.loads((base / "goldens.json").read_text(encoding="utf-8")).items() if key not in OWN_GOLDENS}
    before = folder / "goldens.json"
    if before.exists():
        goldens |= {key: rows for key, rows in json.loads(before.read_text(encoding="utf-8")).items() if key in OWN_GOLDENS}
    pack.write_goldens(before, goldens)


def main():
    parser = corpora.arguments(__doc__)
    parser.add_argument("--pack", type=corpora.Path, default=PACK)
    parser.add_argument("--base", type=corpora.Path, default=MODELS / "default")
    parser.add_argument("--version", required=True)
    args = parser.parse_args()
    assemble(args.pack, args.base, args.version)
    total = 0
    for path in sorted(args.pack.iterdir()):
        total += path.stat().st_size
        print(f"{path.stat().st_size:>10} {path.name}")
    print(f"{total:>10} in all")


if __name__ == "__main__":
    main()
