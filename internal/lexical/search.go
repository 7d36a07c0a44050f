package lexical

import (
	"cmp"
	"fmt"

	"github.com/sluice-rag/sluice/schema"
)

// queryTerm is a term of the query.
type queryTerm struct {
	term   string
	times  int
	lists  *termLists
	weight float64 // idf (k1 + 1) repetitions
}

// search is one search under way.
type search struct {
	view    *View
	query   *Query
	cache   *StatisticsCache
	life    *life
	zoom    zoom
	terms   []queryTerm
	scopes  []scope
	scorer  scorer
	top     top
	result  Result
	cursors []*cursor // by term
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
	return s.result, err
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

func (s *search) close() {
	for _, c := range s.cursors {
		c.release()
	}
}

// nested searches passages, sections or documents.
func (s *search) nested(settings Settings, partial bool) error {
	if err := s.cache.listsOf(s.view, s.life, s.terms); err != nil {
		return err
	}
	units := s.life.units[s.zoom]
	st := Statistics{Units: units, DF: make(map[string]int, len(s.terms))}
	if units > 0 {
		st.Average = float64(s.life.lengths[s.zoom]) / float64(units)
	}
	s.scorer = newScorer(settings, st.Average)
	for i := range s.terms {
		t := &s.terms[i]
		df := t.lists.df[s.zoom]
		st.DF[t.term] = df
		t.weight = weightOf(settings, units, df, t.times)
		c := cursors.Get().(*cursor)
		c.weight = t.weight
		s.cursors = append(s.cursors, c)
	}
	s.result.Statistics = st
	if s.top.k == 0 {
		return nil
	}
	s.top.ordered = s.ordered
	w := windows.Get().(*window)
	defer w.release()
	w.s = s
	for _, i := range s.life.order {
		if err := s.segment(w, i, partial); err != nil {
			return err
		}
	}
	places := s.top.sorted()
	s.result.Hits = make([]Hit, len(places))
	for i, p := range places {
		s.result.Hits[i] = Hit{Ref: s.ref(p), Score: p.score.float(), Tokens: s.tokens(p)}
	}
	return nil
}

// segment searches a segment.
func (s *search) segment(w *window, segment int, partial bool) error {
	view := &s.view.Segments[segment]
	w.live = w.live[:0]
	highest, blocks := score(0), 0
	for i := range s.terms {
		c := s.cursors[i]
		found, err := c.open(view, segment, &s.terms[i])
		if err != nil {
			return err
		}
		if found {
			w.live = append(w.live, c)
			highest += c.setMaxima(s.scorer, s.zoom)
			blocks += len(c.blocks)
		}
	}
	if len(w.live) == 0 {
		return nil
	}
	if partial {
		s.partial(segment, w.live)
	} else if highest >= s.top.least() {
		w.search(segment)
	}
	for _, c := range w.live {
		if c.corrupt {
			return corruptBlock(view)
		}
		blocks -= c.visited
	}
	s.result.Pruned += blocks
	return nil
}

// ordered compares places of the same score.
func (s *search) ordered(a, b place) int {
	if a.segment == b.segment {
		d := s.view.Segments[a.segment].Directory
		x, y := d.entryOf(s.zoom, a.unit), d.entryOf(s.zoom, b.unit)
		if x == y {
			return cmp.Compare(a.unit, b.unit)
		}
		if c := compareIDs(d.versions[x], d.versions[y]); c != 0 {
			return c
		}
	}
	return compareRefs(s.ref(a), s.ref(b))
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
