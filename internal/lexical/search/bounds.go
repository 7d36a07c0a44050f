package search

import (
	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

// What a term can add at most, by the bounds that the blocks of its postings
// have.

// setMaxima finds what the term adds at most to a unit of each block, and to
// one of any.
func (c *cursor) setMaxima(s bm25, z segment.Zoom) (highest score) {
	c.maxima = c.maxima[:0]
	part := &c.parts[0]
	next := 1
	for i := range c.blocks {
		if i == part.end {
			part = &c.parts[next]
			next++
		}
		b := &c.blocks[i]
		most := s.upperBound(c.weight, part.bounds[b.Frontiers[z]:b.Frontiers[z+1]])
		c.maxima = append(c.maxima, most)
		highest = max(highest, most)
	}
	return highest
}

// upperBound is what no unit with one of some bounds exceeds; without any, what none does.
func (s bm25) upperBound(weight float64, bounds []segment.Bound) score {
	if len(bounds) == 0 {
		return s.limit(weight)
	}
	highest := score(0)
	for _, b := range bounds {
		highest = max(highest, s.boundScore(weight, b))
	}
	return highest
}

// setHighest finds what the term adds at most to a unit whose slots begin
// between slot, where the current block ends or behind it, and stop.
func (c *cursor) setHighest(stop uint32) {
	c.highest = 0
	for i := c.at; i < len(c.blocks) && c.blocks[i].First < stop; i++ {
		c.highest = max(c.highest, c.maxima[i])
	}
}
