package parse

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

// drawn is the content of a page under construction.
type drawn struct{ strings.Builder }

func (d *drawn) at(x, y, size float64, s string) *drawn {
	fmt.Fprintf(d, "BT /F1 %g Tf 1 0 0 1 %g %g Tm (%s) Tj ET\n", size, x, y, s)
	return d
}

// right draws figures that end at x, with the widths of Helvetica.
func (d *drawn) right(x, y, size float64, s string) *drawn {
	width := 0.0
	for _, r := range s {
		switch r {
		case '\\':
		case ',', '.', ' ':
			width += 0.278
		case '(', ')', '-':
			width += 0.333
		default:
			width += 0.556
		}
	}
	return d.at(x-width*size, y, size, s)
}

func (d *drawn) rule(left, right, y float64) *drawn {
	fmt.Fprintf(d, "%g %g %g 0.5 re f\n", left, y, right-left)
	return d
}

// statement draws rows of a statement from y downwards: a label, indented by its leading spaces,
// and figures for three years.
func (d *drawn) statement(y float64, rows ...[4]string) *drawn {
	for _, r := range rows {
		indent := float64(len(r[0]) - len(strings.TrimLeft(r[0], " ")))
		d.at(60+6*indent, y, 10, strings.TrimLeft(r[0], " "))
		for i, f := range r[1:] {
			x := 380 + 80*float64(i)
			if strings.HasPrefix(f, "$") {
				d.at(x-55, y, 10, "$")
				f = f[1:]
			}
			if f != "" {
				d.right(x, y, 10, f)
			}
		}
		y -= 14
	}
	return d
}

func statementPages() []string {
	first := (&drawn{}).
		at(180, 740, 16, "CONSOLIDATED STATEMENTS OF INCOME").
		at(220, 722, 10, "\\(in millions, except per share data\\)").
		at(405, 700, 10, "Year Ended").rule(330, 542, 697).
		right(380, 684, 10, "2022").right(460, 684, 10, "2021").right(540, 684, 10, "2020").
		statement(664,
			[4]string{"Revenue:"},
			[4]string{"  Subscription", "$16,388", "$14,573", "$11,626"},
			[4]string{"  Product", "532", "555", "507"},
			[4]string{"Total revenue", "16,920", "15,128", "12,133"},
			[4]string{"Effect of foreign exchange rates on cash and"},
			[4]string{"cash equivalents", "\\(51\\)", "\\(26\\)", "3"},
		).at(60, 540, 10, "The figures were audited, and they agree with the books of the company, as the notes say.")
	last := (&drawn{}).statement(664, [4]string{"Cost of sales", "71,651", "88,265", "11,934"}, [4]string{"Marketing", "5,254", "-", "10,069"})
	return []string{first.String(), (&drawn{}).at(60, 700, 10, "Notes.").String(), last.String()}
}

func TestTablesOfPDFs(t *testing.T) {
	pages := statementPages()
	header := "table@1: CONSOLIDATED STATEMENTS OF INCOME (in millions, except per share data) | Year Ended 2022 | Year Ended 2021 | Year Ended 2020\n"
	expect(t, parsed(t, "a.pdf", string(pdfFile(pages[:1]))),
		"heading1@1: CONSOLIDATED STATEMENTS OF INCOME",
		"paragraph@1: (in millions, except per share data)",
		header+
			"Revenue: Subscription | $16,388 | $14,573 | $11,626\n"+
			"Revenue: Product | 532 | 555 | 507\n"+
			"Total revenue | 16,920 | 15,128 | 12,133\n"+
			"Effect of foreign exchange rates on cash and cash equivalents | (51) | (26) | 3",
		"paragraph@1: The figures were audited, and they agree with the books of the company, as the notes say.",
	)
}

// TestTablesContinueOnTheNextPage: a continuation without a header gets that of the page before;
// after other pages it has none.
func TestTablesContinueOnTheNextPage(t *testing.T) {
	pages := statementPages()
	first := strings.Split(pages[0], "BT /F1 10 Tf 1 0 0 1 60 540")[0]
	got := strings.Join(show(parsed(t, "a.pdf", string(pdfFile([]string{first, pages[2]})))), "\n")
	if want := "table@2: CONSOLIDATED STATEMENTS OF INCOME (in millions, except per share data) | Year Ended 2022 | Year Ended 2021 | Year Ended 2020\nCost of sales | 71,651 | 88,265 | 11,934\nMarketing | 5,254 | - | 10,069"; !strings.Contains(got, want) {
		t.Errorf("%s\nlacks\n%s", got, want)
	}
	got = strings.Join(show(parsed(t, "a.pdf", string(pdfFile([]string{first, pages[1], pages[2]})))), "\n")
	if want := "table@3: Cost of sales | 71,651"; !strings.Contains(got, want) {
		t.Errorf("%s\nlacks\n%s", got, want)
	}
}

// TestTwoColumnsOfTextAreNoTable, although years occur in both.
func TestTwoColumnsOfTextAreNoTable(t *testing.T) {
	var d drawn
	for i := range 20 {
		d.at(60, 700-12*float64(i), 9, "In 2019 the plant made "+fmt.Sprint(100+i)+" pumps a week and")
	}
	for i := range 20 {
		d.at(320, 700-12*float64(i), 9, "sold them to "+fmt.Sprint(40+i)+" countries, of which 12 lie")
	}
	for _, b := range parsed(t, "a.pdf", string(pdfFile([]string{d.String()}))).Blocks {
		if b.Kind == schema.BlockTable {
			t.Errorf("a table: %q", b.Text)
		}
	}
}

// TestCellsAreInTheirColumns checks that the boxes of a cell are where the cell was drawn.
func TestCellsAreInTheirColumns(t *testing.T) {
	p := parsed(t, "a.pdf", string(pdfFile(statementPages()[:1])))
	s := text.Sections(p, 0)[0]
	for cell, right := range map[string]float64{"14,573": 460, "12,133": 540, "(51)": 380} {
		at := strings.Index(s.Text, cell)
		boxes, err := text.Boxes(s.Layout, s.Text, at, at+len(cell))
		if err != nil || len(boxes) != 1 || boxes[0].Page != 1 || boxes[0].Right < right-1.5 || boxes[0].Right > right+1.5 {
			t.Errorf("%s stands in %+v (%v), and was drawn up to %g", cell, boxes, err, right)
		}
	}
}

// TestLinesJoinedByPdfiumAreSplit: pdfium joins some lines that end in a dash. The figures are
// from a cash flow statement.
func TestLinesJoinedByPdfiumAreSplit(t *testing.T) {
	word := func(s string, left, right, bottom float32) pdfWord {
		return pdfWord{text: s, left: left, right: right, bottom: bottom, top: bottom + 10.9}
	}
	joint := pdfLine{cells: 1, size: 10.9, words: []pdfWord{
		word("Lease", 28.3, 60, 608.4), word("expense", 62, 100, 608.4), word("70,253", 439, 467, 608.4), word("—", 581.8, 589.9, 608.4),
		word("Compensation", 28.3, 110, 597.6), word("397,800", 435, 467, 597.6), word("216,881", 558, 590, 597.6), word("(a)", 590, 596, 603),
	}}
	var got []string
	for _, l := range joint.splitAtBreaks() {
		got = append(got, fmt.Sprintf("%s [%.0f %.0f %.0f]", l.text, l.left, l.right, l.bottom))
	}
	want := []string{"Lease expense | 70,253 | — [28 590 608]",
		"Compensation | 397,800 | 216,881 (a) [28 596 598]"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestNotesGoWithTheirTable checks that a note is added to the rows with its mark and is no
// paragraph, while a note with another mark stays a paragraph.
func TestNotesGoWithTheirTable(t *testing.T) {
	page := (&drawn{}).at(180, 740, 16, "SALES BY REGION").
		right(380, 684, 10, "2022").right(460, 684, 10, "2021").right(540, 684, 10, "2020").
		statement(664,
			[4]string{"Europe \\(1\\)", "16,388", "14,573", "11,626"},
			[4]string{"Asia *", "532", "555", "507"}).
		at(60, 630, 8, "\\(1\\) Without the plant in Overton, which was sold").at(60, 620, 8, "in the spring of 2022.").
		at(60, 610, 8, "* As reported.").
		at(60, 590, 8, "\\(2\\) Of another table.")
	expect(t, parsed(t, "a.pdf", string(pdfFile([]string{page.String()}))),
		"heading1@1: SALES BY REGION",
		"table@1: SALES BY REGION | 2022 | 2021 | 2020\nEurope (1) | 16,388 | 14,573 | 11,626\nAsia * | 532 | 555 | 507\n"+
			"(1) Without the plant in Overton, which was sold in the spring of 2022.\n* As reported.",
		"list@1: (2) Of another table.",
	)
}
