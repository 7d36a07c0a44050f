package parse

// Notes below a table, which explain marks in its cells such as (1) or *. They are added to the
// blocks whose rows have the mark.

import (
	"regexp"
	"slices"
	"strings"
)

const (
	maxNoteGap     = 3.0 // largest gap above the first note, in sizes of its font
	maxNoteLineGap = 0.3 // largest gap between lines of a note
	maxNoteWords   = 80  // most words of a note; a longer one is text
)

var (
	noteMark  = regexp.MustCompile(`(\([0-9a-z]{1,2}\)|\*{1,3}|[†‡§])$`)
	noteBegin = regexp.MustCompile(`^(\([0-9a-z]{1,2}\)|\*{1,3}|[†‡§])`)
)

// tableNote is a note and its mark.
type tableNote struct {
	mark string
	rows []pdfRow
}

// marks returns the marks at the ends of a table's words.
func (t *pdfTable) marks(lines []pdfLine) map[string]bool {
	out := make(map[string]bool)
	for _, i := range t.lines {
		for _, w := range lines[i].words {
			if m := noteMark.FindString(w.text); m != "" {
				out[m] = true
			}
		}
	}
	return out
}

// extractNotes finds the notes below a table and adds their lines to the table's.
func (t *pdfTable) extractNotes(lines []pdfLine, taken map[int]bool) {
	marks := t.marks(lines)
	if len(marks) == 0 {
		return
	}
	bottom, left, right := 1e9, 1e9, 0.0
	for _, i := range t.lines {
		l := lines[i]
		bottom, left, right = min(bottom, l.bottom), min(left, l.left), max(right, l.right)
	}
	var below []int
	for i, l := range lines {
		if !taken[i] && (l.top+l.bottom)/2 < bottom && l.left < right && l.right > left {
			below = append(below, i)
		}
	}
	edge, end := bottom, false
	for _, r := range rowsOf(lines, below) {
		first := r.cells[0].words[0].text
		mark := noteBegin.FindString(first)
		n := len(t.notes)
		switch {
		case mark != "" && marks[mark] && edge-r.top <= maxNoteGap*r.size:
			t.notes = append(t.notes, tableNote{mark: mark, rows: []pdfRow{r}})
		case mark == "" && n > 0 && edge-r.top <= maxNoteLineGap*r.size && r.size < 1.2*t.notes[n-1].rows[0].size && !r.bold:
			t.notes[n-1].rows = append(t.notes[n-1].rows, r)
		default:
			end = true
		}
		if end {
			break
		}
		edge = r.bottom
	}
	t.notes = slices.DeleteFunc(t.notes, func(n tableNote) bool {
		words := 0
		for _, r := range n.rows {
			for _, c := range r.cells {
				words += len(c.words)
			}
		}
		return words > maxNoteWords
	})
	for _, n := range t.notes {
		for _, r := range n.rows {
			t.lines = append(t.lines, r.lines...)
			for _, l := range r.lines {
				taken[l] = true
			}
		}
	}
}

// notesOf adds the notes whose marks occur in a block.
func (t *pdfTable) notesOf(block *layoutText) {
	s := block.b.String()
	for _, n := range t.notes {
		if !strings.Contains(s, n.mark) {
			continue
		}
		block.write("\n")
		for i, r := range n.rows {
			for j, c := range r.cells {
				if i+j > 0 {
					block.write(" ")
				}
				block.words(c, t.page)
			}
		}
	}
}
