package search

import (
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

// View is all that one query sees of a collection: the living generation's
// segments, the dead entries, and the pages that TermQuery.Needs asks for. A View
// may be searched by many goroutines; nothing in it changes.
type View struct {
	Segments []SegmentView
	Dead     map[uuid.UUID]bool // entries; ones that no segment holds do no harm
	Clusters *lexical.Clusters  // nil: every section is a cluster of its own
	// Statistics remembers what holds for this list of segments and these dead
	// entries. Views of the same list and the same dead may share it, and no
	// other; nil: computed for this search alone.
	Statistics *StatisticsCache

	// visibleSets are the entries that are visible to the groups that visibleKey names,
	// where they were known before: the pages of labels are not needed then.
	visibleSets []Bits
	visibleKey  string
	// lists are those of terms whose pages are not needed.
	lists []cachedTermLists
	// conditions are what is known of filter's.
	filter     schema.Filter
	conditions []*conditionSets
}

// SegmentView is a segment as one query sees it.
type SegmentView struct {
	*segment.Header
	Directory *segment.Directory
	Pages     []NumberedPage // rising; those that EachPage has for Needs(query)

	clusters *atomic.Pointer[segmentClusters] // what is remembered; nil: nothing
}

// NumberedPage is a page of terms and its number in its segment.
type NumberedPage struct {
	Number int
	Page   *segment.Page
}

// page returns a page; nil: the view lacks it.
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

// Needs lists the terms whose pages a search reads: the query's and those of
// the asker's groups.
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
