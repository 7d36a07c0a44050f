// Package segment is the storage format of the lexical index. Every batch of ingestion makes an
// immutable segment, and a merge makes one segment of several.
//
// Inside a segment passages have ordinals in the order of (entry, section, passage). So the
// passages of a section and the sections of a document are ranges, and one posting list serves
// every unit. A segment consists of a header (segment.go), a directory with the meaning of the
// ordinals (directory.go), and pages of terms with their postings (page.go).
package segment

// The header of a segment: its counts, and the terms of its pages.

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/uuid"
)

// ErrCorrupt is returned when a header or a page is read whose bytes are not those that were
// written.
var ErrCorrupt = errors.New("corrupt lexical data")

// formatMagic begins a header; its last byte is the version of the format.
const formatMagic = "SLX\x01"

// Counts are the contents of a segment, including dead entries. Lengths are in analysed terms.
type Counts struct {
	Entries, Sections, Passages int
	Body, Titles                uint64 // lengths of all passages and of all titles
}

// Slots is the number of slots: one per passage, and one for the title of each entry.
func (c Counts) Slots() int { return c.Passages + c.Entries }

// Header is a segment's header: its counts, and the terms of its pages.
type Header struct {
	ID uuid.UUID
	Counts
	directoryPages int
	pages          []pageTerms // pages of terms; their numbers follow the directory's
	// firstKeys and lastKeys are the termKeys of pages.
	firstKeys, lastKeys []uint64
	bytes               int
}

type pageTerms struct{ first, last string }

// maxLabel is the most bytes of a label that are part of its term.
const maxLabel = 256

// LabelTerm returns the term of a label. Long labels are distinguished by their hash.
func LabelTerm(label string) string {
	if len(label) > maxLabel {
		sum := sha256.Sum256([]byte(label))
		return "\x00h" + hex.EncodeToString(sum[:])
	}
	return "\x00l" + label
}

// OpenTerm is the term of entries without labels.
const OpenTerm = "\x00o"

// IdentityTerm returns the term in the field identity, which has the names of documents.
func IdentityTerm(term string) string { return "\x01" + term }

func encodeHeader(c Counts, directoryPages int, pages []BuiltPage) []byte {
	out := []byte(formatMagic)
	for _, n := range []uint64{uint64(c.Entries), uint64(c.Sections), uint64(c.Passages), c.Body, c.Titles,
		uint64(directoryPages), uint64(len(pages))} {
		out = binary.AppendUvarint(out, n)
	}
	last := ""
	for _, p := range pages {
		out = appendTerm(out, last, p.First)
		out = appendTerm(out, p.First, p.Last)
		last = p.Last
	}
	return appendChecksum(out)
}

// appendTerm writes a term as its difference from the one before it.
func appendTerm(out []byte, before, term string) []byte {
	shared := sharedPrefix(before, term)
	out = binary.AppendUvarint(out, uint64(shared))
	out = binary.AppendUvarint(out, uint64(len(term)-shared))
	return append(out, term[shared:]...)
}

func sharedPrefix[T string | []byte](a string, b T) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// term reads what appendTerm wrote.
func (r *reader) term(before string) string {
	shared := r.number(uint64(len(before)))
	rest := r.bytes(r.count(1))
	if r.failed {
		return ""
	}
	return before[:shared] + string(rest)
}

// OpenHeader reads a header.
func OpenHeader(id uuid.UUID, header []byte) (*Header, error) {
	data, err := verifyChecksum(header, "header")
	if err != nil {
		return nil, fmt.Errorf("segment %s: %w", id, err)
	}
	if !strings.HasPrefix(string(data), formatMagic) {
		return nil, fmt.Errorf("segment %s: %w: not a header of this format", id, ErrCorrupt)
	}
	r := reader{data: data, pos: len(formatMagic)}
	s := &Header{ID: id, bytes: len(header)}
	s.Entries = r.number(maxSlots)
	s.Sections = r.number(maxSlots)
	s.Passages = r.number(maxSlots)
	s.Body = r.uvarint()
	s.Titles = r.uvarint()
	s.directoryPages = r.number(math.MaxInt32)
	n := r.count(4)
	if s.Slots() > maxSlots || s.Sections+s.Entries > maxSlots {
		r.fail()
	}
	s.pages = make([]pageTerms, 0, n)
	s.firstKeys, s.lastKeys = make([]uint64, 0, n), make([]uint64, 0, n)
	last := ""
	for range n {
		p := pageTerms{first: r.term(last)}
		p.last = r.term(p.first)
		if p.first < last || p.last < p.first {
			r.fail()
		}
		last = p.last
		s.pages = append(s.pages, p)
		s.firstKeys, s.lastKeys = append(s.firstKeys, TermKey(p.first)), append(s.lastKeys, TermKey(p.last))
		s.bytes += len(p.first) + len(p.last) + 48
	}
	if r.failed || r.pos != len(data) {
		return nil, fmt.Errorf("segment %s: %w: a header that does not parse", id, ErrCorrupt)
	}
	return s, nil
}

// Bytes is the approximate size of the header in memory.
func (s *Header) Bytes() int { return s.bytes }

// EachPage calls fn with the numbers of the pages that may have the terms, in ascending order and
// each once. The terms must be sorted.
func (s *Header) EachPage(sorted []string, fn func(number int)) {
	next := s.directoryPages
	for _, t := range sorted {
		first, end := s.PageRangeFrom(t, TermKey(t), max(next-1, s.directoryPages)-s.directoryPages)
		for next = max(next, first); next < end; next++ {
			fn(next)
		}
	}
}

// PageRangeFrom returns the range of the numbers of pages that may have a term. key is its TermKey.
// The term must not be in a page of terms before the from-th.
func (s *Header) PageRangeFrom(term string, key uint64, from int) (first, end int) {
	low, high := from, len(s.lastKeys)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if k := s.lastKeys[middle]; k < key || k == key && s.pages[middle].last < term {
			low = middle + 1
		} else {
			high = middle
		}
	}
	end = low
	for end < len(s.pages) && (s.firstKeys[end] < key || s.firstKeys[end] == key && s.pages[end].first <= term) {
		end++
	}
	return low + s.directoryPages, end + s.directoryPages
}

// DirectoryPages lists the numbers of the pages that OpenDirectory reads, in its order.
func (s *Header) DirectoryPages() []int {
	numbers := make([]int, s.directoryPages)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// PageCount is the number of pages, including those of the directory.
func (s *Header) PageCount() int { return s.directoryPages + len(s.pages) }

// Open reads a segment's header and directory. page returns the bytes of a page, nil if there is
// none.
func Open(id uuid.UUID, header []byte, page func(number int) []byte) (*Header, *Directory, error) {
	s, err := OpenHeader(id, header)
	if err != nil {
		return nil, nil, fmt.Errorf("header of segment %s: %w", id, err)
	}
	var pages [][]byte
	for _, n := range s.DirectoryPages() {
		data := page(n)
		if data == nil {
			return nil, nil, fmt.Errorf("page %d of segment %s is missing: %w", n, id, ErrCorrupt)
		}
		pages = append(pages, data)
	}
	directory, err := OpenDirectory(s, pages)
	if err != nil {
		return nil, nil, fmt.Errorf("directory of segment %s, pages %v: %w", id, s.DirectoryPages(), err)
	}
	return s, directory, nil
}
