package cluster

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// id returns the id of section n; ids are in the order of the numbers.
func id(n int) uuid.UUID {
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[8:], uint64(n)+1)
	return u
}

func number(u uuid.UUID) int { return int(binary.BigEndian.Uint64(u[8:])) - 1 }

// named derives a cluster's id from its first section.
func named(salt string) func(uuid.UUID) uuid.UUID {
	return func(first uuid.UUID) uuid.UUID { return uuid.NewSHA1(first, []byte(salt)) }
}

func sectionsOf(tokens ...int) []Member {
	var out []Member
	for i, t := range tokens {
		out = append(out, Member{ID: id(i), Tokens: t})
	}
	return out
}

func edgesOf(pairs ...[2]int) []Edge {
	var out []Edge
	for _, p := range pairs {
		out = append(out, Edge{A: id(p[0]), B: id(p[1])})
	}
	return out
}

// show lists clusters as sorted numbers of sections.
func show(clusters []Cluster) [][]int {
	var out [][]int
	for _, c := range clusters {
		var own []int
		for _, s := range c.Sections {
			own = append(own, number(s))
		}
		out = append(out, own)
	}
	slices.SortFunc(out, slices.Compare)
	return out
}

// Sections 0, 1 and 2 all link to each other, 2 links to 3, and 3, 4 and 5 are a chain. 0 and 1
// have the coefficient 1, so they are first: 0 absorbs 1 and 2 (3,000 tokens). 1 finds nothing
// else. 2 (coefficient 1/3) then finds cluster {3}, which fits: 4,000. 3 finds {4}, which no longer
// fits; 4 absorbs 5.
func TestAlgorithmOneByHand(t *testing.T) {
	sections := sectionsOf(1000, 1000, 1000, 1000, 1000, 1000)
	edges := edgesOf([2]int{0, 1}, [2]int{0, 2}, [2]int{1, 2}, [2]int{2, 3}, [2]int{3, 4}, [2]int{4, 5})
	got := show(build(sections, edges, Options{Name: named("")}))
	if want := [][]int{{0, 1, 2, 3}, {4, 5}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Section 0 is placed last (its neighbours are not related) and finds two clusters: {1, 2}, both
// one hop away (closeness 1), and {3, 4}, of which 4 is two hops away (2/3). Only one fits.
func TestTheClosestClusterIsTakenFirst(t *testing.T) {
	sections := []Member{
		{id(0), 2000, uuid.Nil},
		{id(1), 1000, id(90)}, {id(2), 1000, id(90)},
		{id(3), 1000, id(80)}, {id(4), 1000, id(80)},
	}
	edges := edgesOf([2]int{0, 1}, [2]int{0, 2}, [2]int{0, 3}, [2]int{3, 4})
	d := Update(sections, edges, nil, Options{Name: named("")})
	if want := []Move{{id(0), id(90)}}; !reflect.DeepEqual(d.Moved, want) || len(d.Changed) != 1 || d.Changed[0].Tokens != 4000 {
		t.Errorf("got %+v, want 0 beside 1 and 2", d)
	}
}

// Section 0 finds two clusters: {1, ..., 5}, whose first section is one hop away and the others
// three, through section 6 (closeness 5/13), and {7, 8}, of which 8 is unreachable and counts as
// four hops (2/5).
func TestWhatIsFarAwayCountsAsOneHopMore(t *testing.T) {
	sections := []Member{{id(0), 2000, uuid.Nil}}
	edges := edgesOf([2]int{0, 1}, [2]int{1, 6}, [2]int{0, 7})
	for n := 1; n <= 5; n++ {
		sections = append(sections, Member{id(n), 400, id(90)})
		if n > 1 {
			edges = append(edges, edgesOf([2]int{6, n})...)
		}
	}
	sections = append(sections, Member{id(6), 4000, id(91)}, Member{id(7), 1000, id(92)}, Member{id(8), 1000, id(92)})
	d := Update(sections, edges, nil, Options{Name: named("")})
	if want := []Move{{id(0), id(92)}}; !reflect.DeepEqual(d.Moved, want) {
		t.Errorf("got %+v, want 0 beside 7 and 8", d.Moved)
	}
}

// TestAJoinedClusterIsTheOneThatMostOfItWas: so that the fewest sections move. Of two of equal size
// it is the one with the lower id.
func TestAJoinedClusterIsTheOneThatMostOfItWas(t *testing.T) {
	for range 20 { // the order of a map varies
		for _, x := range []struct{ first, second, stays int }{{3, 1, 90}, {1, 3, 80}, {2, 2, 80}} {
			sections := []Member{{id(0), 100, uuid.Nil}}
			for n := 1; n <= x.first+x.second; n++ {
				of := 90
				if n > x.first {
					of = 80
				}
				sections = append(sections, Member{id(n), 100, id(of)})
			}
			edges := edgesOf([2]int{0, 1}, [2]int{0, x.first + 1})
			d := Update(sections, edges, nil, Options{Name: named("")})
			if len(d.Changed) != 1 || d.Changed[0].ID != id(x.stays) || len(d.Changed[0].Sections) != 5 {
				t.Fatalf("%d and %d sections: got %+v, want all in %v", x.first, x.second, d.Changed, id(x.stays))
			}
		}
	}
}

func TestRelationsBreakTies(t *testing.T) {
	sections := sectionsOf(2000, 2000, 2000)
	sections[1].Cluster, sections[2].Cluster = id(70), id(71)
	edges := []Edge{{id(0), id(1), Nearest, 1}, {id(2), id(0), Nearest, 0}, {id(0), id(99), Link, 0}}
	if got := Update(sections, edges, nil, Options{Name: named("")}).Moved; !reflect.DeepEqual(got, []Move{{id(0), id(71)}}) {
		t.Errorf("got %v", got)
	}
}

func TestASectionOverTheLimitIsAlone(t *testing.T) {
	got := show(build(sectionsOf(4001, 1, 4000), edgesOf([2]int{0, 1}, [2]int{1, 2}), Options{Name: named("")}))
	if want := [][]int{{0}, {1}, {2}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// referenceClusters is Algorithm 1 as the paper has it, with the two corrections, using sets and no
// bound except that of hops.
func referenceClusters(sections []Member, edges []Edge, limit int) [][]int {
	adjacent := map[int]map[int]int{}
	note := func(a, b int, r int) {
		if adjacent[a] == nil {
			adjacent[a] = map[int]int{}
		}
		if old, ok := adjacent[a][b]; !ok || r < old {
			adjacent[a][b] = r
		}
	}
	tokens := map[int]int{}
	for _, s := range sections {
		tokens[number(s.ID)] = s.Tokens
	}
	for _, e := range edges {
		if a, b := number(e.A), number(e.B); a != b && tokens[a] > 0 && tokens[b] > 0 {
			note(a, b, int(e.Relation)*1000+int(e.Rank))
			note(b, a, int(e.Relation)*1000+int(e.Rank))
		}
	}
	coefficient := func(d int) float64 {
		pairs, k := 0, len(adjacent[d])
		for a := range adjacent[d] {
			for b := range adjacent[d] {
				if _, ok := adjacent[a][b]; ok {
					pairs++
				}
			}
		}
		if k < 2 {
			return 0
		}
		return float64(pairs) / float64(k*(k-1))
	}
	hops := func(from, to int) int {
		reached := map[int]bool{from: true}
		for h := 1; h <= 3; h++ {
			next := map[int]bool{}
			for a := range reached {
				next[a] = true
				for b := range adjacent[a] {
					next[b] = true
				}
			}
			if reached = next; reached[to] {
				return h
			}
		}
		return 4
	}
	var order []int
	clusters := map[int][]int{} // by an arbitrary name
	in := map[int]int{}
	for _, s := range sections {
		d := number(s.ID)
		order = append(order, d)
		clusters[d], in[d] = []int{d}, d
	}
	coefficients := map[int]float64{}
	for _, d := range order {
		coefficients[d] = coefficient(d)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(coefficients[b], coefficients[a]), cmp.Compare(a, b)) })
	sum := func(c int) (n int) {
		for _, m := range clusters[c] {
			n += tokens[m]
		}
		return n
	}
	for _, d := range order {
		type near struct {
			cluster  int
			distance float64 // mean hops, the inverse of closeness
			relation int
			first    int
		}
		found := map[int]near{}
		for b, r := range adjacent[d] {
			c := in[b]
			if c == in[d] {
				continue
			}
			n, ok := found[c]
			if !ok {
				n = near{c, 0, r, b}
				for _, m := range clusters[c] {
					n.distance += float64(hops(d, m)) / float64(len(clusters[c]))
				}
			} else if cmp.Or(cmp.Compare(r, n.relation), cmp.Compare(b, n.first)) < 0 {
				n.relation, n.first = r, b
			}
			found[c] = n
		}
		var list []near
		for _, n := range found {
			list = append(list, n)
		}
		slices.SortFunc(list, func(a, b near) int {
			if diff := a.distance - b.distance; diff > 1e-9 || diff < -1e-9 {
				return cmp.Compare(a.distance, b.distance)
			}
			return cmp.Or(cmp.Compare(a.relation, b.relation), cmp.Compare(a.first, b.first))
		})
		for _, n := range list {
			if own := in[d]; sum(own)+sum(n.cluster) <= limit {
				for _, m := range clusters[n.cluster] {
					in[m] = own
				}
				clusters[own] = append(clusters[own], clusters[n.cluster]...)
				delete(clusters, n.cluster)
			}
		}
	}
	var out [][]int
	for _, c := range clusters {
		slices.Sort(c)
		out = append(out, c)
	}
	slices.SortFunc(out, slices.Compare)
	return out
}

func drawGraph(t *rapid.T) ([]Member, []Edge) {
	tokens := rapid.SliceOfN(rapid.IntRange(1, 1000), 1, 40).Draw(t, "tokens")
	sections := sectionsOf(tokens...)
	edges := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Edge {
		n := rapid.IntRange(0, len(tokens)) // one too many: a section that is not passed
		return Edge{id(n.Draw(t, "a")), id(n.Draw(t, "b")), Relation(rapid.IntRange(0, 3).Draw(t, "relation")), rapid.Uint8Range(0, 2).Draw(t, "rank")}
	}), 0, 120).Draw(t, "edges")
	return sections, edges
}

func TestBuildIsAlgorithmOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sections, edges := drawGraph(t)
		limit := rapid.SampledFrom([]int{1000, 2500, 4000}).Draw(t, "limit")
		got := show(build(sections, edges, Options{Limit: limit, Name: named("")}))
		if want := referenceClusters(sections, edges, limit); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	})
}

func TestResultsDoNotDependOnTheOrderGiven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sections, edges := drawGraph(t)
		o := Options{Limit: 3000, Name: named("")}
		want := build(sections, edges, o)
		mixed := rapid.Permutation(sections).Draw(t, "sections")
		turned := rapid.Permutation(edges).Draw(t, "edges")
		for i := range turned {
			if i%2 == 0 {
				turned[i].A, turned[i].B = turned[i].B, turned[i].A
			}
		}
		if got := build(mixed, append(turned, edges...), o); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	})
}

// scriptedStore applies diffs as a store would, and checks them.
type scriptedStore struct {
	sections map[uuid.UUID]Member
	edges    []Edge
	round    int
	limit    int
}

func (w *scriptedStore) update(t *rapid.T, fresh []Member, edges []Edge, removed []uuid.UUID) {
	w.edges = append(w.edges, edges...)
	was := map[uuid.UUID]uuid.UUID{}
	touched := map[uuid.UUID]bool{} // clusters that may change
	related := map[uuid.UUID]bool{}
	for _, s := range fresh {
		related[s.ID] = true
	}
	for _, r := range removed {
		touched[w.sections[r].Cluster] = true
	}
	for _, s := range w.sections {
		was[s.ID] = s.Cluster
		related[s.ID] = related[s.ID] || touched[s.Cluster]
	}
	for _, e := range w.edges {
		for _, end := range [2][2]uuid.UUID{{e.A, e.B}, {e.B, e.A}} {
			if related[end[0]] {
				touched[w.sections[end[1]].Cluster] = true
			}
		}
	}
	var given []Member
	for _, s := range w.sections {
		given = append(given, s)
	}
	w.round++
	d := Update(append(given, fresh...), w.edges, removed, Options{Limit: w.limit, Name: named(fmt.Sprint(w.round))})

	for _, r := range removed {
		delete(w.sections, r)
	}
	for _, s := range fresh {
		w.sections[s.ID] = s
	}
	for _, m := range d.Moved {
		s := w.sections[m.Section]
		if s.ID == uuid.Nil || s.Cluster == m.Cluster {
			t.Fatalf("section %v moves from %v to %v", m.Section, s.Cluster, m.Cluster)
		}
		s.Cluster = m.Cluster
		w.sections[m.Section] = s
	}
	w.check(t)

	// The diff is correct, and only clusters near the change have changed.
	now := map[uuid.UUID][]uuid.UUID{}
	for _, s := range w.sections {
		now[s.Cluster] = append(now[s.Cluster], s.ID)
	}
	for _, c := range d.Changed {
		tokens := 0
		for _, s := range c.Sections {
			tokens += w.sections[s].Tokens
		}
		members := now[c.ID]
		slices.SortFunc(members, compare)
		if tokens != c.Tokens || !slices.Equal(members, c.Sections) {
			t.Fatalf("cluster %+v holds %v", c, members)
		}
	}
	for _, g := range d.Gone {
		if len(now[g]) > 0 {
			t.Fatalf("cluster %v is gone and holds %v", g, now[g])
		}
	}
	for _, s := range w.sections {
		if old, ok := was[s.ID]; ok && old != s.Cluster && !touched[old] {
			t.Fatalf("section %v left cluster %v, which has nothing to do with the change", s.ID, old)
		}
	}
	// Sections of a cluster stay together.
	to := map[uuid.UUID]uuid.UUID{}
	for s, old := range was {
		current, ok := w.sections[s]
		if !ok {
			continue
		}
		if other, seen := to[old]; seen && other != current.Cluster {
			t.Fatalf("cluster %v was torn apart", old)
		}
		to[old] = current.Cluster
	}
}

func (w *scriptedStore) check(t *rapid.T) {
	sums := map[uuid.UUID]int{}
	count := map[uuid.UUID]int{}
	for _, s := range w.sections {
		if s.Cluster == uuid.Nil {
			t.Fatalf("section %v is in no cluster", s.ID)
		}
		sums[s.Cluster] += s.Tokens
		count[s.Cluster]++
	}
	for c, sum := range sums {
		if sum > w.limit && count[c] > 1 {
			t.Fatalf("cluster %v has %d tokens of %d sections", c, sum, count[c])
		}
	}
}

func TestUpdatesKeepAPartitionWithinTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &scriptedStore{sections: map[uuid.UUID]Member{}, limit: rapid.SampledFrom([]int{900, 2500, 4000}).Draw(t, "limit")}
		next := 0
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			var fresh []Member
			var edges []Edge
			var removed []uuid.UUID
			for _, tokens := range rapid.SliceOfN(rapid.IntRange(1, 1000), 0, 8).Draw(t, "fresh") {
				fresh = append(fresh, Member{ID: id(next), Tokens: tokens})
				for _, to := range rapid.SliceOfN(rapid.IntRange(0, next), 0, 4).Draw(t, "to") {
					edges = append(edges, Edge{id(next), id(to), Relation(to % 4), uint8(to % 3)})
				}
				next++
			}
			var present []uuid.UUID
			for s := range w.sections {
				present = append(present, s)
			}
			slices.SortFunc(present, compare)
			for _, s := range present {
				if rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
					removed = append(removed, s)
				}
			}
			w.update(t, fresh, edges, removed)
		}
	})
}

func TestUpdateWithNothingNewChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sections, edges := drawGraph(t)
		o := Options{Limit: 3000, Name: named("")}
		at := map[uuid.UUID]uuid.UUID{}
		for _, c := range build(sections, edges, o) {
			for _, s := range c.Sections {
				at[s] = c.ID
			}
		}
		for i := range sections {
			sections[i].Cluster = at[sections[i].ID]
		}
		if d := Update(sections, edges, nil, o); len(d.Changed)+len(d.Moved)+len(d.Gone) > 0 {
			t.Fatalf("got %+v", d)
		}
	})
}

// build clusters all sections, ignoring their clusters. The result is in the order of the clusters'
// first sections.
func build(sections []Member, edges []Edge, o Options) []Cluster {
	fresh := slices.Clone(sections)
	for i := range fresh {
		fresh[i].Cluster = uuid.Nil
	}
	return Update(fresh, edges, nil, o).Changed
}
