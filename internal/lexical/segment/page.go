package segment

// Pages of terms: the sorted terms, prefix-compressed, each with its posting list. A list is cut
// into blocks. A block has its first and last slot and bounds of the scores of its units, so that a
// search can skip it. A list that does not fit into a page continues on the next ones, under the
// same term.
//
//	page   kind, terms, slack, checksum of all
//	term   shared prefix, rest, length of list, list
//	list   flags, then slot and frequency of the one posting, or
//	       (unless it continues one: postings, passages, sections, entries,) blocks, data of blocks
//	block  gap before it, span, postings, widths of deltas and frequencies, frontiers by zoom
//	data   deltas of slots less one, frequencies less one; bit-packed
//
// Every restartEvery-th term of a page is not compressed.

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/internal/lexical"
)

const (
	kindTerms     = 1
	kindDirectory = 2

	BlockSize    = 128
	restartEvery = 8
	maxFrontier  = 6 // bounds in a frontier
)

// Flags of a list.
const (
	flagContinued = 1 << iota // it began on an earlier page
	flagOne                   // it is a single posting
	flagTitle                 // with flagOne: of a title
)

// Bound is a frequency and a length of units in a block. They are of the whole unit, even if it
// continues in other blocks.
type Bound struct{ Frequency, Length uint32 }

// PackedBlock is a run of postings.
type PackedBlock struct {
	First, Last       uint32 // slots
	Data              uint32 // index of the packed bytes in the page
	Postings          uint16
	deltaWidth, Width uint8
	// frontiers are, by zoom, ranges of the list's bounds. For each unit of the block there is a
	// bound with at least its frequency and at most its length. An empty range bounds nothing.
	Frontiers [Zooms + 1]uint32
}

// List is the part of a term's postings that one page holds.
type List struct {
	Data      []byte // of the page, with slack
	Continued bool
	One       uint32 // frequency of the only posting; 0: see blocks
	Postings  uint32 // of the whole term, on the page where it begins; so are units
	Units     [Zooms]uint32
	Blocks    []PackedBlock
	Bounds    []Bound
}

// Page is a decoded page of terms. It keeps the bytes that it was decoded from.
type Page struct {
	data     []byte        // with slack, without checksum
	end      int           // of the terms
	restarts []int32       // where groups of terms begin
	keys     []uint64      // of the terms that they begin with
	long     map[int]*List // continued lists and lists of several blocks, by the index where they begin
	bytes    int
}

// DecodePage reads a page of terms. The page keeps data.
func DecodePage(data []byte) (*Page, error) {
	body, err := verifyChecksum(data, "page of terms")
	if err != nil {
		return nil, err
	}
	p := &Page{data: body, end: len(body) - Slack}
	if p.end < 1 || body[0] != kindTerms {
		return nil, fmt.Errorf("%w: not a page of terms", ErrCorrupt)
	}
	r := reader{data: body[:p.end], pos: 1}
	var l List
	for n, length := 0, 0; r.pos < p.end; n++ {
		if n%restartEvery == 0 {
			p.restarts = append(p.restarts, int32(r.pos))
			length = 0
		}
		shared, rest, size := r.skipList(length)
		length = shared + len(rest)
		if n%restartEvery == 0 {
			p.keys = append(p.keys, TermKey(rest))
		}
		if r.failed || !p.decodeList(r.pos-size, size, &l) {
			return nil, fmt.Errorf("%w: a page of terms that does not parse", ErrCorrupt)
		}
		if len(l.Blocks) > 1 || l.Continued {
			if p.long == nil {
				p.long = map[int]*List{}
			}
			decoded := l
			decoded.Blocks, decoded.Bounds = slices.Clone(l.Blocks), slices.Clone(l.Bounds)
			p.long[r.pos-size] = &decoded
			p.bytes += 160 + 36*len(l.Blocks) + 8*len(l.Bounds)
		}
	}
	p.bytes += len(data) + 12*len(p.restarts) + 128
	return p, nil
}

// Bytes is the approximate size of the page in memory.
func (p *Page) Bytes() int { return p.bytes }

// skipList reads a term, which shares a prefix with the term of length before that precedes it, and
// skips its list of size bytes.
func (r *reader) skipList(before int) (shared int, rest []byte, size int) {
	shared = r.number(uint64(before))
	rest = r.bytes(r.number(lexical.MaxTerm))
	size = r.count(1)
	if size == 0 || shared+len(rest) > lexical.MaxTerm {
		r.fail()
	}
	r.bytes(size)
	return shared, rest, size
}

// TermKey returns the beginning of a term as a number. Keys of terms have the terms' order, or are
// equal.
func TermKey[T string | []byte](term T) (key uint64) {
	for i := range min(len(term), 8) {
		key |= uint64(term[i]) << (56 - 8*i)
	}
	return key
}

// Find returns the list of a term, whose TermKey is key; nil: the page has none. A list that the
// page has not kept decoded is decoded into short.
func (p *Page) Find(term string, key uint64, short *List) *List {
	group := p.findGroup(term, key)
	if group < 0 {
		return nil
	}
	r := reader{data: p.data[:p.end], pos: int(p.restarts[group])}
	same := 0 // length of the prefix that the term shares with the previous one
	for n := 0; n < restartEvery && r.pos < p.end; n++ {
		shared := int(r.uvarint())
		rest := r.bytes(int(r.uvarint()))
		size := int(r.uvarint())
		begin := r.pos
		r.pos += size
		if shared > same {
			continue // it differs from the term in the same byte as the previous one
		}
		if shared < same {
			return nil
		}
		more := sharedPrefix(term[same:], rest)
		same += more
		switch {
		case more < len(rest) && (same == len(term) || rest[more] > term[same]):
			return nil // greater than the term
		case more < len(rest) || same < len(term):
			continue
		}
		if long := p.long[begin]; long != nil {
			return long
		}
		if !p.decodeList(begin, size, short) {
			return nil
		}
		return short
	}
	return nil
}

// findGroup returns the last group whose first term is at most term; -1: there is none.
func (p *Page) findGroup(term string, key uint64) int {
	low, high := 0, len(p.keys) // search for the first group that begins with a greater term
	for low < high {
		middle := int(uint(low+high) >> 1)
		if k := p.keys[middle]; k < key || k == key && p.firstTerm(middle) <= term {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low - 1
}

// firstTerm returns the first term of a group.
func (p *Page) firstTerm(group int) string {
	r := reader{data: p.data[:p.end], pos: int(p.restarts[group])}
	_, rest, _ := r.skipList(0)
	return string(rest)
}

// pageReader reads the lists of a page in their order.
type pageReader struct {
	page   *Page
	r      reader
	n      int
	term   [lexical.MaxTerm]byte
	length int
}

func (p *Page) reader() pageReader {
	return pageReader{page: p, r: reader{data: p.data[:p.end], pos: 1}}
}

func (pr *pageReader) atEnd() bool { return pr.r.pos >= len(pr.r.data) }

// next reads a term and its list, which the next call overwrites.
func (pr *pageReader) next(l *List) (term []byte, ok bool) {
	if pr.n%restartEvery == 0 {
		pr.length = 0
	}
	pr.n++
	shared, rest, size := pr.r.skipList(pr.length)
	if pr.r.failed || !pr.page.decodeList(pr.r.pos-size, size, l) {
		return nil, false
	}
	pr.length = shared + copy(pr.term[shared:], rest)
	return pr.term[:pr.length], true
}

// decodeList decodes the list in length bytes of the page into l, whose slices it reuses, and
// reports whether it is well formed.
func (p *Page) decodeList(begin, length int, l *List) bool {
	r := reader{data: p.data[:begin+length], pos: begin}
	flags := r.uvarint()
	*l = List{Data: p.data, Continued: flags&flagContinued != 0, Blocks: l.Blocks[:0], Bounds: l.Bounds[:0]}
	if flags&flagOne != 0 {
		slot := uint32(r.number(maxSlots))
		l.One = uint32(r.number(math.MaxUint32-1)) + 1
		l.Postings, l.Units = 1, [Zooms]uint32{1, 1, 1}
		if flags&flagTitle != 0 {
			l.Units = [Zooms]uint32{0, 0, 1}
		}
		l.Blocks = append(l.Blocks, PackedBlock{First: slot, Last: slot, Postings: 1})
		return !r.failed && r.pos == len(r.data)
	}
	if !l.Continued {
		l.Postings = uint32(r.number(maxSlots))
		for z := range l.Units {
			l.Units[z] = uint32(r.number(maxSlots))
		}
	}
	n := r.count(6)
	next := uint64(0)
	for range n {
		first := next + r.uvarint()
		b := PackedBlock{First: uint32(first), Postings: uint16(r.number(BlockSize-1)) + 1}
		span := r.uvarint()
		if first > maxSlots || span > maxSlots || first+span > maxSlots || span+1 < uint64(b.Postings) {
			return false
		}
		b.Last = uint32(first + span)
		b.deltaWidth, b.Width = uint8(r.number(32)), uint8(r.number(32))
		for z := range Zooms {
			b.Frontiers[z] = uint32(len(l.Bounds))
			for range r.number(maxFrontier) {
				l.Bounds = append(l.Bounds, Bound{uint32(r.number(math.MaxUint32)), uint32(r.number(math.MaxUint32))})
			}
		}
		b.Frontiers[Zooms] = uint32(len(l.Bounds))
		next = uint64(b.Last) + 1
		l.Blocks = append(l.Blocks, b)
	}
	if r.failed || n == 0 {
		return false
	}
	for i := range l.Blocks {
		b := &l.Blocks[i]
		b.Data = uint32(r.pos)
		r.bytes(b.Size())
	}
	return !r.failed && r.pos == len(r.data)
}

// Size returns the size of the block's data in bytes.
func (b *PackedBlock) Size() int {
	return packedBytes(int(b.Postings)-1, int(b.deltaWidth)) + packedBytes(int(b.Postings), int(b.Width))
}

// Postings is an unpacked block.
type Postings struct {
	Slots, Frequencies [BlockSize]uint32
	N                  int
}

// Read unpacks a block of the list, and reports whether it is well formed.
func (l *List) Read(b *PackedBlock, out *Postings) bool {
	if l.One != 0 {
		out.N, out.Slots[0], out.Frequencies[0] = 1, b.First, l.One
		return true
	}
	ReadFrequencies(l.Data, b, out)
	return ReadSlots(l.Data, b, out)
}

// ReadSlots unpacks the slots of a block in data, and reports whether they are well formed.
func ReadSlots(data []byte, b *PackedBlock, out *Postings) bool {
	out.N = int(b.Postings)
	return unpackSlots(out.Slots[:out.N], data[b.Data:], int(b.deltaWidth), b.First) == uint64(b.Last)
}

// ReadFrequencies unpacks the frequencies of a block in data.
func ReadFrequencies(data []byte, b *PackedBlock, out *Postings) {
	n := int(b.Postings)
	unpack(out.Frequencies[:n], data[int(b.Data)+packedBytes(n-1, int(b.deltaWidth)):], int(b.Width), 1)
}

// ReadFrequency unpacks only the frequency of the block's i-th posting.
func ReadFrequency(data []byte, b *PackedBlock, i int) uint32 {
	return unpackOne(data[int(b.Data)+packedBytes(int(b.Postings)-1, int(b.deltaWidth)):], int(b.Width), i) + 1
}
