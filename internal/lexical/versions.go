package lexical

import (
	"bytes"
	"iter"
	"slices"

	"github.com/google/uuid"
)

// Versions is a set of versions: their ids in order, 16 bytes each.
type Versions struct{ ids []uuid.UUID }

// VersionsOf makes a set of ids, which it keeps and sorts.
func VersionsOf(ids []uuid.UUID) *Versions {
	slices.SortFunc(ids, compareIDs)
	return &Versions{slices.Compact(ids)}
}

// Len is how many there are.
func (v *Versions) Len() int { return len(v.ids) }

// Has reports whether a version is in the set.
func (v *Versions) Has(id uuid.UUID) bool {
	_, found := slices.BinarySearchFunc(v.ids, id, compareIDs)
	return found
}

// All are the versions, in the order of their ids.
func (v *Versions) All() iter.Seq[uuid.UUID] { return slices.Values(v.ids) }

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
