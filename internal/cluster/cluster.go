// Package cluster groups related sections into clusters of bounded size, the
// coarsest unit of retrieval: FunnelRAG's Algorithm 1 (Zheng et al. 2025,
// appendix D), for a collection whose documents come and go.
//
// Sections are taken by their local clustering coefficient, highest first. A
// section's cluster takes in the clusters of the sections related to it, the
// closest first, while the sum of tokens stays within the limit. Closeness of a
// cluster to section d is its size over the sum of hop distances from d to its
// members. Read literally the algorithm puts a section into two clusters; here d
// begins with the cluster that holds it, so every section is in exactly one.
//
// Sections that arrive later are placed by the same step, and nothing else
// moves, but that clusters may be joined. Results depend on the sections and
// relations alone, not on the order in which they are given.
package cluster

import (
	"bytes"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// Limit is the most tokens that the sections of a cluster have together where nobody
// says otherwise, by the counter of package text (S in Algorithm 1).
const Limit = schema.DefaultClusterTokens

// Member is one that is to be in a cluster.
type Member struct {
	ID      uuid.UUID
	Tokens  int
	Cluster uuid.UUID // that holds it now; zero: none yet
}

// Relation says why two sections are related. Of clusters that are equally
// close the one related by the smaller comes first.
type Relation uint8

// Relations, the strongest first.
const (
	Link      Relation = iota // one links to the other
	Neighbour                 // they follow each other in a document
	Nearest                   // their vectors are near
	Folder                    // their documents follow each other in a folder
)

// Edge relates two sections, in both directions. Edges between sections that are
// not given are ignored.
type Edge struct {
	A, B     uuid.UUID
	Relation Relation
	Rank     uint8 // among those of its kind, 0 the strongest: of near vectors
}

// Cluster is a set of sections.
type Cluster struct {
	ID       uuid.UUID
	Tokens   int
	Sections []uuid.UUID // by id
}

// Options of clustering.
type Options struct {
	// Limit is the most tokens of a cluster; 0 means the package's. A section
	// over it is alone.
	Limit int
	// Name returns the id of a new cluster, given the lowest id of a section in
	// it. It must never return the id of another cluster.
	Name func(first uuid.UUID) uuid.UUID
}

// Diff is what an update changes.
type Diff struct {
	// Changed are the clusters that are new or have other sections than before,
	// whole, in the order of their first sections.
	Changed []Cluster
	// Moved are the sections that came to a cluster, by id: new ones and those
	// whose cluster was joined to another.
	Moved []Move
	// Gone are the clusters that are no more.
	Gone []uuid.UUID
}

// Move puts a section into a cluster.
type Move struct {
	Section, Cluster uuid.UUID
}

// Update takes the removed sections out of their clusters and puts those that
// have none into clusters. The sections given must be the new ones, and of every
// cluster that is named all sections, removed ones included; which clusters can
// change are those of removed sections and those related to these and to new
// sections. A cluster that was there keeps its sections together.
func Update(sections []Member, edges []Edge, removed []uuid.UUID, o Options) Diff {
	if o.Limit <= 0 {
		o.Limit = Limit
	}
	leaves := make(map[uuid.UUID]bool, len(removed))
	for _, id := range removed {
		leaves[id] = true
	}
	before := map[uuid.UUID]int{} // sections by cluster
	var stay []Member
	shrunk := map[uuid.UUID]bool{}
	for _, s := range sections {
		if s.Cluster != uuid.Nil {
			before[s.Cluster]++
		}
		if !leaves[s.ID] {
			stay = append(stay, s)
		} else if s.Cluster != uuid.Nil {
			shrunk[s.Cluster] = true
		}
	}
	p := newPartition(stay, edges, o.Limit)
	for _, d := range p.order(shrunk) {
		p.absorbRelated(d)
	}
	return p.diff(before, shrunk, o)
}

// diff compares the partition with what the clusters were before.
func (p *partition) diff(before map[uuid.UUID]int, shrunk map[uuid.UUID]bool, o Options) Diff {
	var out Diff
	kept := map[uuid.UUID]bool{}
	for _, members := range p.members {
		if len(members) == 0 {
			continue
		}
		slices.Sort(members)
		// It goes on as the cluster that most of it comes from: fewest move.
		counts := map[uuid.UUID]int{}
		for _, m := range members {
			if c := p.sections[m].Cluster; c != uuid.Nil {
				counts[c]++
			}
		}
		var id uuid.UUID
		for c, n := range counts {
			if id == uuid.Nil || n > counts[id] || n == counts[id] && compare(c, id) < 0 {
				id = c
			}
		}
		if id == uuid.Nil {
			id = o.Name(p.sections[members[0]].ID)
		}
		kept[id] = true
		if len(members) == before[id] && len(counts) == 1 && !shrunk[id] {
			continue
		}
		c := Cluster{ID: id, Sections: make([]uuid.UUID, len(members))}
		for i, m := range members {
			s := p.sections[m]
			c.Sections[i] = s.ID
			c.Tokens += s.Tokens
			if s.Cluster != id {
				out.Moved = append(out.Moved, Move{s.ID, id})
			}
		}
		out.Changed = append(out.Changed, c)
	}
	for c := range before {
		if !kept[c] {
			out.Gone = append(out.Gone, c)
		}
	}
	slices.SortFunc(out.Changed, func(a, b Cluster) int { return compare(a.Sections[0], b.Sections[0]) })
	slices.SortFunc(out.Moved, func(a, b Move) int { return compare(a.Section, b.Section) })
	slices.SortFunc(out.Gone, compare)
	return out
}

func compare(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
