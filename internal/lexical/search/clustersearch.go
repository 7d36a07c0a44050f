package search

// The search of clusters. A cluster's sections are scattered, so its frequency of a term is a sum
// over all postings of the term; the summing also counts the clusters that have the term. A table
// caches the sums.

import (
	"slices"
	"sync"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

// clusterPosting is a cluster's frequency of a term. The frequency is zero if none of the sections
// in the search has the term.
type clusterPosting struct{ number, frequency uint32 }

// clusterScratch is the scratch space of a search of clusters. It is indexed by cluster and zero
// outside a search.
type clusterScratch struct {
	totals      []score
	frequencies []uint32
	postings    []clusterPosting
}

var scratchPool = sync.Pool{New: func() any { return new(clusterScratch) }}

// clusters searches clusters.
func (s *search) clusters(settings lexical.Settings) error {
	table := s.cache.clusterTable(s.view, s.live)
	units := len(table.ids)
	st := lexical.Statistics{Units: units, DF: make(map[string]int, len(s.terms))}
	if units > 0 {
		st.Average = float64(table.total) / float64(units)
	}
	s.scorer = newScorer(settings, st.Average)
	counted, lengths := s.counted(table)
	scratch := scratchPool.Get().(*clusterScratch)
	defer scratchPool.Put(scratch)
	highest := score(0)
	scratch.totals = slices.Grow(scratch.totals[:0], units)[:units]
	clear(scratch.totals)
	for i := range s.terms {
		t := &s.terms[i]
		list, err := s.clusterPostings(table, i, counted, scratch)
		if err != nil {
			return err
		}
		st.DF[t.term] = len(list)
		t.weight = weightOf(settings, units, len(list), t.times)
		highest += s.scorer.limit(t.weight)
		for _, p := range list {
			if p.frequency > 0 {
				scratch.totals[p.number] += s.scorer.score(t.weight, p.frequency, uint32(lengths[p.number]))
			}
		}
	}
	s.result.Statistics = st
	s.top.reset(max(s.query.K, 0), highest)
	s.top.ordered = func(a, b foundUnit) int { return compareIDs(table.ids[a.unit], table.ids[b.unit]) }
	for number, total := range scratch.totals {
		if total > 0 {
			s.result.Scored++
			if total >= s.top.threshold {
				s.top.add(foundUnit{score: total, unit: uint32(number)})
			}
		}
	}
	s.top.sort()
	s.result.Hits = slices.Grow(s.result.Hits, len(s.top.units))
	for _, p := range s.top.units {
		s.result.Hits = append(s.result.Hits, lexical.Hit{
			Cluster: table.ids[p.unit], Score: p.score.float(), Tokens: int(lengths[p.unit]),
		})
	}
	return nil
}

// clusterPostings returns the clusters with a term; the slice may be in room. Those of a search of
// all live sections are cached.
func (s *search) clusterPostings(table *clusterTable, term int, counted []Bits, scratch *clusterScratch) ([]clusterPosting, error) {
	t := &s.terms[term]
	if counted == nil {
		if list, ok := s.cache.clusterPostings(table, t.term); ok {
			return list, nil
		}
	}
	list, err := s.sumClusters(table, term, counted, scratch)
	if err == nil && counted == nil {
		s.cache.keepClusterPostings(table, t.term, slices.Clone(list))
	}
	return list, err
}

// sumClusters sums a term's postings by cluster.
func (s *search) sumClusters(table *clusterTable, term int, counted []Bits, scratch *clusterScratch) ([]clusterPosting, error) {
	if err := s.cache.setLists(s.view, s.live, s.terms[term:term+1]); err != nil {
		return nil, err
	}
	t := &s.terms[term]
	scratch.frequencies = slices.Grow(scratch.frequencies[:0], len(table.ids))[:len(table.ids)]
	frequencies, list := scratch.frequencies, scratch.postings[:0]
	clear(frequencies)
	c := cursors.Get().(*cursor)
	defer c.release()
	// One more than the frequency; zero means that the term did not occur.
	for segment := range t.lists.lists {
		view := &s.view.Segments[segment]
		if found, err := c.open(view, segment, t); err != nil {
			return nil, err
		} else if !found {
			continue
		}
		section, of := view.Directory.SlotSection, table.of[segment]
		for c.at < len(c.blocks) && c.unpack() {
			p := &c.buffer
			for j, slot := range p.Slots[:p.N] {
				number := of[section[slot]]
				if number == noCluster {
					continue
				}
				if frequencies[number] == 0 {
					frequencies[number] = 1
					list = append(list, clusterPosting{number: number})
				}
				if counted == nil || counted[segment].Has(int(section[slot])) {
					frequencies[number] += p.Frequencies[j]
				}
			}
			c.nextBlock()
		}
		if c.corrupt {
			return nil, corruptBlock(view)
		}
	}
	for i := range list {
		list[i].frequency = frequencies[list[i].number] - 1
	}
	scratch.postings = list
	return list, nil
}

// counted returns the sections in the search, by segment, nil if they are all live ones, and the
// lengths of clusters in these sections.
func (s *search) counted(t *clusterTable) (sections []Bits, lengths []uint64) {
	all := true
	for i, scope := range s.scopes {
		if scope.within || scope.entries != nil && (s.live.live[i] == nil || &scope.entries[0] != &s.live.live[i][0]) {
			all = false
		}
	}
	if all {
		return nil, t.lengths
	}
	sections = make([]Bits, len(s.scopes))
	lengths = make([]uint64, len(t.ids))
	for i := range s.scopes {
		d := s.view.Segments[i].Directory
		sections[i] = make(Bits, (d.Units(segment.ZoomSection)+63)/64)
		ranges := s.scopes[i].sections
		if !s.scopes[i].within {
			ranges = s.scopes[i].visibleSections(d)
		}
		for _, r := range ranges {
			for section := r.first; section < r.end; section++ {
				if number := t.of[i][section]; number != noCluster {
					sections[i].add(int(section))
					lengths[number] += uint64(d.Lengths[segment.ZoomSection][section])
				}
			}
		}
	}
	return sections, lengths
}

// visibleSections lists the sections of visible entries.
func (s *scope) visibleSections(d *segment.Directory) []span {
	if s.entries == nil {
		return []span{{0, uint32(d.Units(segment.ZoomSection))}}
	}
	var ranges []span
	n := d.Len()
	for e := s.entries.next(0, n); e < n; {
		end := s.entries.nextAbsent(e, n)
		ranges = append(ranges, span{d.FirstSection[e], d.FirstSection[end]})
		e = s.entries.next(end, n)
	}
	return ranges
}
