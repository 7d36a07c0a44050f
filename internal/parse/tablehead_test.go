package parse

import (
	"strings"
	"testing"
)

func TestHeadersOfSeveralRows(t *testing.T) {
	expect(t, parsed(t, "a.html", `<html><body><p>Credit risk</p><table>
<tr><td></td><td colspan="2">Years ended 31 March</td></tr>
<tr><td></td><td>2019</td><td>2018</td></tr>
<tr><td></td><td>£m</td><td>£m</td></tr>
<tr><td colspan="3">By region</td></tr>
<tr><td>UK</td><td>24.5</td><td>24.9</td></tr>
<tr><td rowspan="2">Ireland</td><td>0.4</td><td>0.5</td></tr>
<tr><td>0.6</td><td>0.7</td></tr>
</table></body></html>`),
		"paragraph: Credit risk",
		"table: | Years ended 31 March 2019 £m | Years ended 31 March 2018 £m\nBy region\nUK | 24.5 | 24.9\nIreland | 0.4 | 0.5\nIreland | 0.6 | 0.7",
	)
}

// TestRowsOfWordsAreNoHeader, even if the table has few figures.
func TestRowsOfWordsAreNoHeader(t *testing.T) {
	expect(t, parsed(t, "a.html", `<html><body><p>Shifts</p><table>
<tr><th>Name</th><th>Shift</th><th>Site</th></tr>
<tr><td>Ada</td><td>early</td><td>Stannick</td></tr>
<tr><td>Bob</td><td>late</td><td>Harl Bridge</td></tr>
</table></body></html>`),
		"paragraph: Shifts",
		"table: Name | Shift | Site\nAda | early | Stannick\nBob | late | Harl Bridge",
	)
}

func TestATableOfHugeSpans(t *testing.T) {
	p := parsed(t, "a.html", `<html><body><p>x</p><table><tr><td>a</td><td colspan="99999999" rowspan="99999999">b</td></tr><tr><td>c</td></tr></table></body></html>`)
	if len(p.Blocks) == 0 || len(p.Blocks[len(p.Blocks)-1].Text) > 100_000 {
		t.Errorf("%d blocks", len(p.Blocks))
	}
}

// TestSpansOfDOCX checks that a cell that spans several rows is repeated in each, and that the
// cells after one that spans several columns keep their columns.
func TestSpansOfDOCX(t *testing.T) {
	cell := func(properties, s string) string {
		return "<w:tc><w:tcPr>" + properties + "</w:tcPr><w:p><w:r><w:t>" + s + "</w:t></w:r></w:p></w:tc>"
	}
	rows := func(rows ...string) string {
		return "<w:tbl><w:tr>" + strings.Join(rows, "</w:tr><w:tr>") + "</w:tr></w:tbl>"
	}
	expect(t, parsed(t, "a.docx", string(docx(map[string]string{"word/document.xml": document1(rows(
		cell("", "Group")+cell(`<w:gridSpan w:val="2"/>`, "Held by")+cell("", "State"),
		cell(`<w:vMerge w:val="restart"/>`, "North")+cell("", "Ada")+cell("", "Bob")+cell("", "open"),
		cell(`<w:vMerge/>`, "")+cell("", "Eve")+cell("", "Kim")+cell("", "shut"),
		cell("", "South")+cell(`<w:gridSpan w:val="2"/>`, "nobody")+cell("", "open"),
	))}))),
		"table: Group | Held by |  | State\nNorth | Ada | Bob | open\nNorth | Eve | Kim | shut\nSouth | nobody |  | open",
	)
}
