// Package cluster groups related sections into clusters of bounded size, the
// coarsest unit of retrieval: FunnelRAG's Algorithm 1 (Zheng et al. 2025,
// appendix D), for a collection whose documents come and go.
//
// Sections are processed by their local clustering coefficient, highest first. A section's cluster
// absorbs the clusters of the sections related to it, the closest first, while the sum of tokens
// stays within the limit. The closeness of a cluster to section d is its size divided by the sum of
// hop distances from d to its members. Read literally, the algorithm puts a section into two
// clusters; here d starts with the cluster that it is in, so every section is in exactly one.
//
// Sections that arrive later are placed by the same step. Other sections do not move, except that
// clusters may be joined. Results depend only on the sections and relations, not on the order in
// which they are passed.
package cluster

import (
	"bytes"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// Limit is the default for the most tokens of a cluster's sections together, as counted by package
// text (S in Algorithm 1).
const Limit = schema.DefaultClusterTokens

// Member is a section to be put into a cluster.
type Member struct {
	ID      uuid.UUID
	Tokens  int
	Cluster uuid.UUID // its current cluster; zero: none yet
}

// Relation says why two sections are related. Of clusters that are equally close, the one with the
// smaller relation comes first.
type Relation uint8

// Relations, the strongest first.
const (
	Link      Relation = iota // one links to the other
	Neighbour                 // one has a link to the other
	Nearest                   // their vectors are near
	Folder                    // their documents follow each other in a folder
)

// Edge relates two sections, in both directions. Edges between sections that are
// not given are ignored.
type Edge struct {
	A, B     uuid.UUID
	Relation Relation
	Rank     uint8 // among those of the same relation, 0 the strongest; used for Nearest
}

// Cluster is a set of sections.
type Cluster struct {
	ID       uuid.UUID
	Tokens   int
	Sections []uuid.UUID // by id
}

// Options are the options of a clustering.
type Options struct {
	// Limit is the most tokens of a cluster; 0 means the package's Limit. A section above it is
	// alone in its cluster.
	Limit int
	// Name returns the id of a new cluster, given the lowest id of its sections. It must never
	// return the id of another cluster.
	Name func(first uuid.UUID) uuid.UUID
}

// Diff is the changes that an update makes.
type Diff struct {
	// Changed are the complete clusters that are new or have other sections than before, in the
	// order of their first sections.
	Changed []Cluster
	// Moved are the sections that were put into a cluster, by id: new ones and those whose cluster
	// was joined to another.
	Moved []Move
	// Gone are the clusters that no longer exist.
	Gone []uuid.UUID
}

// Move puts a section into a cluster.
type Move struct {
	Section, Cluster uuid.UUID
}

// Update takes the removed sections out of their clusters, and puts those that have none into
// clusters. sections must be the new sections and, for every cluster that one of them names, all of
// its sections, including removed ones. The clusters that can change are those of removed sections
// and those related to these or to new sections. Sections of an existing cluster stay together.
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

// diff compares the partition with the clusters before the update.
func (p *partition) diff(before map[uuid.UUID]int, shrunk map[uuid.UUID]bool, o Options) Diff {
	var out Diff
	kept := map[uuid.UUID]bool{}
	for _, members := range p.members {
		if len(members) == 0 {
			continue
		}
		slices.Sort(members)
		// It keeps the id of the cluster that most of it comes from, so that the fewest sections
		// move.
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
