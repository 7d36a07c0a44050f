package search

import (
	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

// Search of documents of which only some sections are in the scope. Their frequencies and lengths
// are sums over those sections. The bounds of blocks are of whole documents and cannot be used, so
// all postings of the sections are read.

// partial scores the documents of a segment by their sections in the scope.
func (s *search) partial(segment int, live []*cursor) {
	d := s.view.Segments[segment].Directory
	scope := &s.scopes[segment]
	frequencies := make([]uint32, len(live))
	done := uint32(0) // sections
	for i := 0; i < len(scope.sections); {
		entry := d.EntryOfSection(max(scope.sections[i].first, done))
		clear(frequencies)
		length := uint32(0)
		end := d.FirstSection[entry+1]
		for i < len(scope.sections) && scope.sections[i].first < end {
			part := span{max(scope.sections[i].first, done), min(scope.sections[i].end, end)}
			length += scope.length(d, part)
			for t, c := range live {
				frequencies[t] += c.sum(d.FirstSlot[part.first], d.FirstSlot[part.end])
			}
			done = part.end
			if scope.sections[i].end > end {
				break // the others belong to the next entries
			}
			i++
		}
		total := score(0)
		for t, f := range frequencies {
			if f > 0 {
				total += s.scorer.score(live[t].weight, f, length)
			}
		}
		if total > 0 {
			s.result.Scored++
			if total >= s.top.threshold {
				s.top.add(foundUnit{total, int32(segment), entry})
			}
		}
	}
}

// length returns the length of a range of sections of one entry, including its title if that is in
// the range.
func (s *scope) length(d *segment.Directory, sections span) uint32 {
	total := uint32(0)
	for section := sections.first; section < sections.end; section++ {
		if length := d.Lengths[segment.ZoomSection][section]; length != segment.TitleLength {
			total += length
		} else {
			total += d.Titles[d.SlotEntry[d.FirstSlot[section]]]
		}
	}
	return total
}

// lengthOf returns the length of the text of an entry that is in the scope.
func (s *scope) lengthOf(d *segment.Directory, entry uint32) uint32 {
	first, end := d.FirstSection[entry], d.FirstSection[entry+1]
	total := uint32(0)
	for _, r := range s.sections {
		if r.first < end && r.end > first {
			total += s.length(d, span{max(r.first, first), min(r.end, end)})
		}
	}
	return total
}
