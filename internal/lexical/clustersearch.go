package lexical

// The search of clusters: a cluster's sections are scattered, so its
// frequencies are summed up over all postings of a term, which also counts the
// clusters that have it.

import "fmt"

// clusters searches clusters.
func (s *search) clusters(settings Settings) error {
	table := s.cache.clusterTable(s.view, s.life)
	units := len(table.ids)
	st := Statistics{Units: units, DF: make(map[string]int, len(s.terms))}
	if units > 0 {
		st.Average = float64(table.total) / float64(units)
	}
	s.scorer = newScorer(settings, st.Average)
	counted, lengths := s.counted(table)
	totals := make([]score, units)
	frequencies := make([]uint32, units)
	has := make([]uint32, units) // the last term, from 1, that the cluster has
	var found []uint32
	for i := range s.terms {
		t := &s.terms[i]
		df := 0
		found = found[:0]
		for segment, c := range t.cursors {
			if c == nil {
				continue
			}
			d, of := s.view.Segments[segment].Directory, table.of[segment]
			for c.block() != nil && c.unpack() {
				p := &c.buffer
				for j, slot := range p.slots[:p.n] {
					section := d.slotSection[slot]
					number := of[section]
					if number == noCluster {
						continue
					}
					if has[number] != uint32(i+1) {
						has[number] = uint32(i + 1)
						df++
						frequencies[number] = 0
						found = append(found, number)
					}
					if counted == nil || counted[segment].Has(int(section)) {
						frequencies[number] += p.frequencies[j]
					}
				}
				c.nextBlock()
			}
			if c.corrupt {
				return fmt.Errorf("segment %s: %w: a block of postings", s.view.Segments[segment].ID, ErrCorrupt)
			}
		}
		st.DF[t.term] = df
		t.weight = weightOf(settings, units, df, t.times)
		for _, number := range found {
			if f := frequencies[number]; f > 0 {
				totals[number] += s.scorer.score(t.weight, f, uint32(lengths[number]))
			}
		}
	}
	s.result.Statistics = st
	s.top.ordered = func(a, b place) int { return compareIDs(table.ids[a.unit], table.ids[b.unit]) }
	for number, total := range totals {
		if total > 0 {
			s.result.Scored++
			if total >= s.top.least() {
				s.top.offer(place{score: total, unit: uint32(number)})
			}
		}
	}
	for _, p := range s.top.sorted() {
		s.result.Hits = append(s.result.Hits, Hit{
			Cluster: table.ids[p.unit], Score: p.score.float(), Tokens: int(lengths[p.unit]),
		})
	}
	return nil
}

// counted returns the sections that count, by segment, nil when all living ones
// do, and the lengths of clusters in them.
func (s *search) counted(t *clusterTable) (sections []Bits, lengths []uint64) {
	all := true
	for i, scope := range s.scopes {
		if scope.within || scope.entries != nil && (s.life.living[i] == nil || &scope.entries[0] != &s.life.living[i][0]) {
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
		sections[i] = make(Bits, (d.units(zoomSection)+63)/64)
		ranges := s.scopes[i].sections
		if !s.scopes[i].within {
			ranges = s.scopes[i].visibleSections(d)
		}
		for _, r := range ranges {
			for section := r.first; section < r.end; section++ {
				if number := t.of[i][section]; number != noCluster {
					sections[i].add(int(section))
					lengths[number] += uint64(d.lengths[zoomSection][section])
				}
			}
		}
	}
	return sections, lengths
}

// visibleSections lists the sections of visible entries.
func (s *scope) visibleSections(d *Directory) []span {
	if s.entries == nil {
		return []span{{0, uint32(d.units(zoomSection))}}
	}
	var ranges []span
	n := d.Len()
	for e := s.entries.next(0, n); e < n; {
		end := s.entries.nextAbsent(e, n)
		ranges = append(ranges, span{d.firstSection[e], d.firstSection[end]})
		e = s.entries.next(end, n)
	}
	return ranges
}
