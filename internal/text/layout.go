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

// Inked is a run of a text's characters and the box that they fill. The box is empty for characters
// that are on no page, such as the bar between two cells.
type Inked struct {
	Chars int // number of characters, without white space
	Box   schema.Box
}

// Flags in a run's first number, below the number of characters.
const (
	inkBoxed = 1 << iota // it has a box
	inkMoved             // it is on another line than the previous run
	inkBits  = iota
)

// inkUnit is the precision of boxes: the number of units in a point.
const inkUnit = 20

// EncodeLayout encodes the runs. Runs without characters are left out.
func EncodeLayout(runs []Inked) []byte {
	var out []byte
	var at inkState
	for _, r := range runs {
		if r.Chars <= 0 {
			continue
		}
		out = at.append(out, r)
	}
	return out
}

// inkState is the position relative to which the next run is encoded.
type inkState struct{ page, bottom, height, right int }

func units(points float64) int {
	const most = 1 << 24
	return int(math.Round(min(max(points, -most), most) * inkUnit))
}

func (s *inkState) append(out []byte, r Inked) []byte {
	head := uint64(r.Chars) << inkBits
	if r.Box.Empty() {
		return binary.AppendUvarint(out, head)
	}
	left, right := units(r.Box.Left), units(r.Box.Right)
	bottom, height := units(r.Box.Bottom), units(r.Box.Top)-units(r.Box.Bottom)
	head |= inkBoxed
	if r.Box.Page != s.page || bottom != s.bottom || height != s.height {
		out = binary.AppendUvarint(out, head|inkMoved)
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
func DecodeLayout(data []byte) ([]Inked, error) {
	var out []Inked
	var s inkState
	bad := false
	next := func() int {
		v, n := binary.Varint(data)
		if n <= 0 || v < -1<<40 || v > 1<<40 {
			bad = true
			return 0
		}
		data = data[n:]
		return int(v)
	}
	natural := func() uint64 {
		v, n := binary.Uvarint(data)
		if n <= 0 || v > 1<<40 {
			bad = true
			return 0
		}
		data = data[n:]
		return v
	}
	for len(data) > 0 {
		head := natural()
		r := Inked{Chars: int(head >> inkBits)}
		if head&inkBoxed != 0 {
			if head&inkMoved != 0 {
				s.page += next()
				s.bottom += next()
				s.height += next()
			}
			left := s.right + next()
			s.right = left + int(natural())
			r.Box = schema.Box{
				Page: s.page, Left: float64(left) / inkUnit, Right: float64(s.right) / inkUnit,
				Bottom: float64(s.bottom) / inkUnit, Top: float64(s.bottom+s.height) / inkUnit,
			}
		}
		if bad || r.Chars == 0 {
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
	from := CountInk(s[:min(max(start, 0), len(s))])
	to := from + CountInk(s[min(max(start, 0), len(s)):min(max(end, 0), len(s))])
	var out []schema.Box
	at, apart := 0, true
	for _, r := range runs {
		first, last := at, at+r.Chars
		at = last
		if last <= from {
			continue
		}
		if first >= to {
			break
		}
		if r.Box.Empty() {
			apart = true
			continue
		}
		if n := len(out); n > 0 && !apart && follows(out[n-1], r.Box) {
			out[n-1] = out[n-1].Union(r.Box)
			continue
		}
		out = append(out, r.Box)
		apart = false
	}
	return out, nil
}

// follows reports whether b continues the line of a.
func follows(a, b schema.Box) bool {
	height := max(a.Top-a.Bottom, b.Top-b.Bottom)
	return a.Page == b.Page && min(a.Top, b.Top)-max(a.Bottom, b.Bottom) > height/2 &&
		b.Left > a.Left && b.Left-a.Right < 2*height
}

// CountInk counts the characters of s without white space.
func CountInk(s string) int {
	n := 0
	for _, r := range s {
		if !unicode.IsSpace(r) {
			n++
		}
	}
	return n
}

// takeInk cuts the runs after chars characters. A run that spans the cut is in both parts, with its
// box.
func takeInk(runs []Inked, chars int) (head, tail []Inked) {
	for i, r := range runs {
		if chars < r.Chars {
			if chars > 0 {
				head = append(runs[:i:i], Inked{chars, r.Box})
				return head, append([]Inked{{r.Chars - chars, r.Box}}, runs[i+1:]...)
			}
			return runs[:i:i], runs[i:]
		}
		chars -= r.Chars
	}
	return runs, nil
}

// Ink is a character of a text and its box on a page.
type Ink struct {
	Rune rune
	Box  schema.Box
}

// inkAhead is how many consecutive characters of a page may be missing from its text, such as
// hyphens at the ends of lines.
const inkAhead = 4

// LayoutOf returns the layout, with a run for each word, of a text that was made from a page's
// characters in this order, with some left out and some inserted.
func LayoutOf(s string, inks []Ink) []byte {
	var runs []Inked
	fresh := true // the next character begins a word
	at := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		if unicode.IsSpace(r) {
			fresh = true
			continue
		}
		var box schema.Box
		for ahead := at; ahead < len(inks) && ahead <= at+inkAhead; ahead++ {
			if inks[ahead].Rune == r {
				box, at = inks[ahead].Box, ahead+1
				break
			}
		}
		last := len(runs) - 1
		if !fresh && last >= 0 && box.Empty() == runs[last].Box.Empty() && (box.Empty() || box.Page == runs[last].Box.Page && sameLine(runs[last].Box, box)) {
			runs[last].Chars++
			runs[last].Box = runs[last].Box.Union(box)
			continue
		}
		runs = append(runs, Inked{1, box})
		fresh = false
	}
	return EncodeLayout(runs)
}

func sameLine(a, b schema.Box) bool {
	return min(a.Top, b.Top)-max(a.Bottom, b.Bottom) > 0.3*min(a.Top-a.Bottom, b.Top-b.Bottom) && b.Left > a.Left-1
}
