package lexical

// The directory of a segment: what the ordinals mean.
//
// Postings count slots. Each entry begins with a slot for its title, in a
// section that has nothing else, and goes on with a slot for each passage of
// each section; so passages, sections and documents are ranges of slots, and a
// title counts for its document alone. Outside this package ordinals of
// passages and sections leave the titles out.

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"github.com/google/uuid"
)

// maxSlots bounds what a segment holds, so that ordinals fit 31 bits.
const maxSlots = math.MaxInt32

// titleTerms is the length of a title's slot and section, where a length ranks
// text: a title is no passage and no section.
const titleTerms = math.MaxUint32

// zoom is a unit that nests: passage, section or document.
type zoom int

const (
	zoomPassage zoom = iota
	zoomSection
	zoomDocument
	zooms
)

// Directory says what a segment's ordinals mean: its entries, their sections
// and their passages, with lengths in analysed terms. Ordinals are of the
// segment and count from 0.
type Directory struct {
	ids, versions []uuid.UUID
	titles        []uint32 // by entry
	// firstSection is each entry's first section, its title's, and one more;
	// firstSlot each section's first slot, and one more.
	firstSection, firstSlot []uint32
	slotSection, slotEntry  []uint32
	lengths                 [zooms][]uint32
	byID, byVersion         uuidTable
	counts                  segmentCounts
}

// Entry is a version's place in a segment.
type Entry struct {
	ID, Version                uuid.UUID
	FirstSection, FirstPassage int // ordinals in the segment
	Sections, Passages         int
	TitleTerms, DocumentTerms  int // lengths; a document's has its title's in it
}

// addEntry and addSection grow a directory; both are followed by finish.
func (d *Directory) addEntry(id, version uuid.UUID, title int) {
	d.ids = append(d.ids, id)
	d.versions = append(d.versions, version)
	d.titles = append(d.titles, uint32(title))
	d.firstSection = append(d.firstSection, uint32(len(d.firstSlot)))
	d.counts.entries++
	d.counts.titles += uint64(title)
	d.openSection()
	d.addSlot(titleTerms)
	d.lengths[zoomSection][len(d.firstSlot)-1] = titleTerms
	d.lengths[zoomDocument] = append(d.lengths[zoomDocument], uint32(title))
}

func (d *Directory) openSection() {
	d.firstSlot = append(d.firstSlot, uint32(len(d.slotSection)))
	d.lengths[zoomSection] = append(d.lengths[zoomSection], 0)
}

func (d *Directory) addSlot(length uint32) {
	d.slotSection = append(d.slotSection, uint32(len(d.firstSlot)-1))
	d.slotEntry = append(d.slotEntry, uint32(len(d.ids)-1))
	d.lengths[zoomPassage] = append(d.lengths[zoomPassage], length)
}

func (d *Directory) addSection() {
	d.openSection()
	d.counts.sections++
}

func (d *Directory) addPassage(length int) {
	d.addSlot(uint32(length))
	d.lengths[zoomSection][len(d.firstSlot)-1] += uint32(length)
	d.lengths[zoomDocument][len(d.ids)-1] += uint32(length)
	d.counts.passages++
	d.counts.body += uint64(length)
}

// finish closes the last ranges and makes the directory searchable by id.
func (d *Directory) finish() {
	d.firstSection = append(d.firstSection, uint32(len(d.firstSlot)))
	d.firstSlot = append(d.firstSlot, uint32(len(d.slotSection)))
	d.byID = newUUIDTable(d.ids)
	d.byVersion = newUUIDTable(d.versions)
}

// encode writes the directory as one stream, to be cut into pages.
func (d *Directory) encode() []byte {
	var out []byte
	for e := range d.ids {
		out = append(out, d.ids[e][:]...)
		out = append(out, d.versions[e][:]...)
		out = binary.AppendUvarint(out, uint64(d.titles[e]))
		first, end := d.firstSection[e]+1, d.firstSection[e+1]
		out = binary.AppendUvarint(out, uint64(end-first))
		for s := first; s < end; s++ {
			out = binary.AppendUvarint(out, uint64(d.firstSlot[s+1]-d.firstSlot[s]))
			for slot := d.firstSlot[s]; slot < d.firstSlot[s+1]; slot++ {
				out = binary.AppendUvarint(out, uint64(d.lengths[zoomPassage][slot]))
			}
		}
	}
	return out
}

// OpenDirectory reads a segment's directory from the bytes of its directory
// pages, in the order of DirectoryPages.
func OpenDirectory(s *Segment, pages [][]byte) (*Directory, error) {
	if len(pages) != s.directoryPages {
		return nil, fmt.Errorf("segment %s: a directory of %d pages opened with %d", s.ID, s.directoryPages, len(pages))
	}
	var stream []byte
	for i, p := range pages {
		data, err := unseal(p, "page of a directory")
		if err != nil {
			return nil, fmt.Errorf("segment %s page %d: %w", s.ID, i, err)
		}
		r := reader{data: data}
		kind, number := r.uvarint(), r.uvarint()
		if r.failed || kind != kindDirectory || number != uint64(i) {
			return nil, fmt.Errorf("segment %s page %d: %w: not this page of a directory", s.ID, i, ErrCorrupt)
		}
		stream = append(stream, data[r.pos:]...)
	}
	d, ok := decodeDirectory(stream, s.entries)
	if !ok || d.counts != s.segmentCounts {
		return nil, fmt.Errorf("segment %s: %w: a directory that is not the header's", s.ID, ErrCorrupt)
	}
	return d, nil
}

func decodeDirectory(stream []byte, entries int) (*Directory, bool) {
	r := reader{data: stream}
	if entries > len(stream)/34 {
		return nil, false
	}
	d := &Directory{ids: make([]uuid.UUID, 0, entries), versions: make([]uuid.UUID, 0, entries)}
	for range entries {
		var id, version uuid.UUID
		copy(id[:], r.bytes(16))
		copy(version[:], r.bytes(16))
		title := r.number(maxSlots)
		sections := r.count(1)
		d.addEntry(id, version, title)
		total := uint64(title)
		for range sections {
			d.addSection()
			for range r.count(1) {
				length := r.number(maxSlots)
				if total += uint64(length); total > maxSlots {
					r.fail()
				}
				d.addPassage(length)
			}
		}
		if r.failed {
			return nil, false
		}
	}
	d.finish()
	return d, r.pos == len(stream)
}

// Bytes is about what the directory takes in memory.
func (d *Directory) Bytes() int {
	words := len(d.titles) + len(d.firstSection) + len(d.firstSlot) + len(d.slotSection) + len(d.slotEntry) + len(d.byID) + len(d.byVersion)
	for _, l := range d.lengths {
		words += len(l)
	}
	return 4*words + 32*len(d.ids)
}

// Len is the number of entries.
func (d *Directory) Len() int { return len(d.ids) }

// Entry returns the entry with an ordinal.
func (d *Directory) Entry(entry int) Entry {
	first, end := d.firstSection[entry], d.firstSection[entry+1]
	slot := d.firstSlot[first]
	return Entry{
		ID: d.ids[entry], Version: d.versions[entry],
		FirstSection: int(first) - entry, FirstPassage: int(slot) - entry,
		Sections: int(end-first) - 1, Passages: int(d.firstSlot[end]-slot) - 1,
		TitleTerms: int(d.titles[entry]), DocumentTerms: int(d.lengths[zoomDocument][entry]),
	}
}

// EntryByID finds an entry.
func (d *Directory) EntryByID(id uuid.UUID) (entry int, ok bool) {
	d.byID.each(d.ids, id, func(e int) { entry, ok = e, true })
	return entry, ok
}

// EntriesOf finds the entries of a version: one, or more where it was relabelled.
func (d *Directory) EntriesOf(version uuid.UUID) []int {
	return d.byVersion.places(d.versions, version)
}

// EntryOf returns the ordinal of the entry that a passage lies in.
func (d *Directory) EntryOf(passage int) int {
	// The slot of a passage is its ordinal and one for each title up to its own.
	return sort.Search(len(d.ids), func(e int) bool { return int(d.firstSlot[d.firstSection[e+1]])-(e+1) > passage })
}

// RefOf names a passage.
func (d *Directory) RefOf(passage int) Ref {
	return d.ref(zoomPassage, uint32(passage+d.EntryOf(passage)+1))
}

// ref names a unit.
func (d *Directory) ref(z zoom, unit uint32) Ref {
	switch z {
	case zoomDocument:
		return Ref{Version: d.versions[unit], Section: -1, Passage: -1}
	case zoomSection:
		e := d.sectionEntry(unit)
		return Ref{Version: d.versions[e], Section: int(unit-d.firstSection[e]) - 1, Passage: -1}
	}
	s, e := d.slotSection[unit], d.slotEntry[unit]
	return Ref{Version: d.versions[e], Section: int(s-d.firstSection[e]) - 1, Passage: int(unit - d.firstSlot[s])}
}

func (d *Directory) sectionEntry(section uint32) uint32 {
	return uint32(sort.Search(len(d.ids), func(e int) bool { return d.firstSection[e+1] > section }))
}

// entryOf is the entry of a unit that has slots.
func (d *Directory) entryOf(z zoom, unit uint32) uint32 {
	switch z {
	case zoomDocument:
		return unit
	case zoomSection:
		unit = d.firstSlot[unit]
	}
	return d.slotEntry[unit]
}

// EachEntryOf calls found with each entry of a version.
func (d *Directory) EachEntryOf(version uuid.UUID, found func(entry int)) {
	d.byVersion.each(d.versions, version, found)
}

// PassagesOf is the range [first, end) of an entry's section's passages.
func (d *Directory) PassagesOf(entry, section int) (first, end int) {
	s := int(d.firstSection[entry]) + 1 + section
	return int(d.firstSlot[s]) - entry - 1, int(d.firstSlot[s+1]) - entry - 1
}

// units is the number of units of a zoom, titles' slots and sections too.
func (d *Directory) units(z zoom) int { return len(d.lengths[z]) }

// unitOf maps slots to units; nil: a slot is the unit.
func (d *Directory) unitOf(z zoom) []uint32 {
	switch z {
	case zoomSection:
		return d.slotSection
	case zoomDocument:
		return d.slotEntry
	}
	return nil
}

// slotRange is the range of a unit's slots.
func (d *Directory) slotRange(z zoom, unit uint32) (first, end uint32) {
	switch z {
	case zoomSection:
		return d.firstSlot[unit], d.firstSlot[unit+1]
	case zoomDocument:
		return d.firstSlot[d.firstSection[unit]], d.firstSlot[d.firstSection[unit+1]]
	}
	return unit, unit + 1
}

// firstUnit is the unit that a zoom's range of entry begins with; it may be asked of one entry more than there are.
func (d *Directory) firstUnit(z zoom, entry uint32) uint32 {
	switch z {
	case zoomSection:
		return d.firstSection[entry]
	case zoomPassage:
		return d.firstSlot[d.firstSection[entry]]
	}
	return entry
}
