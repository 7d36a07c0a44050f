// Package due says what a collection's curation has to do: which segments of its lexical index are
// merged, how much is clustered at once and when all of it anew.
package due

// This file says which segments of the lexical index are merged: those of about one
// size, so that a query meets few and each entry is written again but a few times; and
// one of which much is gone.

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

const (
	// Segments are in tiers by size, each eight times the one below; eight of
	// one tier make one of the next. What a merge reads is bounded, so that it
	// takes seconds: the last merge is of fewer.

	// MergeFan segments of one tier are due for certain.
	MergeFan      = 8
	lastFan       = 4
	mergeFloor    = 128 << 10 // bytes; the lowest tier is of all below eight times this
	maxMergeBytes = 128 << 20
	maxMergeWidth = 64
	// A segment of which more than a fifth is dead is written again.
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

// MergeCandidates returns the segments whose directories tell whether too much of them is dead,
// where so many entries are dead in all: a segment with more entries can't be dead to that
// extent, or has but few, long ones that are.
func MergeCandidates(live []*StoredSegment, dead int) []*StoredSegment {
	return slices.DeleteFunc(slices.Clone(live), func(g *StoredSegment) bool {
		return dead == 0 || float64(g.Documents)*maxDeadShare > float64(dead)
	})
}

// deadShare is the share of a segment's passages that are of dead entries; of
// its entries, where they have no passages.
func deadShare(d *segment.Directory, dead map[uuid.UUID]bool) float64 {
	gone, all := 0, 0
	for i := range d.Len() {
		e := d.Entry(i)
		weight := e.Passages + 1
		if all += weight; dead[e.ID] {
			gone += weight
		}
	}
	return float64(gone) / float64(max(all, 1))
}

func tierOf(size int64) int { return max(bits.Len64(uint64(size/mergeFloor))-1, 0) / 3 }

// Merge chooses from the live segments, of which those with directories are looked at
// for dead entries: those of the lowest tier that has enough of them, smallest first; else
// the one with the most dead.
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
