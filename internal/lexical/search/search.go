package search

import (
	"fmt"
	"slices"
	"sync"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

// queryTerm is a term of the query.
type queryTerm struct {
	term   string
	times  int
	lists  *termLists
	weight float64 // idf (k1 + 1) repetitions
}

// search is one running search.
type search struct {
	view    *View
	query   *lexical.TermQuery
	cache   *StatisticsCache
	live    *liveEntries
	zoom    segment.Zoom
	terms   []queryTerm
	cursors []*cursor // by term
	scopes  []scope   // by segment
	scorer  bm25
	top     top
	window  window
	blocks  int // of postings, in what was searched
	result  lexical.Result
}

var searches = sync.Pool{New: func() any {
	s := new(search)
	s.window.s = s
	return s
}}

// release puts the search back into the pool, without references to the view.
func (s *search) release() {
	for _, c := range s.cursors {
		c.release()
	}
	clear(s.cursors)
	clear(s.terms)
	clear(s.scopes)
	s.terms, s.cursors, s.scopes, s.blocks = s.terms[:0], s.cursors[:0], s.scopes[:0], 0
	s.view, s.query, s.cache, s.live, s.result, s.top.ordered, s.top.shared = nil, nil, nil, nil, lexical.Result{}, nil, nil
	s.window.release()
	searches.Put(s)
}

// Search finds the K best units, exactly. The view must have the pages of Needs(q).
func (v *View) Search(q lexical.TermQuery) (lexical.Result, error) {
	if err := v.check(); err != nil {
		return lexical.Result{}, err
	}
	settings, err := settingsOf(q)
	if err != nil {
		return lexical.Result{}, err
	}
	if len(q.Terms) > maxTerms {
		return lexical.Result{}, fmt.Errorf("the query has %d terms; at most %d are allowed", len(q.Terms), maxTerms)
	}
	s := searches.Get().(*search)
	defer s.release()
	s.view, s.query, s.cache = v, &q, v.cache()
	s.live = s.cache.liveEntriesOf(v)
	switch q.Unit {
	case schema.UnitPassage:
		s.zoom = segment.ZoomPassage
	case schema.UnitSection:
		s.zoom = segment.ZoomSection
	case schema.UnitDocument:
		s.zoom = segment.ZoomDocument
	case schema.UnitCluster:
	default:
		return lexical.Result{}, fmt.Errorf("unknown unit %q", q.Unit)
	}
	s.listTerms()
	partial, err := s.setScopes()
	if err != nil {
		return lexical.Result{}, err
	}
	if q.Unit == schema.UnitCluster {
		err = s.clusters(settings)
	} else {
		err = s.nested(settings, partial && s.zoom == segment.ZoomDocument)
	}
	return s.result, err
}

// listTerms sets the terms of the query, each once, with how often it occurs.
func (s *search) listTerms() {
	const few = 16
	numbers := map[string]int{} // indexes of the terms after the first few
next:
	for _, t := range s.query.Terms {
		for i := range s.terms[:min(few, len(s.terms))] {
			if s.terms[i].term == t {
				s.terms[i].times++
				continue next
			}
		}
		if i, ok := numbers[t]; ok {
			s.terms[i].times++
			continue
		}
		if len(s.terms) >= few {
			numbers[t] = len(s.terms)
		}
		s.terms = append(s.terms, queryTerm{term: t, times: 1})
	}
}

// nested searches passages, sections or documents.
func (s *search) nested(settings lexical.Settings, partial bool) error {
	if err := s.cache.setLists(s.view, s.live, s.terms); err != nil {
		return err
	}
	units := s.live.units[s.zoom]
	st := lexical.Statistics{Units: units, DF: make(map[string]int, len(s.terms))}
	if units > 0 {
		st.Average = float64(s.live.lengths[s.zoom]) / float64(units)
	}
	s.scorer = newScorer(settings, st.Average)
	highest := score(0)
	for i := range s.terms {
		t := &s.terms[i]
		df := t.lists.df[s.zoom]
		st.DF[t.term] = df
		t.weight = weightOf(settings, units, df, t.times)
		highest += s.scorer.limit(t.weight)
	}
	s.result.Statistics = st
	if s.query.K <= 0 {
		return nil
	}
	s.top.reset(s.query.K, highest)
	s.top.ordered = s.ordered
	var err error
	if n := s.concurrency(); n > 1 {
		err = s.searchParts(n, highest)
	} else {
		s.openCursors()
		for _, i := range s.live.order {
			if err = s.segment(i, partial, s.view.Segments[i].whole(s.zoom)); err != nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	s.result.Pruned = max(0, s.blocks)
	s.top.sort()
	s.result.Hits = slices.Grow(s.result.Hits, len(s.top.units))
	for _, p := range s.top.units {
		s.result.Hits = append(s.result.Hits, lexical.Hit{Ref: s.ref(p), Score: p.score.float(), Tokens: s.tokens(p)})
	}
	return nil
}

// openCursors takes a cursor for each term.
func (s *search) openCursors() {
	for i := range s.terms {
		c := cursors.Get().(*cursor)
		c.weight = s.terms[i].weight
		s.cursors = append(s.cursors, c)
	}
}

// segment searches the units of a segment that are in part.
func (s *search) segment(segment int, partial bool, part span) error {
	if part.first >= part.end {
		return nil
	}
	w := &s.window
	view := &s.view.Segments[segment]
	first, _ := view.Directory.Slots(s.zoom, part.first)
	_, end := view.Directory.Slots(s.zoom, part.end-1)
	w.cursors = w.cursors[:0]
	highest := score(0)
	for i := range s.terms {
		c := s.cursors[i]
		found, err := c.open(view, segment, &s.terms[i])
		if err != nil {
			return err
		}
		if found && c.seekBlock(first) {
			w.cursors = append(w.cursors, c)
			highest += c.setMaxima(s.scorer, s.zoom, end)
			s.blocks += len(c.maxima) - c.at
		}
	}
	if len(w.cursors) == 0 {
		return nil
	}
	if partial {
		s.partial(segment, w.cursors)
	} else if highest >= s.top.threshold {
		w.search(segment, part)
	}
	for _, c := range w.cursors {
		if c.corrupt {
			return corruptBlock(view)
		}
		s.blocks -= c.unpackedBlocks
	}
	return nil
}

func (s *search) ref(p foundUnit) lexical.Ref {
	return s.view.Segments[p.segment].Directory.Ref(s.zoom, p.unit)
}

func (s *search) tokens(p foundUnit) int {
	d := s.view.Segments[p.segment].Directory
	if scope := &s.scopes[p.segment]; s.zoom == segment.ZoomDocument && scope.within {
		return int(scope.lengthOf(d, p.unit))
	}
	return int(d.Lengths[s.zoom][p.unit])
}
