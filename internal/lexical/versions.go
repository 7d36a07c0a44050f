package lexical

import (
	"bytes"
	"iter"
	"slices"

	"github.com/google/uuid"
)

// Versions is a set of versions: their sorted ids, 16 bytes each.
type Versions struct{ ids []uuid.UUID }

// VersionsOf returns a set of ids; it keeps the slice and sorts it.
func VersionsOf(ids []uuid.UUID) *Versions {
	slices.SortFunc(ids, compareIDs)
	return &Versions{slices.Compact(ids)}
}

// Len returns the number of versions.
func (v *Versions) Len() int { return len(v.ids) }

// Has reports whether a version is in the set.
func (v *Versions) Has(id uuid.UUID) bool {
	_, found := slices.BinarySearchFunc(v.ids, id, compareIDs)
	return found
}

// All returns the versions in the order of their ids.
func (v *Versions) All() iter.Seq[uuid.UUID] { return slices.Values(v.ids) }

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
