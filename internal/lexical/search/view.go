package search

import (
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

// View is a snapshot of a collection for a query: the live generation's segments, the dead entries,
// and the pages of the terms in Needs. It does not change and is safe for concurrent use.
type View struct {
	Segments []SegmentView
	Dead     map[uuid.UUID]bool // entries; may include some that no segment has
	Clusters *lexical.Clusters  // nil: every section is a cluster of its own
	// Statistics are shared by views of the same segments and dead entries; nil: each search
	// computes its own.
	Statistics *StatisticsCache

	// visibleSets are the entries that are visible to the groups of visibleKey, if they were
	// cached. The pages of labels are not needed then.
	visibleSets []Bits
	visibleKey  string
	// lists are the cached lists of terms, whose pages are not needed.
	lists []cachedTermLists
	// conditions are the evaluated conditions of filter.
	filter     schema.Filter
	conditions []*conditionSets
	// parts is into how many parts a search is divided; 0: by the number of slots. Tests set it.
	parts int
}

// SegmentView is a segment in a View.
type SegmentView struct {
	*segment.Header
	Directory *segment.Directory
	Pages     []NumberedPage // ascending; the pages of the terms in Needs

	clusters *atomic.Pointer[segmentClusters] // cached; nil: not
}

// NumberedPage is a page of terms and its number in its segment.
type NumberedPage struct {
	Number int
	Page   *segment.Page
}

// page returns a page; nil: the view does not have it.
func (s *SegmentView) page(number int) *segment.Page {
	low, high := 0, len(s.Pages)
	for low < high {
		middle := int(uint(low+high) >> 1)
		switch n := s.Pages[middle].Number; {
		case n == number:
			return s.Pages[middle].Page
		case n < number:
			low = middle + 1
		default:
			high = middle
		}
	}
	return nil
}

// Needs lists the terms whose pages a search reads: those of the query and of the groups' labels.
func Needs(q lexical.TermQuery) []string {
	terms := make([]string, 0, len(q.Terms)+len(q.Groups)+1)
	terms = append(terms, q.Terms...)
	return append(terms, NeedsOfGroups(q.Groups)...)
}

// NeedsOfGroups lists the terms whose pages View.Visible reads.
func NeedsOfGroups(groups []string) []string {
	terms := make([]string, 0, len(groups)+1)
	for _, g := range groups {
		terms = append(terms, segment.LabelTerm(g))
	}
	return append(terms, segment.OpenTerm)
}
