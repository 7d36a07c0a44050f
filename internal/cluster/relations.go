package cluster

// This file relates sections to each other by what is known about their documents.

import (
	"slices"

	"github.com/google/uuid"
)

// PositionedMember is a member with its position.
type PositionedMember struct {
	Member
	Position
}

// Position is a position in the text: a section of a version.
type Position struct {
	Version uuid.UUID
	Ordinal int
}

// PositionsOf returns the section at each position.
func PositionsOf(sections []PositionedMember) map[Position]uuid.UUID {
	out := make(map[Position]uuid.UUID, len(sections))
	for _, s := range sections {
		out[s.Position] = s.ID
	}
	return out
}

// TargetsIn returns the external ids that a link in a section may mean. Links in a document's
// metadata are external ids already.
func TargetsIn(base string, section int, target string) []string {
	if section == OfDocument {
		base = ""
	}
	return Targets(base, target)
}

// Resolve relates the section from, which has a link, to the first section of the likeliest
// document that exists, if any. to are the external ids that the link may mean, the likeliest
// first.
func Resolve(from uuid.UUID, to []string, first map[string]uuid.UUID) []Edge {
	for _, id := range to {
		if section, ok := first[id]; ok {
			return []Edge{{A: from, B: section, Relation: Link}}
		}
	}
	return nil
}

// FolderEdges relates the first sections of documents that follow each other in
// their folder.
func FolderEdges(first map[string]uuid.UUID) []Edge {
	folders := map[string][]string{}
	for name := range first {
		folder := FolderOf(name)
		folders[folder] = append(folders[folder], name)
	}
	var out []Edge
	for _, list := range folders {
		slices.Sort(list)
		for i := range list[1:] {
			out = append(out, Edge{A: first[list[i]], B: first[list[i+1]], Relation: Folder})
		}
	}
	return out
}

// NearestEdges relates sections to the k others whose vectors are nearest.
func NearestEdges(sections []uuid.UUID, vectors [][]float32, k int) []Edge {
	var out []Edge
	for i, near := range Neighbours(vectors, k) {
		for rank, j := range near {
			out = append(out, Edge{A: sections[i], B: sections[j], Relation: Nearest, Rank: uint8(rank)})
		}
	}
	return out
}

// NeighbourEdges relates the sections that follow each other in a version.
func NeighbourEdges(positions map[Position]uuid.UUID) []Edge {
	var out []Edge
	for at, id := range positions {
		at.Ordinal++
		if next, ok := positions[at]; ok {
			out = append(out, Edge{A: id, B: next, Relation: Neighbour})
		}
	}
	return out
}

// Unlinked returns the sections of documents that have no link and leave room in a cluster of limit
// tokens. They are related by their vectors instead.
func Unlinked(sections []PositionedMember, links []Edge, limit int) []PositionedMember {
	linked := map[uuid.UUID]bool{}
	for _, e := range links {
		linked[e.A], linked[e.B] = true, true
	}
	tokens := map[uuid.UUID]int{}
	related := map[uuid.UUID]bool{}
	for _, s := range sections {
		tokens[s.Version] += s.Tokens
		related[s.Version] = related[s.Version] || linked[s.ID]
	}
	return slices.DeleteFunc(slices.Clone(sections), func(s PositionedMember) bool { return related[s.Version] || tokens[s.Version] >= limit })
}
