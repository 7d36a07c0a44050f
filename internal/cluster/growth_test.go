package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/waittest"
)

// internalShare returns the share of edges with both ends in the same cluster.
func internalShare(clusters []Cluster, edges []Edge) float64 {
	at := map[uuid.UUID]int{}
	for i, c := range clusters {
		for _, s := range c.Sections {
			at[s] = i
		}
	}
	n := 0
	for _, e := range edges {
		if at[e.A] == at[e.B] {
			n++
		}
	}
	return float64(n) / float64(len(edges))
}

// communities returns groups of sections that are related to each other, with some relations
// between groups.
func communities(n int, r *rand.Rand) ([]Member, []Edge) {
	const size = 8
	sections := make([]Member, n)
	var edges []Edge
	for i := range n {
		sections[i] = Member{ID: id(i), Tokens: 200 + r.IntN(600)}
		for range 4 {
			j := i/size*size + r.IntN(size)
			if r.IntN(10) == 0 {
				j = r.IntN(n)
			}
			if j < n {
				edges = append(edges, Edge{A: id(i), B: id(j)})
			}
		}
	}
	return sections, edges
}

// grow clusters sections that arrive in an order: the first ones together, the others step at a
// time.
func grow(sections []Member, edges []Edge, order []int, first, step int) []Cluster {
	byID := map[uuid.UUID]Cluster{}
	at := map[uuid.UUID]uuid.UUID{}
	var have []Member
	for i, to := 0, first; i < len(order); i, to = to, to+step {
		for j := range have {
			have[j].Cluster = at[have[j].ID]
		}
		for _, k := range order[i:min(to, len(order))] {
			have = append(have, sections[k])
		}
		d := Update(have, edges, nil, Options{Name: named(fmt.Sprint(i))})
		for _, m := range d.Moved {
			at[m.Section] = m.Cluster
		}
		for _, c := range d.Changed {
			byID[c.ID] = c
		}
		for _, g := range d.Gone {
			delete(byID, g)
		}
	}
	return slices.Collect(maps.Values(byID))
}

// Sections that come with their relations are clustered as well as all at once. If sections come in
// any order, clusters are filled by chance before the sections that belong to them arrive; a
// rebuild corrects that.
func TestGrowingIsNotMuchWorse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sections, edges := communities(2000, r)
	order := r.Perm(len(sections))
	full := internalShare(build(sections, edges, Options{Name: named("")}), edges)
	shuffled := internalShare(grow(sections, edges, order, 50, 50), edges)
	slices.Sort(order)
	inOrder := internalShare(grow(sections, edges, order, 50, 50), edges)
	t.Logf("relations inside clusters: %.3f built at once, %.3f grown in order, %.3f in any order", full, inOrder, shuffled)
	if full < 0.7 || inOrder < 0.9*full || shuffled < 0.6*full {
		t.Errorf("relations inside clusters: %.3f built at once, %.3f grown in order, %.3f in any order", full, inOrder, shuffled)
	}
}

func TestManySectionsTakeSeconds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	sections, edges := communities(100_000, r)
	for i := range 20_000 { // a page that many link to
		edges = append(edges, Edge{A: id(0), B: id(i)})
	}
	clusters := 0
	work := waittest.Work(t, func() { clusters = len(build(sections, edges, Options{Name: named("")})) })
	t.Logf("%d sections, %d relations, %d clusters in %v of processor time", len(sections), len(edges), clusters, work)
	if work > 20*time.Second {
		t.Errorf("took %v of processor time", work)
	}
}
