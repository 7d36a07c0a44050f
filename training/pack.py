"""Adds one graph to a pack that is there: its section of the manifest and its goldens; all else in the pack stays."""

import hashlib
import json
import re


def file_lines(folder, name):
    """The lines of a section that name a file and its hash."""
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return f"  file: {name}\n  sha256: {digest}\n"


def put_hash(folder, name):
    """Writes the hash of a file that is another now."""
    path = folder / "manifest.yaml"
    lines = re.compile(rf"^  file: {re.escape(name)}\n  sha256: .*\n", re.MULTILINE)
    path.write_text(lines.sub(file_lines(folder, name), path.read_text(encoding="utf-8")), encoding="utf-8")


def put_section(folder, name, text, version=None):
    """Writes a section, with the comment lines before it, in place of the old one or behind the others."""
    path = folder / "manifest.yaml"
    manifest = path.read_text(encoding="utf-8")
    pattern = re.compile(rf"^(?:#[^\n]*\n)*{re.escape(name)}:[^\n]*\n(?:[ \t]+[^\n]*\n)*", re.MULTILINE)
    if pattern.search(manifest):
        manifest = pattern.sub(lambda _: text, manifest, count=1)
    else:
        manifest = manifest.rstrip("\n") + "\n" + text
    if version:
        manifest = re.sub(r"^version:.*$", f"version: {version}", manifest, count=1, flags=re.MULTILINE)
    path.write_text(manifest, encoding="utf-8")


def drop_calibrated(folder, pattern, suffix):
    """Takes out what no graph's section has and whose name, but for the suffix, matches."""
    path = folder / "manifest.yaml"
    manifest = re.sub(rf"^  {pattern}{re.escape(suffix)}:.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    path.write_text(manifest, encoding="utf-8")


def put_calibrated(folder, name, value, digits=3):
    """Writes a threshold that no graph's section has."""
    path = folder / "manifest.yaml"
    manifest = re.sub(rf"^  {re.escape(name)}:.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if "\ncalibrated:\n" not in manifest:
        manifest = manifest.rstrip("\n") + "\ncalibrated:\n"
    manifest = manifest.replace("\ncalibrated:\n", f"\ncalibrated:\n  {name}: {value:.{digits}f}\n", 1)
    path.write_text(manifest, encoding="utf-8")


def put_goldens(folder, name, rows):
    path = folder / "goldens.json"
    document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    document[name] = rows
    write_goldens(path, document)


def write_goldens(path, document):
    text = "{\n" + ",\n".join(
        f'"{name}": [\n' + ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows) + "\n]" for name, rows in document.items()
    )
    path.write_text(text + "\n}\n", encoding="utf-8")
