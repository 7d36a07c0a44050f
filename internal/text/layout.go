package text

// Layout: where a text is on its pages. It is stored next to the text as a few bytes per word, and
// counts characters without white space, so that it stays valid when white space changes.

import (
	"encoding/binary"
	"errors"
	"math"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/schema"
)

// LayoutRun is a run of a text's characters and the box that they fill. The box is empty for
// characters that are on no page, such as the bar between two cells.
type LayoutRun struct {
	Chars int // number of characters, without white space
	Box   schema.Box
}

// Flags in a run's first number, below the number of characters.
const (
	runHasBox   = 1 << iota // it has a box
	runNewLine              // it is on another line than the previous run
	runFlagBits = iota
)

// unitsPerPoint is the precision of boxes: the number of units in a point.
const unitsPerPoint = 20

// EncodeLayout encodes the runs. Runs without characters are left out.
func EncodeLayout(runs []LayoutRun) []byte {
	var out []byte
	var state layoutState
	for _, r := range runs {
		if r.Chars <= 0 {
			continue
		}
		out = state.append(out, r)
	}
	return out
}

// layoutState is the position relative to which the next run is encoded.
type layoutState struct{ page, bottom, height, right int }

func units(points float64) int {
	const limit = 1 << 24
	return int(math.Round(min(max(points, -limit), limit) * unitsPerPoint))
}

func (s *layoutState) append(out []byte, r LayoutRun) []byte {
	head := uint64(r.Chars) << runFlagBits
	if r.Box.Empty() {
		return binary.AppendUvarint(out, head)
	}
	left, right := units(r.Box.Left), units(r.Box.Right)
	bottom, height := units(r.Box.Bottom), units(r.Box.Top)-units(r.Box.Bottom)
	head |= runHasBox
	if r.Box.Page != s.page || bottom != s.bottom || height != s.height {
		out = binary.AppendUvarint(out, head|runNewLine)
		out = binary.AppendVarint(out, int64(r.Box.Page-s.page))
		out = binary.AppendVarint(out, int64(bottom-s.bottom))
		out = binary.AppendVarint(out, int64(height-s.height))
		s.page, s.bottom, s.height = r.Box.Page, bottom, height
	} else {
		out = binary.AppendUvarint(out, head)
	}
	out = binary.AppendVarint(out, int64(left-s.right))
	out = binary.AppendUvarint(out, uint64(max(right-left, 0)))
	s.right = right
	return out
}

// JoinLayouts returns the layout of two texts, one after the other. It returns nil if one of the
// layouts is damaged.
func JoinLayouts(a, b []byte) []byte {
	head, err := DecodeLayout(a)
	if err != nil {
		return nil
	}
	tail, err := DecodeLayout(b)
	if err != nil {
		return nil
	}
	return EncodeLayout(append(head, tail...))
}

var errLayout = errors.New("the layout is damaged")

// DecodeLayout returns the runs that EncodeLayout wrote.
func DecodeLayout(data []byte) ([]LayoutRun, error) {
	var out []LayoutRun
	var s layoutState
	invalid := false
	varint := func() int {
		v, n := binary.Varint(data)
		if n <= 0 || v < -1<<40 || v > 1<<40 {
			invalid = true
			return 0
		}
		data = data[n:]
		return int(v)
	}
	uvarint := func() uint64 {
		v, n := binary.Uvarint(data)
		if n <= 0 || v > 1<<40 {
			invalid = true
			return 0
		}
		data = data[n:]
		return v
	}
	for len(data) > 0 {
		head := uvarint()
		r := LayoutRun{Chars: int(head >> runFlagBits)}
		if head&runHasBox != 0 {
			if head&runNewLine != 0 {
				s.page += varint()
				s.bottom += varint()
				s.height += varint()
			}
			left := s.right + varint()
			s.right = left + int(uvarint())
			r.Box = schema.Box{
				Page: s.page, Left: float64(left) / unitsPerPoint, Right: float64(s.right) / unitsPerPoint,
				Bottom: float64(s.bottom) / unitsPerPoint, Top: float64(s.bottom+s.height) / unitsPerPoint,
			}
		}
		if invalid || r.Chars == 0 {
			return nil, errLayout
		}
		out = append(out, r)
	}
	return out, nil
}

// Boxes returns the boxes of the bytes [start, end) of a text with this layout, in reading order:
// one for each stretch of a line. Words that are partly in the range count whole.
func Boxes(layout []byte, s string, start, end int) ([]schema.Box, error) {
	if len(layout) == 0 || start >= end {
		return nil, nil
	}
	runs, err := DecodeLayout(layout)
	if err != nil {
		return nil, err
	}
	from := CountNonSpace(s[:min(max(start, 0), len(s))])
	to := from + CountNonSpace(s[min(max(start, 0), len(s)):min(max(end, 0), len(s))])
	var out []schema.Box
	pos, newBox := 0, true
	for _, r := range runs {
		first, last := pos, pos+r.Chars
		pos = last
		if last <= from {
			continue
		}
		if first >= to {
			break
		}
		if r.Box.Empty() {
			newBox = true
			continue
		}
		if n := len(out); n > 0 && !newBox && follows(out[n-1], r.Box) {
			out[n-1] = out[n-1].Union(r.Box)
			continue
		}
		out = append(out, r.Box)
		newBox = false
	}
	return out, nil
}

// follows reports whether b continues the line of a.
func follows(a, b schema.Box) bool {
	height := max(a.Top-a.Bottom, b.Top-b.Bottom)
	return a.Page == b.Page && min(a.Top, b.Top)-max(a.Bottom, b.Bottom) > height/2 &&
		b.Left > a.Left && b.Left-a.Right < 2*height
}

// CountNonSpace counts the characters of s without white space.
func CountNonSpace(s string) int {
	n := 0
	for _, r := range s {
		if !unicode.IsSpace(r) {
			n++
		}
	}
	return n
}

// splitRuns cuts the runs after chars characters. A run that spans the cut is in both parts, with
// its box.
func splitRuns(runs []LayoutRun, chars int) (head, tail []LayoutRun) {
	for i, r := range runs {
		if chars < r.Chars {
			if chars > 0 {
				head = append(runs[:i:i], LayoutRun{chars, r.Box})
				return head, append([]LayoutRun{{r.Chars - chars, r.Box}}, runs[i+1:]...)
			}
			return runs[:i:i], runs[i:]
		}
		chars -= r.Chars
	}
	return runs, nil
}

// CharBox is a character of a text and its box on a page.
type CharBox struct {
	Rune rune
	Box  schema.Box
}

// maxSkippedChars is how many consecutive characters of a page may be missing from its text, such
// as hyphens at the ends of lines.
const maxSkippedChars = 4

// LayoutOf returns the layout, with a run for each word, of a text that was made from a page's
// characters in this order, with some left out and some inserted.
func LayoutOf(s string, chars []CharBox) []byte {
	var runs []LayoutRun
	wordStart := true // the next character begins a word
	next := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		if unicode.IsSpace(r) {
			wordStart = true
			continue
		}
		var box schema.Box
		for ahead := next; ahead < len(chars) && ahead <= next+maxSkippedChars; ahead++ {
			if chars[ahead].Rune == r {
				box, next = chars[ahead].Box, ahead+1
				break
			}
		}
		last := len(runs) - 1
		if !wordStart && last >= 0 && box.Empty() == runs[last].Box.Empty() && (box.Empty() || box.Page == runs[last].Box.Page && sameLine(runs[last].Box, box)) {
			runs[last].Chars++
			runs[last].Box = runs[last].Box.Union(box)
			continue
		}
		runs = append(runs, LayoutRun{1, box})
		wordStart = false
	}
	return EncodeLayout(runs)
}

func sameLine(a, b schema.Box) bool {
	return min(a.Top, b.Top)-max(a.Bottom, b.Bottom) > 0.3*min(a.Top-a.Bottom, b.Top-b.Bottom) && b.Left > a.Left-1
}
