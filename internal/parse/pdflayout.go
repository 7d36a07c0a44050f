package parse

// From the lines of PDF pages to blocks: repeated page headers and footers are removed, lines
// become paragraphs, and large or bold lines become headings.

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

func layout(d *document, lines []pdfLine, rules map[int]pdfRuling) {
	lines = withoutHeadersAndFooters(lines, d.out.Pages)
	body := bodySize(lines)
	levels := headingSizes(lines, body)
	lines, tables := extractTables(lines, rules)
	var open *tableHeader
	for i := 0; i < len(lines) || len(tables) > 0; {
		if len(tables) > 0 && tables[0].index == i {
			header, ok := addTable(d, tables[0].table, open)
			if !ok {
				return
			}
			open, tables = header, tables[1:]
			continue
		}
		stop := len(lines)
		if len(tables) > 0 {
			stop = tables[0].index
		}
		end := i + 1
		kind, level := kindOf(lines[i], body, levels)
		for end < stop && continues(lines[i:end], lines[end], kind, body, levels) {
			end++
		}
		if !addPDF(d, kind, level, lines[i:end]) {
			return
		}
		i = end
	}
}

// tableAt is a table and the index of the line before which it is placed.
type tableAt struct {
	index int
	table *pdfTable
}

// extractTables removes the lines of tables and returns the rest and the tables. A table is placed
// at the position of its first line.
func extractTables(lines []pdfLine, rules map[int]pdfRuling) ([]pdfLine, []tableAt) {
	var kept []pdfLine
	var tables []tableAt
	for start := 0; start < len(lines); {
		end := start
		for end < len(lines) && lines[end].page == lines[start].page {
			end++
		}
		page := lines[start:end]
		found := pageTables(page, rules[page[0].page])
		taken := make(map[int]bool)
		begins := make(map[int]*pdfTable)
		for i := range found {
			begins[found[i].first] = &found[i]
			for _, l := range found[i].lines {
				taken[l] = true
			}
		}
		for i, l := range page {
			if t := begins[i]; t != nil {
				tables = append(tables, tableAt{len(kept), t})
			}
			if !taken[i] {
				kept = append(kept, l)
			}
		}
		start = end
	}
	return kept, tables
}

// addPDF adds lines as one block.
func addPDF(d *document, kind schema.BlockKind, level int, lines []pdfLine) bool {
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = l.text
	}
	s := joinWrapped(texts)
	if kind == schema.BlockTable {
		s = strings.Join(texts, "\n")
	}
	if kind == schema.BlockList {
		s = bullet.ReplaceAllString(s, "- ")
	}
	layout := text.LayoutOf(s, charBoxesOf(lines))
	if last := len(d.out.Blocks) - 1; kind == schema.BlockList && last >= 0 && d.out.Blocks[last].Kind == kind && d.out.Blocks[last].Page == lines[0].page {
		return d.extendWithLayout(s, layout)
	}
	return d.addWithLayout(kind, level, s, lines[0].page, layout)
}

var (
	bullet  = regexp.MustCompile(`^[•·▪◦‣●○■□–]\s*`)
	digits  = regexp.MustCompile(`\d+`)
	rule    = regexp.MustCompile(`^[\s_=*–—.-]{4,}$`)
	pageOf  = regexp.MustCompile(`(?i)\bpage \d{1,4} (of|/) \d{1,4}$`)
	pageNum = regexp.MustCompile(`(?i)^(page\s+)?[-–(]?\s*(\d{1,4}|[ivxlc]{1,6})\s*[-–)]?(\s*(of|/)\s*\d{1,4})?$`)
)

// withoutHeadersAndFooters removes rules, page numbers, and the lines that are at the top or bottom
// of at least half of the pages (and at least three), ignoring numbers.
func withoutHeadersAndFooters(lines []pdfLine, pages int) []pdfLine {
	inMargin := func(l pdfLine) bool {
		return l.pageTop > 0 && (l.bottom > l.pageTop*0.9 || l.bottom < l.pageTop*0.1)
	}
	key := func(l pdfLine) string { return digits.ReplaceAllString(strings.ToLower(l.text), "#") }
	seen := make(map[string]map[int]bool)
	for _, l := range lines {
		if inMargin(l) {
			k := key(l)
			if seen[k] == nil {
				seen[k] = make(map[int]bool)
			}
			seen[k][l.page] = true
		}
	}
	// Fewer than three pages are not enough: a line on each of two pages could be text.
	minPages := max(3, (pages+1)/2)
	out := lines[:0:0]
	for _, l := range lines {
		switch {
		case rule.MatchString(l.text):
		case inMargin(l) && (pageNum.MatchString(l.text) || pageOf.MatchString(l.text)):
		case inMargin(l) && len(seen[key(l)]) >= minPages:
		default:
			out = append(out, l)
		}
	}
	return out
}

// bodySize returns the font size of most characters, rounded to half points.
func bodySize(lines []pdfLine) float64 {
	count := make(map[float64]int)
	best, bestCount := 0.0, 0
	for _, l := range lines {
		s := halfPoints(l.size)
		count[s] += len(l.text)
		if count[s] > bestCount {
			best, bestCount = s, count[s]
		}
	}
	return best
}

func halfPoints(size float64) float64 { return math.Round(size*2) / 2 }

// headingSizes returns the font sizes of headings, largest first, at most four.
func headingSizes(lines []pdfLine, body float64) []float64 {
	var out []float64
	for _, l := range lines {
		s := halfPoints(l.size)
		if body > 0 && s >= body*1.15 && headline(l.text) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b float64) int { return int(math.Copysign(1, b-a)) })
	return out[:min(len(out), 4)]
}

// headline reports whether a line looks like a heading: it is short, begins with a capital or a
// number, and does not end like a sentence.
func headline(s string) bool {
	if utf8.RuneCountInString(s) > 150 || strings.HasSuffix(s, ".") && !numbered.MatchString(s) || strings.HasSuffix(s, ",") || strings.HasSuffix(s, ";") {
		return false
	}
	letters := 0
	for _, r := range s {
		if unicode.IsLetter(r) {
			letters++
		}
	}
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(s, "\"“‘('"))
	return letters >= 3 && letters*2 >= utf8.RuneCountInString(s) && (unicode.IsUpper(r) || unicode.IsDigit(r) || !unicode.IsLower(r) && unicode.IsLetter(r))
}

// capitals reports whether a line of two words or more has no small letters.
func capitals(s string) bool {
	letters := 0
	for _, r := range s {
		if unicode.IsLower(r) {
			return false
		}
		if unicode.IsLetter(r) {
			letters++
		}
	}
	return letters >= 8 && strings.Contains(s, " ")
}

var numbered = regexp.MustCompile(`^(\d+(\.\d+)*\.?|[A-Z]\.|Item \d+[\d.A-Z]*|Section \d+[\d.]*|Article [IVXLC\d]+\.?|Exhibit [\d.A-Z]+|Chapter \d+)\s*\S`)

// kindOf returns the kind and level of the block that a line would begin.
func kindOf(l pdfLine, body float64, levels []float64) (schema.BlockKind, int) {
	if bullet.MatchString(l.text) || listItem.MatchString(l.text) && !l.bold && l.size <= body*1.1 {
		return schema.BlockList, 0
	}
	if l.cells > 1 {
		return schema.BlockTable, 0
	}
	if headline(l.text) {
		if i := slices.Index(levels, halfPoints(l.size)); i >= 0 {
			return schema.BlockHeading, i + 1
		}
		// Text of body size is a heading if it is short and either bold or in capitals.
		if (l.bold || capitals(l.text)) && l.size >= body*0.9 && utf8.RuneCountInString(l.text) <= 90 {
			return schema.BlockHeading, len(levels) + 1
		}
	}
	if columns(l.text) {
		return schema.BlockTable, 0
	}
	return schema.BlockParagraph, 0
}

// columns reports whether a line looks like a row of figures: at least two of its words are
// numbers, and they are at least a third of its words.
func columns(s string) bool {
	words := strings.Fields(s)
	figures := 0
	for _, w := range words {
		w = strings.Trim(w, "$€£()%,.*—-–")
		if w == "" {
			continue
		}
		if strings.Trim(w, "0123456789,.") == "" {
			figures++
		}
	}
	return figures >= 2 && figures*3 >= len(words)
}

// continues reports whether next continues the block of lines.
func continues(lines []pdfLine, next pdfLine, kind schema.BlockKind, body float64, levels []float64) bool {
	first, last := lines[0], lines[len(lines)-1]
	nextKind, nextLevel := kindOf(next, body, levels)
	gap := last.bottom - next.bottom
	size := max(last.size, 1)
	samePage := next.page == last.page
	switch kind {
	case schema.BlockHeading:
		_, level := kindOf(first, body, levels)
		return samePage && nextKind == schema.BlockHeading && nextLevel == level && gap > 0 && gap < size*1.6 && len(lines) < 3 &&
			!numbered.MatchString(next.text) && first.bold == next.bold
	case schema.BlockTable:
		return samePage && nextKind == schema.BlockTable && len(lines) < 40
	}
	if nextKind != schema.BlockParagraph {
		// A row of figures in the middle of running text is text.
		full := last.right-last.left > 0 && next.left <= first.left+size && !endsSentence(last.text)
		if nextKind != schema.BlockTable || !full || kind == schema.BlockTable || !samePage || gap > size*1.5 {
			return false
		}
	}
	if math.Abs(next.size-last.size) > 0.2*size || next.bold && !last.bold && len(lines) > 1 {
		return false
	}
	if !samePage || gap < -size {
		// On a new page or column, only an unfinished sentence continues.
		return !endsSentence(last.text) && startsLower(next.text)
	}
	if gap < 0.3*size {
		// At the height of the line before it: a cell of a form, not its continuation.
		return next.left > last.right-size && len(last.text) > 0
	}
	if gap > leading(lines, size) {
		return false
	}
	// An indented line after the end of a sentence begins a paragraph, and so does a line after one
	// that is much shorter than the others.
	if endsSentence(last.text) && (next.left > last.left+size*0.8 && len(lines) > 1 || last.right < widest(lines, next)-size*6) {
		return false
	}
	return true
}

// leading returns the largest distance at which another line still belongs to this paragraph.
func leading(lines []pdfLine, size float64) float64 {
	if len(lines) > 1 {
		if g := lines[len(lines)-2].bottom - lines[len(lines)-1].bottom; g > size*0.5 {
			return g * 1.25
		}
	}
	return size * 1.7
}

func widest(lines []pdfLine, next pdfLine) float64 {
	w := next.right
	for _, l := range lines {
		w = max(w, l.right)
	}
	return w
}

func endsSentence(s string) bool {
	s = strings.TrimRight(s, "\"”’)]*")
	return strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "?") || strings.HasSuffix(s, ":") || strings.HasSuffix(s, ";")
}

func startsLower(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLower(r)
}
