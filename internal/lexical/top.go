package lexical

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/google/uuid"
)

// place is a unit that is found: of a segment, or a cluster by its number.
type place struct {
	score   score
	segment int32
	unit    uint32
}

// top keeps the best places, the worst of them first.
type top struct {
	k      int
	places []place
	// ordered is the order of ties.
	ordered func(a, b place) int
}

// least is the score below which nothing is kept.
func (t *top) least() score {
	if t.k == 0 {
		return math.MaxInt64
	}
	if len(t.places) < t.k {
		return 0
	}
	return t.places[0].score
}

// worse reports whether a comes behind b.
func (t *top) worse(a, b place) bool {
	return a.score < b.score || a.score == b.score && t.ordered(a, b) > 0
}

// offer keeps p if it is among the best, whose least score it has at least.
func (t *top) offer(p place) {
	if len(t.places) < t.k {
		t.places = append(t.places, p)
		i := len(t.places) - 1
		for i > 0 {
			parent := (i - 1) / 2
			if !t.worse(p, t.places[parent]) {
				break
			}
			t.places[i] = t.places[parent]
			i = parent
		}
		t.places[i] = p
		return
	}
	if t.k == 0 || !t.worse(t.places[0], p) {
		return
	}
	places := t.places
	i := 0
	for {
		child := 2*i + 1
		if child >= len(places) {
			break
		}
		if child+1 < len(places) && t.worse(places[child+1], places[child]) {
			child++
		}
		if !t.worse(places[child], p) {
			break
		}
		places[i] = places[child]
		i = child
	}
	places[i] = p
}

// sorted returns the places, best first.
func (t *top) sorted() []place {
	slices.SortFunc(t.places, func(a, b place) int {
		if t.worse(b, a) {
			return -1
		}
		return 1
	})
	return t.places
}

func compareRefs(a, b Ref) int {
	return cmp.Or(compareIDs(a.Version, b.Version), cmp.Compare(a.Section, b.Section), cmp.Compare(a.Passage, b.Passage))
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
