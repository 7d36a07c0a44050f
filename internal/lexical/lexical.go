// Package lexical is the inverted index: exact BM25 over passages, sections, documents and clusters
// of sections, from one set of postings.
//
// This package has the analysis of text into terms, and the types of queries and results. Package
// segment is the storage format of postings, and package search runs queries. None of them does
// input or output.
//
// Scores are those of BM25 (Robertson and Zaragoza 2009, eq. 3.15) with
//
//	idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))
//	score  = sum over t of idf(t) * f * (k1 + 1) / (f + k1 * (1 - b + b * len / avglen))
//
// N, df and avglen are of all live text of the collection in the unit that is searched, visible to
// the principal or not; f and len are of the text that is scored. len counts analysed terms. A term
// that is repeated in the query counts once per repetition.
package lexical

import (
	"math"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// Ref names a unit of text: a passage (both ordinals), a section (Passage is -1) or a document
// (both are -1). Ties are ordered by version id, then section, then passage.
type Ref struct {
	Version uuid.UUID
	Section int
	Passage int
}

// Settings are the parameters of BM25.
type Settings struct {
	K1, B float64
}

// Defaults are the usual settings in the literature for running text.
var Defaults = Settings{K1: 1.2, B: 0.75}

// IDF is the inverse document frequency of a term that df of n units have.
func IDF(n, df int) float64 {
	return math.Log(1 + (float64(n)-float64(df)+0.5)/(float64(df)+0.5))
}

// TermQuery is a query for the best units.
type TermQuery struct {
	Unit     schema.Unit
	Terms    []string // analysed; repetitions count
	K        int
	Settings Settings
	// Groups are the principal's groups: it sees a labelled entry if it has one of the entry's
	// labels.
	Groups []string
	// Filter restricts the search to versions whose metadata match it.
	Filter schema.Filter
	// Versions, if not nil, restricts the search to these versions.
	Versions *Versions
	// Within, if not nil, restricts the search to these sections, documents and clusters. The later
	// stages of a funnel search inside what the earlier ones kept.
	Within *Within
}

// Within is a set of places. It contains the text that lies in any of them.
type Within struct {
	Sections map[Ref]bool // Passage -1, and Section -1 for whole documents
	Clusters map[uuid.UUID]bool
}

// Hit is a unit with its score. If the unit is a cluster, Cluster is set and Ref is zero.
type Hit struct {
	Ref     Ref
	Cluster uuid.UUID
	Score   float64
	// Tokens is the length in analysed terms of the text of the unit that was searched.
	Tokens int
}

// Statistics are the statistics that scores of a unit are computed from.
type Statistics struct {
	Units   int            // N
	Average float64        // avglen
	DF      map[string]int // by term of the query
}

// Result is the result of a search: hits by descending score, ties by Ref or cluster id.
type Result struct {
	Hits       []Hit
	Statistics Statistics
	// Scored is the number of units that were scored, Pruned the number of blocks of postings that
	// were skipped.
	Scored, Pruned int
}
