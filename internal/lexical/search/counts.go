package search

import (
	"fmt"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

// How many sections with a term a principal may see. What users are told must not depend on text
// that they may not read; scores, in contrast, use the statistics of all text.

// Counts returns for each of q's terms the number of sections that have it in entries visible to
// q's groups; it counts up to most. The view must have the pages of Needs(q).
func (v *View) Counts(q lexical.TermQuery, limit int) (map[string]int, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	if len(q.Terms) > maxTerms {
		return nil, fmt.Errorf("a query of %d terms; %d is the most", len(q.Terms), maxTerms)
	}
	cache := v.cache()
	l := cache.liveEntriesOf(v)
	visible, err := v.visible(cache, l, q.Groups, nil, nil, false)
	if err != nil {
		return nil, err
	}
	all := true
	for i, set := range visible {
		all = all && (set == nil || l.live[i] != nil && set.Count() == l.live[i].Count())
	}
	var terms []queryTerm
	seen := make(map[string]bool, len(q.Terms))
	for _, term := range q.Terms {
		if !seen[term] {
			seen[term], terms = true, append(terms, queryTerm{term: term, times: 1})
		}
	}
	if err := cache.setLists(v, l, terms); err != nil {
		return nil, err
	}
	out := make(map[string]int, len(terms))
	for i := range terms {
		t := &terms[i]
		n := min(t.lists.df[segment.ZoomSection], limit)
		if !all && n > 0 {
			if n, err = v.countVisible(t, visible, limit); err != nil {
				return nil, err
			}
		}
		out[t.term] = n
	}
	return out, nil
}

// countVisible counts sections with a term in some entries, up to most.
func (v *View) countVisible(t *queryTerm, visible []Bits, limit int) (int, error) {
	c := cursors.Get().(*cursor)
	defer c.release()
	n := 0
	for i := range v.Segments {
		s := &v.Segments[i]
		found, err := c.open(s, i, t)
		if err != nil {
			return 0, err
		}
		if !found {
			continue
		}
		section := exhausted
		for slot := c.seek(0); slot != exhausted && n < limit; {
			entry := s.Directory.SlotEntry[slot]
			first, end := s.Directory.Slots(segment.ZoomDocument, entry)
			if visible[i] != nil && !visible[i].Has(int(entry)) {
				slot = c.seek(end)
				continue
			}
			if in := s.Directory.SlotSection[slot]; slot != first && in != section { // the first is the title
				section = in
				n++
			}
			slot = c.seek(slot + 1)
		}
		if c.corrupt {
			return 0, corruptBlock(s)
		}
	}
	return n, nil
}
