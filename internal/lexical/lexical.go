// Package lexical is the inverted index: exact BM25 over passages, sections,
// whole documents and clusters of sections, from one set of postings.
//
// This package has the words of it: text becomes terms here, and units, queries
// and results have their names. Package segment is the format that postings are
// stored in, package search finds what a query asks for. None of them does input
// or output.
//
// Scores are those of BM25 (Robertson and Zaragoza 2009, eq. 3.15) with
//
//	idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))
//	score  = sum over t of idf(t) * f * (k1 + 1) / (f + k1 * (1 - b + b * len / avglen))
//
// where N, df and avglen are of the living text of the collection in the unit
// that is searched, whatever the asker may see, and f and len are of the text
// that is scored. len counts analysed terms. A term that the question repeats
// counts once per repetition.
package lexical

import (
	"math"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// Ref names a unit of text: a passage (both ordinals), a section (Passage is
// -1) or a document (both are -1). It is also the order of ties: by version id,
// then section, then passage.
type Ref struct {
	Version uuid.UUID
	Section int
	Passage int
}

// Settings of BM25.
type Settings struct {
	K1, B float64
}

// Defaults are the settings of the literature for running text.
var Defaults = Settings{K1: 1.2, B: 0.75}

// IDF is the inverse document frequency of a term that df of n units have.
func IDF(n, df int) float64 {
	return math.Log(1 + (float64(n)-float64(df)+0.5)/(float64(df)+0.5))
}

// TermQuery asks for the best units.
type TermQuery struct {
	Unit     schema.Unit
	Terms    []string // analysed; repeated ones count
	K        int
	Settings Settings
	// Groups are the asker's: labelled entries are seen by those that have one
	// of their labels.
	Groups []string
	// Filter restricts to versions whose metadata satisfy it.
	Filter schema.Filter
	// Versions restricts to some versions when it is not nil.
	Versions *Versions
	// Within restricts to some sections, documents or clusters when it is not
	// nil: later stages of a funnel score inside what earlier ones kept.
	Within *Within
}

// Within is a set of places: text that lies in any of them counts.
type Within struct {
	Sections map[Ref]bool // Passage -1, and Section -1 for whole documents
	Clusters map[uuid.UUID]bool
}

// Hit is a unit with its score. Cluster is set where the unit is a cluster, and
// Ref is zero there.
type Hit struct {
	Ref     Ref
	Cluster uuid.UUID
	Score   float64
	// Tokens is the unit's length in analysed terms, of the text that counted.
	Tokens int
}

// Statistics are what the scores of a unit rest on.
type Statistics struct {
	Units   int            // N
	Average float64        // avglen
	DF      map[string]int // by term of the query
}

// Result is what a search found: hits by falling score, equal ones by Ref or
// cluster id.
type Result struct {
	Hits       []Hit
	Statistics Statistics
	// Scored is how many units were scored, Pruned how many blocks of postings
	// were passed over unread.
	Scored, Pruned int
}
