package cluster

// Algorithm 1 on graphs of the size of collections: on small ones different orders of sections or
// clusters hardly differ.

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// largeGraph returns sections that are related like the pages of a site: in dense groups, as
// consecutive parts of long documents, and some to arbitrary other ones. Ids do not depend on the
// groups.
func largeGraph(random *rand.Rand) ([]Member, []Edge) {
	n := 200 + random.IntN(801)
	name := random.Perm(n)
	tokens := make([]int, n)
	for i := range tokens {
		tokens[i] = 50 + random.IntN(501)
	}
	sections := sectionsOf(tokens...)
	var edges []Edge
	relate := func(a, b int, r Relation) {
		edges = append(edges, Edge{id(name[a]), id(name[b]), r, uint8(random.IntN(4))})
	}
	for start := 0; start < n; {
		end := min(n, start+2+random.IntN(14))
		density := 0.1 + 0.8*random.Float64()
		if start%2 == 0 {
			end, density = min(n, start+2+random.IntN(30)), 0
			for a := start + 1; a < end; a++ {
				relate(a-1, a, Neighbour)
			}
		}
		for a := start; a < end; a++ {
			for b := a + 1; b < end; b++ {
				if random.Float64() < density {
					relate(a, b, Relation(random.IntN(4)))
				}
			}
		}
		start = end
	}
	for range n / 2 {
		relate(random.IntN(n), random.IntN(n), Relation(random.IntN(4)))
	}
	return sections, edges
}

func TestLargeGraphsAreClusteredByAlgorithmOne(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			sections, edges := largeGraph(rand.New(rand.NewPCG(seed, 1)))
			limit := []int{1000, 4000, 16_000}[seed%3]
			want := referenceClusters(slices.Clone(sections), edges, limit)
			if got := show(build(sections, edges, Options{Limit: limit, Name: named("")})); !reflect.DeepEqual(got, want) {
				t.Errorf("%d sections, %d relations: %d clusters of %d are others than Algorithm 1 makes", len(sections), len(edges), differ(got, want), len(want))
			}
		})
	}
}

// differ counts the clusters in got that are not in want.
func differ(got, want [][]int) int {
	in := map[string]bool{}
	for _, c := range want {
		in[fmt.Sprint(c)] = true
	}
	n := 0
	for _, c := range got {
		if !in[fmt.Sprint(c)] {
			n++
		}
	}
	return n
}
