package parse

// Measures how similar the tables found on PDF pages are to the printed ones.

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klippa-app/go-pdfium/requests"
)

// tableScore sums the scores of one style's tables.
type tableScore struct {
	tables, missed, extra int
	full, structure       float64 // sums over the tables of TEDS and TEDS-Struct
}

// tableReport has the scores of the styles, in order.
type tableReport struct {
	styles []string
	scores map[string]*tableScore
}

func (r *tableReport) of(style string) *tableScore {
	if r.scores[style] == nil {
		r.styles = append(r.styles, style)
		if r.scores == nil {
			r.scores = make(map[string]*tableScore)
		}
		r.scores[style] = &tableScore{}
	}
	return r.scores[style]
}

func (r *tableReport) String() string {
	var b strings.Builder
	var all tableScore
	for _, style := range r.styles {
		s := r.scores[style]
		all.tables += s.tables
		all.missed += s.missed
		all.extra += s.extra
		all.full += s.full
		all.structure += s.structure
		if s.tables == 0 {
			fmt.Fprintf(&b, "%-12s no tables, %d found\n", style, s.extra)
			continue
		}
		n := float64(s.tables)
		fmt.Fprintf(&b, "%-12s %3d tables  TEDS %.3f  TEDS-Struct %.3f  missed %d  extra %d\n", style, s.tables, s.full/n, s.structure/n, s.missed, s.extra)
	}
	n := float64(max(all.tables, 1))
	fmt.Fprintf(&b, "%-12s %3d tables  TEDS %.3f  TEDS-Struct %.3f  missed %d  extra %d\n", "all", all.tables, all.full/n, all.structure/n, all.missed, all.extra)
	return b.String()
}

// measureTables compares the tables of each PDF in a folder with those of the HTML of the same
// name. The name up to the first hyphen is the style. If other is set, the tables are another
// tool's: HTML in a file with the page's name and the extension other.
func measureTables(t *testing.T, dir, other string) *tableReport {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.pdf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no PDF in %s: %v", dir, err)
	}
	r := &tableReport{}
	for _, f := range files {
		source, err := os.ReadFile(strings.TrimSuffix(f, ".pdf") + ".html")
		if err != nil {
			t.Fatal(err)
		}
		name := f
		if other != "" {
			name = strings.TrimSuffix(f, ".pdf") + "." + other
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var found []*tableTree
		if other != "" {
			found = treesOf(t, string(data))
		} else {
			found = foundTables(t, data)
		}
		style, _, _ := strings.Cut(filepath.Base(f), "-")
		r.add(t, filepath.Base(f), r.of(style), treesOf(t, string(source)), found)
	}
	return r
}

// add pairs each wanted table with the most similar of those found.
func (r *tableReport) add(t *testing.T, name string, s *tableScore, want, found []*tableTree) {
	s.tables += len(want)
	for _, w := range want {
		best, most := -1, 0.0
		for i, f := range found {
			if x := teds(w, f, false); f != nil && x > most {
				best, most = i, x
			}
		}
		if best < 0 || most < 0.2 {
			s.missed++
			t.Logf("%s: a table is missed", name)
			continue
		}
		structure := teds(w, found[best], true)
		s.full += most
		s.structure += structure
		if most < 0.9 {
			t.Logf("%s: TEDS %.3f, TEDS-Struct %.3f", name, most, structure)
		}
		found = slices.Delete(slices.Clone(found), best, best+1)
	}
	s.extra += len(found)
	for _, f := range found {
		t.Logf("%s: no table: %.100s", name, outline(f))
	}
}

// outline returns the text of a tree in one line.
func outline(n *tableTree) string {
	s := string(n.text)
	for _, c := range n.children {
		s += outline(c) + " "
	}
	return n.tag[:2] + "[" + s + "]"
}

// foundTables returns the tables found in a PDF, as trees. A table that continues on the next page
// is one table.
func foundTables(t *testing.T, data []byte) []*tableTree {
	t.Helper()
	instance, err := pdfiumInstance()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = instance.Close() }()
	opened, err := instance.OpenDocument(&requests.OpenDocument{File: &data})
	if err != nil {
		t.Fatal(err)
	}
	counted, err := instance.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: opened.Document})
	if err != nil {
		t.Fatal(err)
	}
	var lines []pdfLine
	rules := make(map[int]pdfRuling)
	for i := range counted.PageCount {
		page, ruled, err := pageLines(instance, opened.Document, i)
		if err != nil {
			t.Fatal(err)
		}
		lines, rules[i+1] = append(lines, page...), ruled
	}
	_, tables := extractTables(withoutHeadersAndFooters(lines, counted.PageCount), rules)
	var out []*tableTree
	for i, placed := range tables {
		tree := placed.table.tree()
		if i > 0 && placed.table.continuedBy(tables[i-1].table) {
			out[len(out)-1].append(tree)
			continue
		}
		out = append(out, tree)
	}
	return out
}

// append adds the rows of a table's body.
func (n *tableTree) append(o *tableTree) {
	body := n.children[len(n.children)-1]
	body.children = append(body.children, o.children[len(o.children)-1].children...)
}

// continuedBy reports whether a table is the continuation of before on the next page.
func (t *pdfTable) continuedBy(before *pdfTable) bool {
	h := before.header()
	if h.fits(t) {
		return true
	}
	own := t.header()
	return h != nil && own != nil && t.page == before.page+1 && h.text.b.String() == own.text.b.String()
}

// tree returns a found table as a tree. A heading over neighbouring columns is one cell.
func (t *pdfTable) tree() *tableTree {
	head, body := &tableTree{tag: "thead"}, &tableTree{tag: "tbody"}
	cell := func(row *tableTree, s string) *tableTree {
		c := &tableTree{tag: "td", columnSpan: 1, rowSpan: 1, text: []rune(s)}
		row.children = append(row.children, c)
		return c
	}
	for i, cells := range t.cells {
		row := &tableTree{tag: "tr"}
		for _, c := range cells {
			made := cell(row, c.text())
			made.columnSpan, made.rowSpan = c.columnSpan, c.rowSpan
		}
		if i < t.head {
			head.children = append(head.children, row)
		} else {
			body.children = append(body.children, row)
		}
	}
	for _, h := range t.headers {
		row := &tableTree{tag: "tr"}
		for i, c := range h {
			if i > 1 && len(c.words) > 0 && len(h[i-1].words) > 0 && &c.words[0] == &h[i-1].words[0] {
				row.children[len(row.children)-1].columnSpan++
				continue
			}
			cell(row, c.text())
		}
		head.children = append(head.children, row)
	}
	for i, r := range t.rows {
		row := &tableTree{tag: "tr"}
		label, cells := t.assignColumns(r)
		empty := !slices.ContainsFunc(cells, func(c pdfCell) bool { return len(c.words) > 0 })
		if empty && i > 0 && startsLower(label.text()) {
			last := body.children[len(body.children)-1].children[0]
			last.text = append(append(last.text, ' '), []rune(label.text())...)
			continue
		}
		c := cell(row, label.text())
		for _, o := range cells {
			if empty {
				c.columnSpan++
			} else {
				cell(row, o.text())
			}
		}
		body.children = append(body.children, row)
	}
	return tableOfParts(head, body)
}

// leastTEDS is the least mean TEDS of the printed pages in testdata.
const leastTEDS = 0.9

// TestTablesOfPrintedPages checks a page of each style, and a page of each kind without a table.
func TestTablesOfPrintedPages(t *testing.T) {
	r := measureTables(t, filepath.Join("testdata", "tables"), "")
	t.Log("\n" + r.String())
	sum, tables := 0.0, 0
	for _, style := range r.styles {
		s := r.scores[style]
		sum, tables = sum+s.full, tables+s.tables
		if s.missed > 0 || s.extra > 0 {
			t.Errorf("%s: %d tables are missed, and %d are none", style, s.missed, s.extra)
		}
	}
	if tables < 10 || sum < leastTEDS*float64(tables) {
		t.Errorf("the mean TEDS of %d tables is %.3f, at least %.2f is wanted", tables, sum/float64(max(tables, 1)), leastTEDS)
	}
}
