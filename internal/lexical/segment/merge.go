package segment

import (
	"bytes"
	"fmt"
	"math"

	"github.com/google/uuid"
)

// MergeInput is a segment to merge. Page loads a page of terms; a merge calls it once for each
// page, in their order.
type MergeInput struct {
	Header    *Header
	Directory *Directory
	Page      func(number int) (*Page, error)
}

// Merge makes one segment of several, without the dead entries. A search of it finds what a search
// of the inputs finds. It needs memory for the output and one page of each input.
func Merge(id uuid.UUID, inputs []MergeInput, dead map[uuid.UUID]bool) (Built, error) {
	return DefaultLayout.Merge(id, inputs, dead)
}

// Merge makes one segment of several in a layout.
func (layout Layout) Merge(id uuid.UUID, inputs []MergeInput, dead map[uuid.UUID]bool) (Built, error) {
	built, err := layout.merge(id, inputs, dead)
	if err != nil {
		return Built{}, fmt.Errorf("merging %d segments into %s: %w", len(inputs), id, err)
	}
	return built, nil
}

func (layout Layout) merge(id uuid.UUID, inputs []MergeInput, dead map[uuid.UUID]bool) (Built, error) {
	var directory Directory
	sources := make([]mergeSource, len(inputs))
	for i, in := range inputs {
		sources[i] = mergeSource{in: in, number: in.Header.directoryPages, shifts: directory.appendLive(in.Directory, dead)}
		if len(directory.SlotSection) > maxSlots {
			return Built{}, fmt.Errorf("more than %d terms or passages", maxSlots)
		}
	}
	directory.finish()
	if entry, found := directory.byID.duplicate(directory.IDs); found {
		return Built{}, fmt.Errorf("duplicate entry %s", directory.IDs[entry])
	}
	for i := range sources {
		if err := sources[i].next(); err != nil {
			return Built{}, err
		}
	}
	w := pageWriter{layout: layout, directory: &directory}
	var list postingList
	var term []byte
	for {
		term = term[:0]
		for i := range sources {
			if s := &sources[i]; !s.done && (len(term) == 0 || bytes.Compare(s.term, term) < 0) {
				term = append(term[:0], s.term...)
			}
		}
		if len(term) == 0 {
			return w.finish(id), nil
		}
		list.slots, list.frequencies = list.slots[:0], list.frequencies[:0]
		for i := range sources {
			for s := &sources[i]; !s.done && bytes.Equal(s.term, term); {
				if err := s.appendTo(&list); err != nil {
					return Built{}, err
				}
				if err := s.next(); err != nil {
					return Built{}, err
				}
			}
		}
		if len(list.slots) > 0 {
			w.add(string(term), list.slots, list.frequencies)
		}
	}
}

// deletedEntry is the shift of a dead entry.
const deletedEntry = math.MinInt64

// appendLive appends the live entries of another directory. It returns by how much the slots of
// each entry are shifted.
func (d *Directory) appendLive(from *Directory, dead map[uuid.UUID]bool) (moves []int64) {
	moves = make([]int64, from.Len())
	for e, id := range from.IDs {
		if dead[id] {
			moves[e] = deletedEntry
			continue
		}
		first, end := from.FirstSection[e], from.FirstSection[e+1]
		moves[e] = int64(len(d.SlotSection)) - int64(from.FirstSlot[first])
		d.addEntry(id, from.Versions[e], int(from.Titles[e]))
		for s := first + 1; s < end; s++ {
			d.addSection()
			for slot := from.FirstSlot[s]; slot < from.FirstSlot[s+1]; slot++ {
				d.addPassage(int(from.Lengths[ZoomPassage][slot]))
			}
		}
	}
	return moves
}

// mergeSource reads the posting lists of an input in the order of terms.
type mergeSource struct {
	in     MergeInput
	shifts []int64 // by entry
	number int     // of the next page
	page   *Page
	at     pageReader
	term   []byte
	list   List
	block  Postings
	done   bool
}

// next moves to the next list.
func (s *mergeSource) next() error {
	for s.page == nil || s.at.atEnd() {
		if s.number == s.in.Header.PageCount() {
			s.done, s.page = true, nil
			return nil
		}
		page, err := s.in.Page(s.number)
		if err != nil {
			return fmt.Errorf("reading page %d of segment %s: %w", s.number, s.in.Header.ID, err)
		}
		s.page, s.at = page, page.reader()
		s.number++
	}
	term, ok := s.at.next(&s.list)
	if !ok || int(s.list.Blocks[len(s.list.Blocks)-1].Last) >= s.in.Header.Slots() {
		return fmt.Errorf("page %d of segment %s: %w: a list with slots beyond the segment", s.number-1, s.in.Header.ID, ErrCorrupt)
	}
	s.term = append(s.term[:0], term...)
	return nil
}

// appendTo appends the live postings of the current list to another list.
func (s *mergeSource) appendTo(to *postingList) error {
	entries := s.in.Directory.SlotEntry
	for i := range s.list.Blocks {
		if !s.list.Read(&s.list.Blocks[i], &s.block) {
			return fmt.Errorf("page %d of segment %s: %w: a block of postings", s.number-1, s.in.Header.ID, ErrCorrupt)
		}
		for j, slot := range s.block.Slots[:s.block.N] {
			if shift := s.shifts[entries[slot]]; shift != deletedEntry {
				to.slots = append(to.slots, uint32(int64(slot)+shift))
				to.frequencies = append(to.frequencies, s.block.Frequencies[j])
			}
		}
	}
	return nil
}
