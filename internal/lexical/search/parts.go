package search

// A search of a large collection is divided among the cores: each part has its own best units, and
// their thresholds are those of all best units together.

import (
	"errors"
	"runtime"
	"sync"

	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

// partSlots is how many slots a part has at least: fewer are searched sooner than goroutines start
// and end.
const partSlots = 1 << 20

// whole returns all units of the segment.
func (s *SegmentView) whole(z segment.Zoom) span { return span{0, uint32(s.Directory.Units(z))} }

// concurrency returns into how many parts the search is divided.
func (s *search) concurrency() int {
	if s.query.Within != nil {
		return 1
	}
	if s.view.parts > 0 {
		return s.view.parts
	}
	slots := 0
	for i := range s.view.Segments {
		slots += s.view.Segments[i].Slots()
	}
	return min(runtime.GOMAXPROCS(0), slots/partSlots)
}

// searchParts searches n parts of about as many slots each, and collects their best units.
func (s *search) searchParts(n int, highest score) error {
	var shared sharedLevels
	parts, failures := make([]*search, n), make([]error, n)
	run := func(i int) {
		parts[i].openCursors()
		failures[i] = parts[i].part(i, n)
	}
	var others sync.WaitGroup
	for i := range parts {
		p := searches.Get().(*search)
		p.view, p.query, p.cache, p.live, p.zoom, p.scorer = s.view, s.query, s.cache, s.live, s.zoom, s.scorer
		p.terms, p.scopes = s.terms, s.scopes
		p.top.reset(s.query.K, highest)
		p.top.ordered, p.top.shared = s.ordered, &shared
		parts[i] = p
		if i > 0 {
			others.Go(func() { run(i) })
		}
	}
	run(0)
	others.Wait()
	for _, p := range parts {
		s.top.units = append(s.top.units, p.top.units...)
		s.blocks += p.blocks
		s.result.Scored += p.result.Scored
		p.terms, p.scopes = nil, nil // they are not its own
		p.release()
	}
	return errors.Join(failures...)
}

// part searches the i-th of n parts of all segments together, the largest segment first.
func (s *search) part(i, n int) error {
	total := 0
	for _, number := range s.live.order {
		total += s.view.Segments[number].Slots()
	}
	from, to := total*i/n, total*(i+1)/n
	begin := 0 // of the segment, in all slots
	for _, number := range s.live.order {
		view := &s.view.Segments[number]
		slots := view.Slots()
		first, end := max(from-begin, 0), min(to-begin, slots)
		begin += slots
		if first >= end {
			continue
		}
		part := view.whole(s.zoom)
		// Neighbouring parts cut at the same unit, so that it belongs to one of them.
		if first > 0 {
			part.first = s.unitAt(view, uint32(first))
		}
		if end < slots {
			part.end = s.unitAt(view, uint32(end))
		}
		if err := s.segment(number, false, part); err != nil {
			return err
		}
	}
	return nil
}

// unitAt returns the unit of a slot.
func (s *search) unitAt(view *SegmentView, slot uint32) uint32 {
	if of := view.Directory.UnitOf(s.zoom); of != nil {
		return of[slot]
	}
	return slot
}
