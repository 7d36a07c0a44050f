package main

// This file scores every unit for a question in a simple, slow way. An exact search must find the
// same.

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
)

// oracle has the frequencies of the questions' terms in each unit.
type oracle struct {
	analyzer *lexical.Analyzer
	wanted   map[string]int // index of each term in counts
	ids      []uuid.UUID
	counts   []map[int]int
	lengths  []int
	total    int
	df       []int
}

func newOracle(a *lexical.Analyzer, questions []string) *oracle {
	o := &oracle{analyzer: a, wanted: map[string]int{}}
	for _, q := range questions {
		for _, term := range a.Terms(q) {
			if _, ok := o.wanted[term]; !ok {
				o.wanted[term] = len(o.wanted)
			}
		}
	}
	o.df = make([]int, len(o.wanted))
	return o
}

// add adds a unit's passages.
func (o *oracle) add(id uuid.UUID, passages []string) {
	counts, length := map[int]int{}, 0
	for _, p := range passages {
		terms := o.analyzer.Terms(p)
		length += len(terms)
		for _, term := range terms {
			if at, ok := o.wanted[term]; ok {
				counts[at]++
			}
		}
	}
	for at := range counts {
		o.df[at]++
	}
	o.ids, o.counts, o.lengths = append(o.ids, id), append(o.counts, counts), append(o.lengths, length)
	o.total += length
}

// scored is a unit with its score.
type scored struct {
	id    uuid.UUID
	score float64
}

// best returns the k best units by score, equal ones by id.
func (o *oracle) best(question string, k int) []scored {
	s := lexical.Defaults
	n := float64(len(o.ids))
	average := float64(o.total) / n
	var out []scored
	terms := o.analyzer.Terms(question)
	for i, counts := range o.counts {
		score := 0.0
		for _, term := range terms {
			at := o.wanted[term]
			if counts[at] == 0 {
				continue
			}
			f, df := float64(counts[at]), float64(o.df[at])
			idf := math.Log(1 + (n-df+0.5)/(df+0.5))
			score += idf * f * (s.K1 + 1) / (f + s.K1*(1-s.B+s.B*float64(o.lengths[i])/average))
		}
		if score > 0 {
			out = append(out, scored{o.ids[i], score})
		}
	}
	slices.SortFunc(out, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), bytes.Compare(a.id[:], b.id[:])) })
	return out[:min(k, len(out))]
}

// compare returns an error if a result of clusters differs from the best ones.
func (o *oracle) compare(question string, k int, got lexical.Result) error {
	want := o.best(question, k)
	if len(got.Hits) != len(want) {
		return fmt.Errorf("%q: %d clusters found, there are %d", question, len(got.Hits), len(want))
	}
	for i, w := range want {
		h := got.Hits[i]
		if math.Abs(h.Score-w.score) > 1e-6 {
			return fmt.Errorf("%q: rank %d has score %.9f, not %.9f", question, i+1, h.Score, w.score)
		}
		// Sums in another order may differ in their last bits, which may swap equal scores.
		if h.Cluster != w.id && !slices.ContainsFunc(want, func(s scored) bool { return s.id == h.Cluster && math.Abs(s.score-h.Score) < 1e-6 }) &&
			math.Abs(w.score-want[len(want)-1].score) > 1e-6 {
			return fmt.Errorf("%q: rank %d is %s, not %s", question, i+1, h.Cluster, w.id)
		}
	}
	return nil
}

// pure notes how fast a search is without queries to the store, and how fast PostgreSQL answers
// that nothing has changed. A search runs both at the same time.
func (f *findings) pure(ctx context.Context, index *search.Index, s space, questions []string, q lexical.TermQuery) error {
	analyzer, err := lexical.NewAnalyzer("en")
	if err != nil {
		return err
	}
	n := min(len(questions), 200)
	views := make([]*search.View, n)
	queries := make([]lexical.TermQuery, n)
	for i := range n {
		queries[i] = q
		queries[i].Terms = analyzer.Terms(questions[i])
		if views[i], err = index.View(ctx, s.Tenant, s.collection, queries[i]); err != nil {
			return err
		}
	}
	statements, err := timed(func() error {
		for i := range n {
			if _, err := index.View(ctx, s.Tenant, s.collection, queries[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	pruned, total := 0, 0
	var times []time.Duration
	for i := range n {
		var r lexical.Result
		took, err := timed(func() (err error) {
			r, err = views[i].Search(queries[i])
			return err
		})
		if err != nil {
			return err
		}
		times = append(times, took)
		pruned += r.Pruned
		total += r.Scored
	}
	ms := millis(times)
	f.note("of a query", "asking PostgreSQL what changed: mean %.2f ms; searching in memory: p50 %.2f ms, p95 %.2f ms; "+
		"%d units scored and %d blocks skipped on average",
		statements.Seconds()*1000/float64(n), median(ms), quantile(ms, 0.95), total/n, pruned/n)
	return nil
}
