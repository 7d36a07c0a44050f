#!/usr/bin/env python3
"""Finds the tables of a folder's PDFs with pdfplumber and camelot, for comparison.

others.py FOLDER writes NAME.TOOL beside each NAME.pdf: the tables as HTML, their first row
as the header, since neither tool says where it ends. `make tables` with OF=TOOL measures
them. Needs the packages pdfplumber and camelot-py, in a virtual environment.
"""

import glob
import html
import sys

import camelot
import pdfplumber


def write(path, tables):
    with open(path, "w", encoding="utf-8") as f:
        for rows in tables:
            lines = []
            for i, row in enumerate(rows):
                cell = "td" if i else "th"
                cells = "".join(f"<{cell}>{html.escape((c or '').replace(chr(10), ' '))}</{cell}>" for c in row)
                lines.append(f"<tr>{cells}</tr>")
            f.write(f"<table><thead>{lines[0]}</thead><tbody>{''.join(lines[1:])}</tbody></table>\n")


def main(folder):
    for pdf in sorted(glob.glob(folder + "/*.pdf")):
        name = pdf.removesuffix(".pdf")
        with pdfplumber.open(pdf) as doc:
            write(name + ".pdfplumber", [t for page in doc.pages for t in page.extract_tables()])
        for flavor in ["lattice", "stream"]:
            found = camelot.read_pdf(pdf, pages="all", flavor=flavor)
            write(name + ".camelot-" + flavor, [t.df.values.tolist() for t in found])


if __name__ == "__main__":
    main(sys.argv[1])
