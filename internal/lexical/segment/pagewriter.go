package segment

// Writing of pages: encodes the posting lists of terms, which come in order, and cuts them into
// pages.

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Layout says how lists are cut into blocks and pages.
type Layout struct {
	Block  int // postings in a block, at most BlockSize
	Target int // bytes of a page at which it is closed
	Limit  int // most bytes of a page; a longer list continues on the next one
	Room   int // least free bytes of a page where a list may be cut
}

// DefaultLayout is the layout of segments that are stored.
var DefaultLayout = Layout{Block: BlockSize, Target: 16 << 10, Limit: 24 << 10, Room: 4 << 10}

// pageWriter writes lists as pages. Its directory must be finished.
type pageWriter struct {
	layout    Layout
	directory *Directory
	pages     []BuiltPage

	page        []byte
	first, last string
	terms       int

	// Of the list that is being written.
	blocks  []PackedBlock
	bounds  []Bound
	packed  []byte
	packEnd []int                 // end of each block in packed
	list    []byte                // the part for one page
	totals  [Zooms][]uint32       // by posting: the frequency in the whole unit
	deltas  [BlockSize]uint32     // scratch
	byCount [frontierCounts]Bound // scratch
}

// blockRoom is the most bytes of a block.
const blockRoom = 2*4*BlockSize + 20 + 10*maxFrontier*int(Zooms)

// frontierCounts is how many frequencies a frontier distinguishes, the bits of a word; greater ones
// are merged.
const frontierCounts = 32

// add writes the list of a term. Terms and slots must be added in ascending order.
func (w *pageWriter) add(term string, slots, frequencies []uint32) {
	if len(slots) == 1 {
		w.addSingle(term, slots[0], frequencies[0])
		return
	}
	units := w.countUnits(slots, frequencies)
	w.encodeBlocks(slots, frequencies, term[0] == 0)
	flags := uint64(0)
	for at := 0; at < len(w.blocks); {
		room := w.layout.Limit - len(w.page)
		n, size := w.fit(at, room-len(term)-64)
		if at+n < len(w.blocks) && room < w.layout.Room && w.terms > 0 || n == 0 && w.terms > 0 {
			w.flush()
			continue
		}
		if n == 0 {
			n, size = 1, blockRoom // an empty page takes a block of any size
		}
		head := binary.AppendUvarint(slices.Grow(w.list[:0], size+64), flags)
		if flags == 0 {
			head = binary.AppendUvarint(head, uint64(len(slots)))
			for _, u := range units {
				head = binary.AppendUvarint(head, uint64(u))
			}
		}
		w.list = w.appendBlocks(head, at, n)
		w.writeList(term, w.list)
		if at += n; at < len(w.blocks) {
			w.flush()
		}
		flags = flagContinued
	}
}

func (w *pageWriter) addSingle(term string, slot, frequency uint32) {
	flags := uint64(flagOne)
	d := w.directory
	if d.FirstSlot[d.FirstSection[d.SlotEntry[slot]]] == slot {
		flags |= flagTitle
	}
	var buffer [24]byte
	out := binary.AppendUvarint(buffer[:0], flags)
	out = binary.AppendUvarint(out, uint64(slot))
	w.writeList(term, binary.AppendUvarint(out, uint64(frequency-1)))
}

// writeList writes a term and its encoded list to the page.
func (w *pageWriter) writeList(term string, list []byte) {
	if w.terms == 0 {
		w.page = append(w.page, kindTerms)
		w.first = term
	}
	before := w.last
	if w.terms%restartEvery == 0 {
		before = ""
	}
	w.page = appendTerm(w.page, before, term)
	w.page = binary.AppendUvarint(w.page, uint64(len(list)))
	w.page = append(w.page, list...)
	w.last = term
	w.terms++
	if len(w.page) >= w.layout.Target {
		w.flush()
	}
}

// flush ends the page.
func (w *pageWriter) flush() {
	if w.terms == 0 {
		return
	}
	// Cloned, because terms may be substrings of a large text.
	page := append(w.page, make([]byte, Slack)...)
	w.pages = append(w.pages, BuiltPage{First: strings.Clone(w.first), Last: strings.Clone(w.last), Data: appendChecksum(slices.Clip(page))})
	w.page, w.terms, w.last = make([]byte, 0, w.layout.Target+w.layout.Target/4), 0, ""
}

// finish writes the last page, the directory and the header.
func (w *pageWriter) finish(id uuid.UUID) Built {
	w.flush()
	c := w.directory.counts
	stream := w.directory.encode()
	var directory []BuiltPage
	for number := 0; len(stream) > 0; number++ {
		n := min(len(stream), w.layout.Target)
		page := binary.AppendUvarint([]byte{kindDirectory}, uint64(number))
		directory = append(directory, BuiltPage{Data: appendChecksum(append(page, stream[:n]...))})
		stream = stream[n:]
	}
	built := Built{ID: id, Header: encodeHeader(c, len(directory), w.pages), Documents: c.Entries, Passages: c.Passages}
	built.Pages = append(directory, w.pages...)
	built.Bytes = int64(len(built.Header))
	for _, p := range built.Pages {
		built.Bytes += int64(len(p.Data))
	}
	return built
}

// countUnits fills totals with the frequencies of whole units, and counts the units by zoom.
func (w *pageWriter) countUnits(slots, frequencies []uint32) (units [Zooms]uint32) {
	d := w.directory
	for z := range Zooms {
		unitOf := d.UnitOf(z)
		totals := slices.Grow(w.totals[z][:0], len(slots))[:len(slots)]
		w.totals[z] = totals
		for i := 0; i < len(slots); {
			unit, sum, end := slots[i], frequencies[i], i+1
			if unitOf != nil {
				unit = unitOf[unit]
				for end < len(slots) && unitOf[slots[end]] == unit {
					sum += frequencies[end]
					end++
				}
			}
			for ; i < end; i++ {
				totals[i] = sum
			}
			if d.Lengths[z][unit] != TitleLength {
				units[z]++
			}
		}
	}
	return units
}

// encodeBlocks cuts the list into blocks and packs them.
func (w *pageWriter) encodeBlocks(slots, frequencies []uint32, noBounds bool) {
	w.blocks, w.bounds, w.packed, w.packEnd = w.blocks[:0], w.bounds[:0], w.packed[:0], w.packEnd[:0]
	for at := 0; at < len(slots); at += w.layout.Block {
		end := min(at+w.layout.Block, len(slots))
		n := end - at
		b := PackedBlock{First: slots[at], Last: slots[end-1], Postings: uint16(n)}
		for i := range n - 1 {
			w.deltas[i] = slots[at+i+1] - slots[at+i] - 1
		}
		b.deltaWidth = uint8(packWidth(w.deltas[:n-1]))
		w.packed = pack(w.packed, w.deltas[:n-1], int(b.deltaWidth))
		for i := range n {
			w.deltas[i] = frequencies[at+i] - 1
		}
		b.Width = uint8(packWidth(w.deltas[:n]))
		w.packed = pack(w.packed, w.deltas[:n], int(b.Width))
		w.packEnd = append(w.packEnd, len(w.packed))
		for z := range Zooms {
			b.Frontiers[z] = uint32(len(w.bounds))
			if !noBounds {
				w.frontier(z, slots[at:end], w.totals[z][at:end])
			}
		}
		b.Frontiers[Zooms] = uint32(len(w.bounds))
		w.blocks = append(w.blocks, b)
	}
}

// frontier adds the bounds of a block: its Pareto frontier of frequency and length. Whatever k1, b
// and the average length are, a BM25 score rises with the frequency and falls with the length, so
// that a pair of the frontier scores highest.
func (w *pageWriter) frontier(z Zoom, slots, totals []uint32) {
	d := w.directory
	unitOf, lengths := d.UnitOf(z), d.Lengths[z]
	limit := maxFrontier
	if len(slots) < 16 {
		limit = 2
	}
	pairs := &w.byCount
	used := uint32(0) // a bit for each frequency that occurs
	for i, slot := range slots {
		unit := slot
		if unitOf != nil {
			unit = unitOf[slot]
		}
		length := lengths[unit]
		if length == TitleLength {
			continue
		}
		n := min(totals[i], frontierCounts) - 1
		p := &pairs[n]
		if used&(1<<n) == 0 {
			used |= 1 << n
			*p = Bound{Frequency: totals[i], Length: length}
			continue
		}
		p.Length, p.Frequency = min(p.Length, length), max(p.Frequency, totals[i])
	}
	begin := len(w.bounds)
	for used != 0 {
		n := bits.Len32(used) - 1
		used &^= 1 << n
		switch p := pairs[n]; {
		case len(w.bounds) > begin && p.Length >= w.bounds[len(w.bounds)-1].Length:
		case len(w.bounds)-begin == limit:
			// The last bound is merged with this one.
			w.bounds[len(w.bounds)-1].Length = p.Length
		default:
			w.bounds = append(w.bounds, p)
		}
	}
}

// fit returns how many blocks, beginning with the at-th, fit into room bytes, and an upper bound of
// their size.
func (w *pageWriter) fit(at, room int) (n, size int) {
	for i := at; i < len(w.blocks); i++ {
		begin := 0
		if i > 0 {
			begin = w.packEnd[i-1]
		}
		b := &w.blocks[i]
		need := w.packEnd[i] - begin + 20 + 10*int(b.Frontiers[Zooms]-b.Frontiers[0])
		if size+need > room {
			break
		}
		size += need
		n++
	}
	return n, size
}

// appendBlocks appends n blocks, beginning with the at-th, and their data.
func (w *pageWriter) appendBlocks(out []byte, at, n int) []byte {
	out = binary.AppendUvarint(out, uint64(n))
	next := uint32(0)
	for _, b := range w.blocks[at : at+n] {
		out = binary.AppendUvarint(out, uint64(b.First-next))
		out = binary.AppendUvarint(out, uint64(b.Postings-1))
		out = binary.AppendUvarint(out, uint64(b.Last-b.First))
		out = append(out, b.deltaWidth, b.Width)
		for z := range Zooms {
			bounds := w.bounds[b.Frontiers[z]:b.Frontiers[z+1]]
			out = binary.AppendUvarint(out, uint64(len(bounds)))
			for _, p := range bounds {
				out = binary.AppendUvarint(out, uint64(p.Frequency))
				out = binary.AppendUvarint(out, uint64(p.Length))
			}
		}
		next = b.Last + 1
	}
	begin := 0
	if at > 0 {
		begin = w.packEnd[at-1]
	}
	return append(out, w.packed[begin:w.packEnd[at+n-1]]...)
}
