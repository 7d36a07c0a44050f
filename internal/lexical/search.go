package lexical

import (
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/schema"
)

// queryTerm is a term of the query in all segments.
type queryTerm struct {
	term    string
	times   int
	weight  float64
	cursors []*cursor // by segment; nil: not there
}

// search is one search under way.
type search struct {
	view   *View
	query  *Query
	cache  *StatisticsCache
	life   *life
	zoom   zoom
	terms  []queryTerm
	scopes []scope
	scorer scorer
	top    top
	result Result
}

// Search finds the K best units, exactly. The view must hold the pages of
// q.Needs().
func Search(v *View, q Query) (Result, error) {
	if err := v.check(); err != nil {
		return Result{}, err
	}
	settings, err := q.settings()
	if err != nil {
		return Result{}, err
	}
	if len(q.Terms) > maxTerms {
		return Result{}, fmt.Errorf("a query of %d terms; %d is the most", len(q.Terms), maxTerms)
	}
	s := search{view: v, query: &q, cache: v.cache(), top: top{k: max(q.K, 0)}}
	s.life = s.cache.lifeOf(v)
	switch q.Unit {
	case schema.UnitPassage:
		s.zoom = zoomPassage
	case schema.UnitSection:
		s.zoom = zoomSection
	case schema.UnitDocument:
		s.zoom = zoomDocument
	case schema.UnitCluster:
	default:
		return Result{}, fmt.Errorf("a search for units of %q", q.Unit)
	}
	defer s.close()
	s.listTerms()
	var partial bool
	if s.scopes, partial, err = v.scopes(&q, s.cache, s.life); err != nil {
		return Result{}, err
	}
	if q.Unit == schema.UnitCluster {
		err = s.clusters(settings)
	} else {
		err = s.nested(settings, partial && s.zoom == zoomDocument)
	}
	if err != nil {
		return Result{}, err
	}
	for _, t := range s.terms {
		for _, c := range t.cursors {
			if c != nil {
				s.result.Pruned += max(0, c.total-c.read)
			}
		}
	}
	return s.result, nil
}

// listTerms lists the query's terms.
func (s *search) listTerms() {
	numbers := make(map[string]int, len(s.query.Terms))
	for _, t := range s.query.Terms {
		if i, ok := numbers[t]; ok {
			s.terms[i].times++
			continue
		}
		numbers[t] = len(s.terms)
		s.terms = append(s.terms, queryTerm{term: t, times: 1})
	}
}

// open finds a term in the segments.
func (s *search) open(t *queryTerm) error {
	t.cursors = make([]*cursor, len(s.view.Segments))
	if t.term == "" || t.term[0] == 0 {
		return nil // never the term of a text
	}
	key := termKey(t.term)
	for i := range s.view.Segments {
		c := cursors.Get().(*cursor)
		found, err := c.open(&s.view.Segments[i], t.term, key)
		if err != nil || !found {
			c.release()
			if err != nil {
				return err
			}
			continue
		}
		t.cursors[i] = c
	}
	return nil
}

func (s *search) close() {
	for _, t := range s.terms {
		for _, c := range t.cursors {
			if c != nil {
				c.release()
			}
		}
	}
}

// nested searches passages, sections or documents.
func (s *search) nested(settings Settings, partial bool) error {
	units := s.life.units[s.zoom]
	st := Statistics{Units: units, DF: make(map[string]int, len(s.terms))}
	if units > 0 {
		st.Average = float64(s.life.lengths[s.zoom]) / float64(units)
	}
	s.scorer = newScorer(settings, st.Average)
	for i := range s.terms {
		t := &s.terms[i]
		if err := s.open(t); err != nil {
			return err
		}
		df := s.cache.documentFrequency(s.view, s.life, s.zoom, t.term, t.cursors)
		st.DF[t.term] = df
		t.weight = weightOf(settings, units, df, t.times)
	}
	s.result.Statistics = st
	if s.top.k == 0 {
		return nil
	}
	s.top.ordered = func(a, b place) int { return compareRefs(s.ref(a), s.ref(b)) }
	var live []*cursor
	w := windows.Get().(*window)
	defer windows.Put(w)
	for i := range s.view.Segments {
		d := s.view.Segments[i].Directory
		live = live[:0]
		for _, t := range s.terms {
			if c := t.cursors[i]; c != nil {
				c.unitOf, c.zoom, c.weight = d.unitOf(s.zoom), s.zoom, t.weight
				live = append(live, c)
			}
		}
		if len(live) == 0 {
			continue
		}
		if partial {
			s.partial(i, live)
		} else {
			w.search(s, i, live)
		}
		if slices.ContainsFunc(live, func(c *cursor) bool { return c.corrupt }) {
			return fmt.Errorf("segment %s: %w: a block of postings", s.view.Segments[i].ID, ErrCorrupt)
		}
	}
	for _, p := range s.top.sorted() {
		s.result.Hits = append(s.result.Hits, Hit{
			Ref: s.ref(p), Score: p.score.float(), Tokens: s.tokens(p),
		})
	}
	return nil
}

func (s *search) ref(p place) Ref {
	return s.view.Segments[p.segment].Directory.ref(s.zoom, p.unit)
}

func (s *search) tokens(p place) int {
	d := s.view.Segments[p.segment].Directory
	if scope := &s.scopes[p.segment]; s.zoom == zoomDocument && scope.within {
		return int(scope.lengthOf(d, p.unit))
	}
	return int(d.lengths[s.zoom][p.unit])
}
