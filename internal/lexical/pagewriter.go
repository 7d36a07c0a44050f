package lexical

// Writing of pages: lists of postings, whose terms come in order, become pages.

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
)

// layout says how lists are cut.
type layout struct {
	block  int // postings in a block, at most blockSize
	target int // a page is closed when it is this many bytes long
	limit  int // a list is cut rather than make a page longer
	room   int // a list is cut only where a page has this much room
}

var defaultLayout = layout{block: blockSize, target: 16 << 10, limit: 24 << 10, room: 4 << 10}

// pageWriter makes pages of lists. Its directory is complete.
type pageWriter struct {
	layout    layout
	directory *Directory
	pages     []BuiltPage

	page        []byte
	first, last string
	terms       int

	// Of the list that is being written.
	blocks  []block
	bounds  []bound
	packed  []byte
	packEnd []int                 // where each block ends in packed
	list    []byte                // what one page gets of it
	totals  [zooms][]uint32       // frequency in the whole unit, by posting
	deltas  [blockSize]uint32     // scratch
	byCount [frontierCounts]bound // scratch
}

// blockRoom is what a block takes at most, in bytes.
const blockRoom = 2*4*blockSize + 20 + 10*maxFrontier*int(zooms)

// frontierCounts is how many frequencies a frontier tells apart, the bits of a
// word; greater ones count as one.
const frontierCounts = 32

// add writes the list of a term, which is greater than the one before it. Slots
// rise.
func (w *pageWriter) add(term string, slots, frequencies []uint32) {
	if len(slots) == 1 {
		w.addOne(term, slots[0], frequencies[0])
		return
	}
	units := w.total(slots, frequencies)
	w.encodeBlocks(slots, frequencies, term[0] == 0)
	flags := uint64(0)
	for at := 0; at < len(w.blocks); {
		room := w.layout.limit - len(w.page)
		n, size := w.fit(at, room-len(term)-64)
		if at+n < len(w.blocks) && room < w.layout.room && w.terms > 0 || n == 0 && w.terms > 0 {
			w.flush()
			continue
		}
		if n == 0 {
			n, size = 1, blockRoom // a page of its own, however long
		}
		head := binary.AppendUvarint(slices.Grow(w.list[:0], size+64), flags)
		if flags == 0 {
			head = binary.AppendUvarint(head, uint64(len(slots)))
			for _, u := range units {
				head = binary.AppendUvarint(head, uint64(u))
			}
		}
		w.list = w.appendBlocks(head, at, n)
		w.put(term, w.list)
		if at += n; at < len(w.blocks) {
			w.flush()
		}
		flags = flagContinued
	}
}

func (w *pageWriter) addOne(term string, slot, frequency uint32) {
	flags := uint64(flagOne)
	d := w.directory
	if d.firstSlot[d.firstSection[d.slotEntry[slot]]] == slot {
		flags |= flagTitle
	}
	var buffer [24]byte
	out := binary.AppendUvarint(buffer[:0], flags)
	out = binary.AppendUvarint(out, uint64(slot))
	w.put(term, binary.AppendUvarint(out, uint64(frequency-1)))
}

// put writes a term and its list.
func (w *pageWriter) put(term string, list []byte) {
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
	if len(w.page) >= w.layout.target {
		w.flush()
	}
}

// flush closes the page.
func (w *pageWriter) flush() {
	if w.terms == 0 {
		return
	}
	// Terms may be pieces of a text that would be kept with them.
	page := append(w.page, make([]byte, packSlack)...)
	w.pages = append(w.pages, BuiltPage{First: strings.Clone(w.first), Last: strings.Clone(w.last), Data: seal(slices.Clip(page))})
	w.page, w.terms, w.last = make([]byte, 0, w.layout.target+w.layout.target/4), 0, ""
}

// total sums up the frequencies of units and counts the units.
func (w *pageWriter) total(slots, frequencies []uint32) (units [zooms]uint32) {
	d := w.directory
	for z := range zooms {
		unitOf := d.unitOf(z)
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
			if d.lengths[z][unit] != titleTerms {
				units[z]++
			}
		}
	}
	return units
}

// encodeBlocks cuts the list and packs its blocks.
func (w *pageWriter) encodeBlocks(slots, frequencies []uint32, boundless bool) {
	w.blocks, w.bounds, w.packed, w.packEnd = w.blocks[:0], w.bounds[:0], w.packed[:0], w.packEnd[:0]
	for at := 0; at < len(slots); at += w.layout.block {
		end := min(at+w.layout.block, len(slots))
		n := end - at
		b := block{first: slots[at], last: slots[end-1], postings: uint16(n)}
		for i := range n - 1 {
			w.deltas[i] = slots[at+i+1] - slots[at+i] - 1
		}
		b.deltaWidth = uint8(packWidth(w.deltas[:n-1]))
		w.packed = pack(w.packed, w.deltas[:n-1], int(b.deltaWidth))
		for i := range n {
			w.deltas[i] = frequencies[at+i] - 1
		}
		b.width = uint8(packWidth(w.deltas[:n]))
		w.packed = pack(w.packed, w.deltas[:n], int(b.width))
		w.packEnd = append(w.packEnd, len(w.packed))
		for z := range zooms {
			b.frontiers[z] = uint32(len(w.bounds))
			if !boundless {
				w.frontier(z, slots[at:end], w.totals[z][at:end])
			}
		}
		b.frontiers[zooms] = uint32(len(w.bounds))
		w.blocks = append(w.blocks, b)
	}
}

// frontier adds the bounds of a block: the pairs of frequency and length that
// no other pair exceeds. Whatever k1, b and the average length are, a score
// rises with the frequency and falls with the length, so one of them scores
// highest.
func (w *pageWriter) frontier(z zoom, slots, totals []uint32) {
	d := w.directory
	unitOf, lengths := d.unitOf(z), d.lengths[z]
	limit := maxFrontier
	if len(slots) < 16 {
		limit = 2
	}
	pairs := &w.byCount
	used := uint32(0) // a bit for each frequency that there is
	for i, slot := range slots {
		unit := slot
		if unitOf != nil {
			unit = unitOf[slot]
		}
		length := lengths[unit]
		if length == titleTerms {
			continue
		}
		n := min(totals[i], frontierCounts) - 1
		p := &pairs[n]
		if used&(1<<n) == 0 {
			used |= 1 << n
			*p = bound{frequency: totals[i], length: length}
			continue
		}
		p.length, p.frequency = min(p.length, length), max(p.frequency, totals[i])
	}
	begin := len(w.bounds)
	for used != 0 {
		n := bits.Len32(used) - 1
		used &^= 1 << n
		switch p := pairs[n]; {
		case len(w.bounds) > begin && p.length >= w.bounds[len(w.bounds)-1].length:
		case len(w.bounds)-begin == limit:
			// The last two become one that bounds both.
			w.bounds[len(w.bounds)-1].length = p.length
		default:
			w.bounds = append(w.bounds, p)
		}
	}
}

// fit says how many blocks from one on take at most room bytes, and how many
// bytes those take at most.
func (w *pageWriter) fit(at, room int) (n, size int) {
	for i := at; i < len(w.blocks); i++ {
		begin := 0
		if i > 0 {
			begin = w.packEnd[i-1]
		}
		b := &w.blocks[i]
		need := w.packEnd[i] - begin + 20 + 10*int(b.frontiers[zooms]-b.frontiers[0])
		if size+need > room {
			break
		}
		size += need
		n++
	}
	return n, size
}

// appendBlocks writes n blocks and their data.
func (w *pageWriter) appendBlocks(out []byte, at, n int) []byte {
	out = binary.AppendUvarint(out, uint64(n))
	next := uint32(0)
	for _, b := range w.blocks[at : at+n] {
		out = binary.AppendUvarint(out, uint64(b.first-next))
		out = binary.AppendUvarint(out, uint64(b.postings-1))
		out = binary.AppendUvarint(out, uint64(b.last-b.first))
		out = append(out, b.deltaWidth, b.width)
		for z := range zooms {
			bounds := w.bounds[b.frontiers[z]:b.frontiers[z+1]]
			out = binary.AppendUvarint(out, uint64(len(bounds)))
			for _, p := range bounds {
				out = binary.AppendUvarint(out, uint64(p.frequency))
				out = binary.AppendUvarint(out, uint64(p.length))
			}
		}
		next = b.last + 1
	}
	begin := 0
	if at > 0 {
		begin = w.packEnd[at-1]
	}
	return append(out, w.packed[begin:w.packEnd[at+n-1]]...)
}
