package search

import (
	"slices"

	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

// Upper bounds of a term's scores, from the bounds of its blocks.

// setMaxima sets the upper bound of the term's score for each block from the current one on that
// begins before the slot end, and returns the highest.
func (c *cursor) setMaxima(s bm25, z segment.Zoom, end uint32) (highest score) {
	c.maxima = slices.Grow(c.maxima[:0], c.at)[:c.at] // those before are not read
	next := c.part
	for i := c.at; i < len(c.blocks) && c.blocks[i].First < end; i++ {
		for i >= c.parts[next].end {
			next++
		}
		b := &c.blocks[i]
		bound := s.upperBound(c.weight, c.parts[next].bounds[b.Frontiers[z]:b.Frontiers[z+1]])
		c.maxima = append(c.maxima, bound)
		highest = max(highest, bound)
	}
	return highest
}

// upperBound returns an upper bound of the scores of units with these bounds; of all units if there
// are none.
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

// setHighest sets the upper bound of the term's score for units that begin in the current block or
// later, before stop.
func (c *cursor) setHighest(stop uint32) {
	c.highest = 0
	for i := c.at; i < len(c.blocks) && c.blocks[i].First < stop; i++ {
		c.highest = max(c.highest, c.maxima[i])
	}
}
