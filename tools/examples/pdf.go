package main

// This file lays a source out as a PDF of A4 pages: a title block, headings with
// outline entries, paragraphs, lists, ruled tables whose header repeats on the
// next page, and a footer with the page number.

import (
	"bytes"
	"fmt"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/text/encoding/charmap"
)

// Lengths in millimetres, type sizes in points.
const (
	margin     = 24.0
	foot       = 22.0
	lineHeight = 5.6
	rowHeight  = 6.4
	bodySize   = 11.0
	tableSize  = 9.5
	font       = "Helvetica"
)

type pdfPage struct {
	*fpdf.Fpdf
	err error
}

func makePDF(content []byte) ([]byte, error) {
	src, err := parseSource(content)
	if err != nil {
		return nil, err
	}
	p := &pdfPage{Fpdf: fpdf.New("P", "mm", "A4", "")}
	p.SetCatalogSort(true)
	p.SetCreationDate(src.date)
	p.SetModificationDate(src.date)
	p.SetProducer("Kestermoor Document Services", false)
	p.SetTitle(src.title, true)
	p.SetAuthor(src.author, true)
	p.SetSubject(src.subject, true)
	p.SetLang("en-GB")
	p.SetMargins(margin, margin, margin)
	p.SetAutoPageBreak(true, foot)
	p.AliasNbPages("{pages}")
	p.SetFooterFunc(func() {
		p.SetY(-foot + 8)
		p.SetFont(font, "", 8.5)
		p.SetTextColor(90, 90, 90)
		p.CellFormat(0, 5, p.encode(src.title), "T", 0, "L", false, 0, "")
		p.SetX(margin)
		p.CellFormat(0, 5, fmt.Sprintf("Page %d of {pages}", p.PageNo()), "", 0, "R", false, 0, "")
		p.SetTextColor(0, 0, 0)
	})
	p.AddPage()
	p.SetFont(font, "B", 20)
	p.MultiCell(0, 9, p.encode(src.title), "", "L", false)
	p.SetFont(font, "", bodySize)
	p.MultiCell(0, 7, p.encode(src.subject), "", "L", false)
	p.Ln(6)
	first := true
	for _, b := range src.blocks {
		if b.kind == heading && b.level == 1 && src.chapters && !first {
			p.AddPage()
		}
		if b.kind == heading && b.level == 1 {
			first = false
		}
		p.block(b)
	}
	if p.err != nil {
		return nil, p.err
	}
	var out bytes.Buffer
	if err := p.Output(&out); err != nil {
		return nil, fmt.Errorf("write the PDF: %w", err)
	}
	return out.Bytes(), nil
}

func (p *pdfPage) block(b block) {
	switch b.kind {
	case heading:
		p.heading(b)
	case paragraph:
		p.text(b.rows[0][0])
		p.Ln(lineHeight + 2.6)
	case bullets, numbers:
		for i, row := range b.rows {
			mark := "\u2022"
			if b.kind == numbers {
				mark = fmt.Sprintf("%d.", i+1)
			}
			p.SetFont(font, "", bodySize)
			p.CellFormat(7, lineHeight, p.encode(mark), "", 0, "R", false, 0, "")
			p.SetLeftMargin(margin + 9)
			p.SetX(margin + 9)
			p.text(row[0])
			p.SetLeftMargin(margin)
			p.Ln(lineHeight + 1)
		}
		p.Ln(2)
	case table:
		p.table(b.rows)
	}
}

func (p *pdfPage) heading(b block) {
	size := map[int]float64{1: 16, 2: 13}[b.level]
	if size == 0 {
		size = 11.5
	}
	lines := 3.0 // to follow on the same page
	if b.level == 1 {
		lines = 6 // most chapters open with a second heading
	}
	p.keepTogether(size/2 + lines*lineHeight)
	p.Ln(2)
	title := p.encode(b.rows[0][0].String())
	p.Bookmark(title, b.level-1, -1)
	p.SetFont(font, "B", size)
	p.MultiCell(0, size/2, title, "", "L", false)
	p.Ln(2)
}

func (p *pdfPage) text(c cell) {
	for _, s := range c {
		style := ""
		if s.bold {
			style = "B"
		}
		p.SetFont(font, style, bodySize)
		p.Write(lineHeight, p.encode(s.text))
	}
}

// table draws rows with columns as wide as their longest cell needs, scaled to
// the width of the page. Cells are one line.
func (p *pdfPage) table(rows [][]cell) {
	widths := make([]float64, len(rows[0]))
	total := 0.0
	p.SetFont(font, "B", tableSize)
	for column := range widths {
		for _, row := range rows {
			widths[column] = max(widths[column], p.GetStringWidth(p.encode(row[column].String()))+5)
		}
		total += widths[column]
	}
	pageWidth, pageHeight := p.GetPageSize()
	room := pageWidth - 2*margin
	if total > room {
		p.fail(fmt.Errorf("the table headed %q is %.0f mm too wide", rows[0][0], total-room))
	}
	header := func() {
		p.SetFont(font, "B", tableSize)
		p.SetFillColor(225, 231, 238)
		p.row(rows[0], widths, room/total, true)
		p.SetFont(font, "", tableSize)
	}
	p.keepTogether(3 * rowHeight)
	header()
	for _, row := range rows[1:] {
		if p.GetY()+rowHeight > pageHeight-foot {
			p.AddPage()
			header()
		}
		p.row(row, widths, room/total, false)
	}
	p.Ln(5)
}

func (p *pdfPage) row(cells []cell, widths []float64, scale float64, fill bool) {
	for column, c := range cells {
		align := "R"
		if column == 0 {
			align = "L"
		}
		p.CellFormat(widths[column]*scale, rowHeight, p.encode(c.String()), "1", 0, align, fill, 0, "")
	}
	p.Ln(rowHeight)
}

// keepTogether starts a page unless that much room is left on this one.
func (p *pdfPage) keepTogether(height float64) {
	_, pageHeight := p.GetPageSize()
	if p.GetY()+height > pageHeight-foot {
		p.AddPage()
	}
}

// encode turns text into the encoding of the standard PDF fonts.
func (p *pdfPage) encode(s string) string {
	encoded, err := charmap.Windows1252.NewEncoder().String(s)
	if err != nil {
		p.fail(fmt.Errorf("%q has a character that the standard PDF fonts lack: %w", s, err))
	}
	return encoded
}

func (p *pdfPage) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}
