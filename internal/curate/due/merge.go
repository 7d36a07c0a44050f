// Package due says what a collection's curation has to do: which segments of its lexical index to
// merge, how much to cluster at once, and when to cluster it again from scratch.
package due

// This file chooses which segments of the lexical index are merged: segments of about the same
// size, so that a query reads few segments and each entry is rewritten only a few times; and a
// segment much of which is dead.

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

const (
	// Segments are in tiers by size, each eight times the one below; eight segments of one tier
	// make one of the next. A merge reads a bounded number of bytes, so that it takes seconds: near
	// the bound, lastFan segments are enough.

	// MergeFan is the number of segments of one tier that are always due to be merged.
	MergeFan      = 8
	lastFan       = 4
	mergeFloor    = 128 << 10 // bytes; the lowest tier has all segments below eight times this
	maxMergeBytes = 128 << 20
	maxMergeWidth = 64
	// A segment of which more than this share is dead is rewritten.
	maxDeadShare = 0.2
)

// StoredSegment is a live segment of the lexical index.
type StoredSegment struct {
	ID                  uuid.UUID
	Documents, Passages int
	Bytes               int64
	// Header and Directory are nil until they are read.
	Header    *segment.Header
	Directory *segment.Directory
}

// MergeCandidates returns the segments whose directories have to be read to see whether too much of
// them is dead, when the collection has dead entries in all. Larger segments are left out: dead is
// at most maxDeadShare of their entries. A few long entries may be a larger share of such a
// segment's passages; that is ignored.
func MergeCandidates(live []*StoredSegment, dead int) []*StoredSegment {
	return slices.DeleteFunc(slices.Clone(live), func(g *StoredSegment) bool {
		return dead == 0 || float64(g.Documents)*maxDeadShare > float64(dead)
	})
}

// deadShare returns the share of a segment that is dead. Each entry counts as its number of
// passages plus 1.
func deadShare(d *segment.Directory, dead map[uuid.UUID]bool) float64 {
	deadWeight, all := 0, 0
	for i := range d.Len() {
		e := d.Entry(i)
		weight := e.Passages + 1
		if all += weight; dead[e.ID] {
			deadWeight += weight
		}
	}
	return float64(deadWeight) / float64(max(all, 1))
}

func tierOf(size int64) int { return max(bits.Len64(uint64(size/mergeFloor))-1, 0) / 3 }

// Merge chooses the segments to merge from live: the smallest of the lowest tier that has enough of
// them; otherwise the segment with the largest dead share, if that is above maxDeadShare. It checks
// only segments with directories for dead entries. It returns nil if nothing is due, and sorts
// live.
func Merge(live []*StoredSegment, dead map[uuid.UUID]bool) []*StoredSegment {
	slices.SortFunc(live, func(a, b *StoredSegment) int { return cmp.Compare(a.Bytes, b.Bytes) })
	tiers := map[int][]*StoredSegment{}
	var order []int
	for _, g := range live {
		t := tierOf(g.Bytes)
		if tiers[t] == nil {
			order = append(order, t)
		}
		tiers[t] = append(tiers[t], g)
	}
	for _, t := range order {
		var chosen []*StoredSegment
		var sum int64
		fan := MergeFan
		for _, g := range tiers[t] {
			if sum += g.Bytes; sum > maxMergeBytes {
				fan = lastFan
				break
			}
			if chosen = append(chosen, g); len(chosen) == maxMergeWidth {
				break
			}
		}
		if len(chosen) >= fan {
			return chosen
		}
	}
	var worst *StoredSegment
	most := maxDeadShare
	for _, g := range live {
		if g.Directory != nil {
			if share := deadShare(g.Directory, dead); share > most {
				worst, most = g, share
			}
		}
	}
	if worst == nil {
		return nil
	}
	return []*StoredSegment{worst}
}
