package search

// The order of units that score the same.

import (
	"bytes"
	"cmp"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
)

func compareRefs(a, b lexical.Ref) int {
	return cmp.Or(compareIDs(a.Version, b.Version), cmp.Compare(a.Section, b.Section), cmp.Compare(a.Passage, b.Passage))
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// ordered compares units with the same score.
func (s *search) ordered(a, b foundUnit) int {
	if a.segment == b.segment {
		d := s.view.Segments[a.segment].Directory
		x, y := d.EntryOfUnit(s.zoom, a.unit), d.EntryOfUnit(s.zoom, b.unit)
		if x == y {
			return cmp.Compare(a.unit, b.unit)
		}
		if c := compareIDs(d.Versions[x], d.Versions[y]); c != 0 {
			return c
		}
	}
	return compareRefs(s.ref(a), s.ref(b))
}
