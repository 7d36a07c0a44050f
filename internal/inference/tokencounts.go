package inference

// This file is for encoders that read a text as the numbers of its tokens, in any order: a token
// that occurs three times is one position of the graph in place of three.

import "slices"

// tokenCounter counts the tokens of one text after another.
type tokenCounter struct {
	places []int32 // by token: one more than its place among those of the text, or 0
}

// count returns each of the ids once, in the order of their first occurrences, and how often each
// occurs. distinct takes the memory of ids.
func (c *tokenCounter) count(ids []int32) (distinct, counts []int32) {
	distinct, counts = ids[:0], make([]int32, 0, len(ids))
	if n := int(slices.Max(ids)) + 1; n > len(c.places) {
		c.places = append(c.places, make([]int32, n-len(c.places))...)
	}
	for _, id := range ids {
		place := c.places[id]
		if place == 0 {
			distinct, counts = append(distinct, id), append(counts, 0)
			place = int32(len(distinct))
			c.places[id] = place
		}
		counts[place-1]++
	}
	for _, id := range distinct {
		c.places[id] = 0
	}
	return distinct, counts
}
