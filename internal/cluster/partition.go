package cluster

// The graph of sections, and its partition, which is made step by step by Algorithm 1. Sections are
// numbered in the order of their ids.

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// Bounds that keep a step in constant time, and so a clustering linear in the number of sections.
const (
	maxRelated = 64  // relations followed from a section, the strongest first
	maxHops    = 3   // farther sections count as one hop more
	maxVisited = 512 // sections visited to find the distances from one
)

type partition struct {
	sections []Member
	limit    int
	// The relations of section i are related[start[i]:start[i+1]], the strongest
	// first.
	start   []int32
	related []int32

	group   []int32   // by section
	members [][]int32 // by group; empty after it was joined to another
	tokens  []int     // by group

	marks   marks // for neighbours, groups and distances
	queue   []int32
	closest []candidate
}

// marks is a set of small integers, each with a value, that can be emptied in constant time.
type marks struct {
	round []uint32
	value []int32
	now   uint32
}

func (m *marks) clear() { m.now++ }

func (m *marks) put(i, value int32) { m.round[i], m.value[i] = m.now, value }

func (m *marks) get(i int32) (int32, bool) { return m.value[i], m.round[i] == m.now }

// candidate is a cluster that may be joined, with the parts of its closeness.
type candidate struct {
	group, size, hops, rank int32
}

func newPartition(sections []Member, edges []Edge, limit int) *partition {
	n := len(sections)
	p := &partition{
		sections: sections, limit: limit,
		group: make([]int32, n),
		marks: marks{round: make([]uint32, n), value: make([]int32, n)},
	}
	slices.SortFunc(p.sections, func(a, b Member) int { return compare(a.ID, b.ID) })
	number := make(map[uuid.UUID]int32, n)
	groups := map[uuid.UUID]int32{}
	for i, s := range p.sections {
		number[s.ID] = int32(i)
		g, ok := groups[s.Cluster]
		if !ok || s.Cluster == uuid.Nil {
			g = int32(len(p.members))
			groups[s.Cluster] = g
			p.members, p.tokens = append(p.members, nil), append(p.tokens, 0)
		}
		p.group[i] = g
		p.members[g] = append(p.members[g], int32(i))
		p.tokens[g] += s.Tokens
	}
	p.relate(number, edges)
	return p
}

// relate sets the relations, each once.
func (p *partition) relate(number map[uuid.UUID]int32, edges []Edge) {
	type half struct {
		to   int32
		rank int // of the relation, and in it
	}
	all := make([][]half, len(p.sections))
	for _, e := range edges {
		a, known := number[e.A]
		b, too := number[e.B]
		if known && too && a != b {
			rank := int(e.Relation)<<8 + int(e.Rank)
			all[a] = append(all[a], half{b, rank})
			all[b] = append(all[b], half{a, rank})
		}
	}
	p.start = make([]int32, len(all)+1)
	for i, own := range all {
		slices.SortFunc(own, func(a, b half) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.to, b.to)) })
		p.marks.clear()
		kept := 0
		for _, h := range own {
			if _, repeated := p.marks.get(h.to); repeated || kept == maxRelated {
				continue
			}
			p.marks.put(h.to, 0)
			p.related = append(p.related, h.to)
			kept++
		}
		p.start[i+1] = int32(len(p.related))
	}
}

func (p *partition) neighbours(i int32) []int32 { return p.related[p.start[i]:p.start[i+1]] }

// coefficient returns the local clustering coefficient of a section: the share of the pairs of its
// neighbours that are related.
func (p *partition) coefficient(i int32) float64 {
	own := p.neighbours(i)
	if len(own) < 2 {
		return 0
	}
	p.marks.clear()
	for _, j := range own {
		p.marks.put(j, 0)
	}
	pairs := 0
	for _, j := range own {
		for _, k := range p.neighbours(j) {
			if _, in := p.marks.get(k); in {
				pairs++
			}
		}
	}
	return float64(pairs) / float64(len(own)*(len(own)-1))
}

// order returns the sections to place, by descending coefficient and then by id: first those in no
// cluster, then the best one of each cluster that lost sections.
func (p *partition) order(shrunk map[uuid.UUID]bool) []int32 {
	score := make([]float64, len(p.sections))
	var fresh, old []int32
	for i, s := range p.sections {
		switch {
		case s.Cluster == uuid.Nil:
			fresh = append(fresh, int32(i))
		case shrunk[s.Cluster]:
			old = append(old, int32(i))
		default:
			continue
		}
		score[i] = p.coefficient(int32(i))
	}
	byScore := func(a, b int32) int { return cmp.Or(cmp.Compare(score[b], score[a]), cmp.Compare(a, b)) }
	slices.SortFunc(fresh, byScore)
	slices.SortFunc(old, byScore)
	seen := map[int32]bool{}
	for _, i := range old {
		if g := p.group[i]; !seen[g] {
			seen[g] = true
			fresh = append(fresh, i)
		}
	}
	return fresh
}

// absorbRelated is the step of Algorithm 1 for section d: its cluster absorbs the related clusters
// that fit, the closest first.
func (p *partition) absorbRelated(d int32) {
	own := p.group[d]
	found := p.closest[:0]
	p.marks.clear()
	for rank, i := range p.neighbours(d) {
		g := p.group[i]
		if _, seen := p.marks.get(g); seen || g == own || p.tokens[own]+p.tokens[g] > p.limit {
			continue
		}
		p.marks.put(g, 0)
		found = append(found, candidate{group: g, size: int32(len(p.members[g])), rank: int32(rank)})
	}
	p.closest = found
	if len(found) > 1 {
		p.measure(d, found)
		slices.SortFunc(found, func(a, b candidate) int {
			// compares a.size/a.hops with b.size/b.hops
			return cmp.Or(cmp.Compare(int64(b.size)*int64(a.hops), int64(a.size)*int64(b.hops)), cmp.Compare(a.rank, b.rank))
		})
	}
	for _, c := range found {
		if p.tokens[p.group[d]]+p.tokens[c.group] <= p.limit {
			p.join(p.group[d], c.group)
		}
	}
}

// measure sums the hop distances from d to the members of each candidate.
func (p *partition) measure(d int32, found []candidate) {
	at := make(map[int32]int, len(found))
	left := int32(0)
	for i := range found {
		at[found[i].group] = i
		left += found[i].size
	}
	p.marks.clear()
	p.marks.put(d, 0)
	p.queue = append(p.queue[:0], d)
	reached := make([]int32, len(found))
	for next := 0; next < len(p.queue) && left > 0; next++ {
		i := p.queue[next]
		hops, _ := p.marks.get(i)
		if hops == maxHops {
			break
		}
		for _, j := range p.neighbours(i) {
			if _, seen := p.marks.get(j); seen || len(p.queue) >= maxVisited {
				continue
			}
			p.marks.put(j, hops+1)
			p.queue = append(p.queue, j)
			if c, ok := at[p.group[j]]; ok {
				found[c].hops += hops + 1
				reached[c]++
				left--
			}
		}
	}
	for c := range found {
		found[c].hops += (found[c].size - reached[c]) * (maxHops + 1)
	}
}

// join moves the members of the smaller group to the larger one.
func (p *partition) join(a, b int32) {
	if len(p.members[a]) < len(p.members[b]) {
		a, b = b, a
	}
	for _, i := range p.members[b] {
		p.group[i] = a
	}
	p.members[a] = append(p.members[a], p.members[b]...)
	p.tokens[a] += p.tokens[b]
	p.members[b], p.tokens[b] = nil, 0
}
