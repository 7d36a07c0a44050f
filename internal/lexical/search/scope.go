package search

// The scope of a search: the live entries that the groups may see, and the sections that Within
// names, as ranges to seek in.

import (
	"cmp"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

// maxGap is how many units outside the scope a range may include: reading a few is cheaper than
// seeking past them.
const maxGap = 256

// scope is the part of a segment that a search covers.
type scope struct {
	entries  Bits   // visible ones; nil: all
	within   bool   // only sections are in the scope
	sections []span // in the scope, if within is set; ascending
}

// span is a range of ordinals.
type span struct{ first, end uint32 }

// setScopes determines the scope of each segment. partial reports whether only parts of some
// documents are in the scope.
func (s *search) setScopes() (partial bool, err error) {
	v, within := s.view, s.query.Within
	visible, err := v.visible(s.cache, s.live, s.query.Groups, s.query.Versions, s.query.Filter, false)
	if err != nil {
		return false, err
	}
	for _, entries := range visible {
		s.scopes = append(s.scopes, scope{entries: entries})
	}
	if within == nil {
		return false, nil
	}
	for ref, is := range within.Sections {
		if is && ref.Passage >= 0 {
			return false, errors.New("a search within a passage")
		}
		partial = partial || is && ref.Section >= 0
	}
	partial = partial || len(within.Clusters) > 0
	var table *clusterTable
	if len(within.Clusters) > 0 {
		table = s.cache.clusterTable(v, s.live)
	}
	for i := range s.scopes {
		scope := &s.scopes[i]
		scope.narrow(v.Segments[i].Directory, within)
		if table != nil {
			scope.narrowToClusters(v.Segments[i].Directory, table, i, within.Clusters)
		}
		scope.sections = joined(scope.sections, 0)
	}
	return partial, nil
}

func (s *scope) sees(entry int) bool { return s.entries == nil || s.entries.Has(entry) }

// narrow adds the sections that within names.
func (s *scope) narrow(d *segment.Directory, within *lexical.Within) {
	s.within = true
	add := func(ref lexical.Ref) func(e int) {
		return func(e int) {
			if !s.sees(e) {
				return
			}
			first, end := d.FirstSection[e], d.FirstSection[e+1]
			switch {
			case ref.Section < 0:
				s.sections = append(s.sections, span{first, end})
			case ref.Section < int(end-first)-1:
				section := first + 1 + uint32(ref.Section)
				s.sections = append(s.sections, span{section, section + 1})
			}
		}
	}
	for ref, is := range within.Sections {
		if is {
			d.EachEntryOf(ref.Version, add(ref))
		}
	}
}

// narrowToClusters adds the sections of clusters.
func (s *scope) narrowToClusters(d *segment.Directory, t *clusterTable, segment int, clusters map[uuid.UUID]bool) {
	for e := range d.IDs {
		if !s.sees(e) {
			continue
		}
		for section := d.FirstSection[e] + 1; section < d.FirstSection[e+1]; section++ {
			if number := t.of[segment][section]; number != noCluster && clusters[t.ids[number]] {
				s.sections = append(s.sections, span{section, section + 1})
			}
		}
	}
}

// joined sorts ranges and joins those with at most gap between them.
func joined(ranges []span, gap uint32) []span {
	slices.SortFunc(ranges, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	var out []span
	for _, r := range ranges {
		if n := len(out); n > 0 && r.first <= out[n-1].end+gap {
			out[n-1].end = max(out[n-1].end, r.end)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// ranges appends the ranges of units to search to ranges. mixed reports whether they may include
// invisible units.
func (s *scope) ranges(d *segment.Directory, z segment.Zoom, ranges []span) (_ []span, mixed bool) {
	if s.within {
		for _, r := range s.sections {
			switch z {
			case segment.ZoomDocument:
				r = span{d.EntryOfSection(r.first), d.EntryOfSection(r.end-1) + 1}
			case segment.ZoomPassage:
				r = span{d.FirstSlot[r.first], d.FirstSlot[r.end]}
			}
			ranges = append(ranges, r)
		}
		return ranges, false
	}
	if s.entries == nil {
		return append(ranges, span{0, uint32(d.Units(z))}), false
	}
	n := d.Len()
	for e := s.entries.next(0, n); e < n; {
		end := s.entries.nextAbsent(e, n)
		r := span{d.FirstUnit(z, uint32(e)), d.FirstUnit(z, uint32(end))}
		if k := len(ranges); k > 0 && r.first-ranges[k-1].end <= maxGap {
			ranges[k-1].end = r.end
			mixed = true
		} else {
			ranges = append(ranges, r)
		}
		e = s.entries.next(end, n)
	}
	return ranges, mixed
}
