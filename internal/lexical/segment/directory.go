package segment

// The directory of a segment: the meaning of the ordinals.
//
// Postings refer to slots. Each entry begins with a slot for its title, in a section of its own,
// followed by a slot for each passage of each section. So passages, sections and documents are
// ranges of slots, and a title counts for its document only. Outside this package ordinals of
// passages and sections do not count titles.

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
)

// maxSlots is the most slots of a segment, so that ordinals fit into 31 bits.
const maxSlots = math.MaxInt32

// TitleLength is the length of a title's slot and section where units are ranked by length: a title
// is not a passage or a section.
const TitleLength = math.MaxUint32

// Zoom is a unit that nests: passage, section or document.
type Zoom int

const (
	ZoomPassage Zoom = iota
	ZoomSection
	ZoomDocument
	Zooms
)

// Directory has the meaning of a segment's ordinals: its entries, their sections and their
// passages, with lengths in analysed terms. Ordinals are of the segment and count from 0; those of
// the fields include titles. A directory that was opened is immutable.
type Directory struct {
	IDs, Versions []uuid.UUID
	Titles        []uint32 // by entry
	// FirstSection has each entry's first section, which is its title's, and the end; FirstSlot has
	// each section's first slot, and the end.
	FirstSection, FirstSlot []uint32
	SlotSection, SlotEntry  []uint32
	Lengths                 [Zooms][]uint32
	byID, byVersion         uuidTable
	counts                  Counts
}

// Entry is a version as an entry of a segment.
type Entry struct {
	ID, Version                uuid.UUID
	FirstSection, FirstPassage int // ordinals in the segment
	Sections, Passages         int
	TitleTerms, DocumentTerms  int // lengths; a document's includes its title's
}

// addEntry and addSection add to a directory; finish must be called at the end.
func (d *Directory) addEntry(id, version uuid.UUID, title int) {
	d.IDs = append(d.IDs, id)
	d.Versions = append(d.Versions, version)
	d.Titles = append(d.Titles, uint32(title))
	d.FirstSection = append(d.FirstSection, uint32(len(d.FirstSlot)))
	d.counts.Entries++
	d.counts.Titles += uint64(title)
	d.openSection()
	d.addSlot(TitleLength)
	d.Lengths[ZoomSection][len(d.FirstSlot)-1] = TitleLength
	d.Lengths[ZoomDocument] = append(d.Lengths[ZoomDocument], uint32(title))
}

func (d *Directory) openSection() {
	d.FirstSlot = append(d.FirstSlot, uint32(len(d.SlotSection)))
	d.Lengths[ZoomSection] = append(d.Lengths[ZoomSection], 0)
}

func (d *Directory) addSlot(length uint32) {
	d.SlotSection = append(d.SlotSection, uint32(len(d.FirstSlot)-1))
	d.SlotEntry = append(d.SlotEntry, uint32(len(d.IDs)-1))
	d.Lengths[ZoomPassage] = append(d.Lengths[ZoomPassage], length)
}

func (d *Directory) addSection() {
	d.openSection()
	d.counts.Sections++
}

func (d *Directory) addPassage(length int) {
	d.addSlot(uint32(length))
	d.Lengths[ZoomSection][len(d.FirstSlot)-1] += uint32(length)
	d.Lengths[ZoomDocument][len(d.IDs)-1] += uint32(length)
	d.counts.Passages++
	d.counts.Body += uint64(length)
}

// finish closes the last ranges and makes the directory searchable by id.
func (d *Directory) finish() {
	d.FirstSection = append(d.FirstSection, uint32(len(d.FirstSlot)))
	d.FirstSlot = append(d.FirstSlot, uint32(len(d.SlotSection)))
	d.byID = newUUIDTable(d.IDs)
	d.byVersion = newUUIDTable(d.Versions)
}

// encode returns the directory as one stream, to be cut into pages.
func (d *Directory) encode() []byte {
	var out []byte
	for e := range d.IDs {
		out = append(out, d.IDs[e][:]...)
		out = append(out, d.Versions[e][:]...)
		out = binary.AppendUvarint(out, uint64(d.Titles[e]))
		first, end := d.FirstSection[e]+1, d.FirstSection[e+1]
		out = binary.AppendUvarint(out, uint64(end-first))
		for s := first; s < end; s++ {
			out = binary.AppendUvarint(out, uint64(d.FirstSlot[s+1]-d.FirstSlot[s]))
			for slot := d.FirstSlot[s]; slot < d.FirstSlot[s+1]; slot++ {
				out = binary.AppendUvarint(out, uint64(d.Lengths[ZoomPassage][slot]))
			}
		}
	}
	return out
}

// OpenDirectory decodes a segment's directory from the bytes of its directory pages, in the order
// of DirectoryPages.
func OpenDirectory(s *Header, pages [][]byte) (*Directory, error) {
	if len(pages) != s.directoryPages {
		return nil, fmt.Errorf("segment %s: a directory of %d pages opened with %d", s.ID, s.directoryPages, len(pages))
	}
	var stream []byte
	for i, p := range pages {
		data, err := verifyChecksum(p, "page of a directory")
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
	d, ok := decodeDirectory(stream, s.Entries)
	if !ok || d.counts != s.Counts {
		return nil, fmt.Errorf("segment %s: %w: a directory that is not the header's", s.ID, ErrCorrupt)
	}
	return d, nil
}

func decodeDirectory(stream []byte, entries int) (*Directory, bool) {
	r := reader{data: stream}
	if entries > len(stream)/34 {
		return nil, false
	}
	d := &Directory{IDs: make([]uuid.UUID, 0, entries), Versions: make([]uuid.UUID, 0, entries)}
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

// Bytes is the approximate size of the directory in memory.
func (d *Directory) Bytes() int {
	words := len(d.Titles) + len(d.FirstSection) + len(d.FirstSlot) + len(d.SlotSection) + len(d.SlotEntry) + len(d.byID) + len(d.byVersion)
	for _, l := range d.Lengths {
		words += len(l)
	}
	return 4*words + 32*len(d.IDs)
}

// Len is the number of entries.
func (d *Directory) Len() int { return len(d.IDs) }

// Entry returns the entry with an ordinal.
func (d *Directory) Entry(entry int) Entry {
	first, end := d.FirstSection[entry], d.FirstSection[entry+1]
	slot := d.FirstSlot[first]
	return Entry{
		ID: d.IDs[entry], Version: d.Versions[entry],
		FirstSection: int(first) - entry, FirstPassage: int(slot) - entry,
		Sections: int(end-first) - 1, Passages: int(d.FirstSlot[end]-slot) - 1,
		TitleTerms: int(d.Titles[entry]), DocumentTerms: int(d.Lengths[ZoomDocument][entry]),
	}
}

// EntryByID finds an entry.
func (d *Directory) EntryByID(id uuid.UUID) (entry int, ok bool) {
	d.byID.each(d.IDs, id, func(e int) { entry, ok = e, true })
	return entry, ok
}

// EntriesOf finds the entries of a version: one, or more where it was relabelled.
func (d *Directory) EntriesOf(version uuid.UUID) []int {
	return d.byVersion.positions(d.Versions, version)
}

// EntryOf returns the ordinal of the entry that a passage lies in.
func (d *Directory) EntryOf(passage int) int {
	// The slot of a passage is its ordinal plus one for each title up to its own entry's.
	return sort.Search(len(d.IDs), func(e int) bool { return int(d.FirstSlot[d.FirstSection[e+1]])-(e+1) > passage })
}

// RefOf returns the ref of a passage.
func (d *Directory) RefOf(passage int) lexical.Ref {
	return d.Ref(ZoomPassage, uint32(passage+d.EntryOf(passage)+1))
}

// Ref returns the ref of a unit.
func (d *Directory) Ref(z Zoom, unit uint32) lexical.Ref {
	switch z {
	case ZoomDocument:
		return lexical.Ref{Version: d.Versions[unit], Section: -1, Passage: -1}
	case ZoomSection:
		e := d.EntryOfSection(unit)
		return lexical.Ref{Version: d.Versions[e], Section: int(unit-d.FirstSection[e]) - 1, Passage: -1}
	}
	s, e := d.SlotSection[unit], d.SlotEntry[unit]
	return lexical.Ref{Version: d.Versions[e], Section: int(s-d.FirstSection[e]) - 1, Passage: int(unit - d.FirstSlot[s])}
}

func (d *Directory) EntryOfSection(section uint32) uint32 {
	return uint32(sort.Search(len(d.IDs), func(e int) bool { return d.FirstSection[e+1] > section }))
}

// EntryOfUnit returns the entry of a unit that has slots.
func (d *Directory) EntryOfUnit(z Zoom, unit uint32) uint32 {
	switch z {
	case ZoomDocument:
		return unit
	case ZoomSection:
		unit = d.FirstSlot[unit]
	}
	return d.SlotEntry[unit]
}

// EachEntryOf calls found with each entry of a version.
func (d *Directory) EachEntryOf(version uuid.UUID, found func(entry int)) {
	d.byVersion.each(d.Versions, version, found)
}

// PassagesOf returns the range [first, end) of the passages of an entry's section.
func (d *Directory) PassagesOf(entry, section int) (first, end int) {
	s := int(d.FirstSection[entry]) + 1 + section
	return int(d.FirstSlot[s]) - entry - 1, int(d.FirstSlot[s+1]) - entry - 1
}

// Units returns the number of units of a zoom, including titles' slots and sections.
func (d *Directory) Units(z Zoom) int { return len(d.Lengths[z]) }

// UnitOf maps slots to units; nil: a slot is the unit.
func (d *Directory) UnitOf(z Zoom) []uint32 {
	switch z {
	case ZoomSection:
		return d.SlotSection
	case ZoomDocument:
		return d.SlotEntry
	}
	return nil
}

// Slots returns the range of a unit's slots.
func (d *Directory) Slots(z Zoom, unit uint32) (first, end uint32) {
	switch z {
	case ZoomSection:
		return d.FirstSlot[unit], d.FirstSlot[unit+1]
	case ZoomDocument:
		return d.FirstSlot[d.FirstSection[unit]], d.FirstSlot[d.FirstSection[unit+1]]
	}
	return unit, unit + 1
}

// FirstUnit returns the first unit of an entry; entry may be the number of entries, for the end of
// the last one.
func (d *Directory) FirstUnit(z Zoom, entry uint32) uint32 {
	switch z {
	case ZoomSection:
		return d.FirstSection[entry]
	case ZoomPassage:
		return d.FirstSlot[d.FirstSection[entry]]
	}
	return entry
}
