package search

// The oracle: an exhaustive scorer that applies the formulas in the comment of package lexical to
// the documents themselves.

import (
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

// oracle has the live documents of a collection.
type oracle struct {
	documents []segment.VersionText
	clusters  map[lexical.Ref]uuid.UUID // of sections; others are singletons
}

// text is a unit with its terms.
type text struct {
	hit        lexical.Hit
	all, terms []string // the terms for statistics, and the visible ones for scores
}

func (o *oracle) clusterOf(version uuid.UUID, section int) uuid.UUID {
	if c, ok := o.clusters[lexical.Ref{Version: version, Section: section, Passage: -1}]; ok {
		return c
	}
	return lexical.SingletonCluster(version, section)
}

// units lists every unit of the collection.
func (o *oracle) units(q lexical.TermQuery) []*text {
	var units []*text
	byCluster := map[uuid.UUID]*text{}
	for _, doc := range o.documents {
		counts := len(doc.Labels) == 0 || slices.ContainsFunc(doc.Labels, func(l string) bool { return slices.Contains(q.Groups, l) })
		if q.Versions != nil && !q.Versions.Has(doc.Version) {
			counts = false
		}
		whole := q.Within == nil || q.Within.Sections[lexical.Ref{Version: doc.Version, Section: -1, Passage: -1}]
		document := &text{hit: lexical.Hit{Ref: lexical.Ref{Version: doc.Version, Section: -1, Passage: -1}}, all: doc.Title}
		if counts && whole {
			document.terms = doc.Title
		}
		for i, passages := range doc.Sections {
			cluster := o.clusterOf(doc.Version, i)
			within := counts && (whole || q.Within.Sections[lexical.Ref{Version: doc.Version, Section: i, Passage: -1}] || q.Within.Clusters[cluster])
			section := &text{hit: lexical.Hit{Ref: lexical.Ref{Version: doc.Version, Section: i, Passage: -1}}}
			for j, terms := range passages {
				passage := &text{hit: lexical.Hit{Ref: lexical.Ref{Version: doc.Version, Section: i, Passage: j}}, all: terms}
				if within {
					passage.terms = terms
				}
				section.all = append(section.all, passage.all...)
				section.terms = append(section.terms, passage.terms...)
				if q.Unit == schema.UnitPassage {
					units = append(units, passage)
				}
			}
			document.all = append(slices.Clip(document.all), section.all...)
			document.terms = append(slices.Clip(document.terms), section.terms...)
			switch q.Unit {
			case schema.UnitSection:
				units = append(units, section)
			case schema.UnitCluster:
				if byCluster[cluster] == nil {
					byCluster[cluster] = &text{hit: lexical.Hit{Cluster: cluster}}
					units = append(units, byCluster[cluster])
				}
				byCluster[cluster].all = append(byCluster[cluster].all, section.all...)
				byCluster[cluster].terms = append(byCluster[cluster].terms, section.terms...)
			}
		}
		if q.Unit == schema.UnitDocument {
			units = append(units, document)
		}
	}
	return units
}

func count(terms []string, term string) (n int) {
	for _, t := range terms {
		if t == term {
			n++
		}
	}
	return n
}

// search returns every hit, unsorted, and the statistics.
func (o *oracle) search(q lexical.TermQuery) ([]lexical.Hit, lexical.Statistics) {
	units := o.units(q)
	st := lexical.Statistics{Units: len(units), DF: map[string]int{}}
	total := 0
	for _, u := range units {
		total += len(u.all)
	}
	if len(units) > 0 {
		st.Average = float64(total) / float64(len(units))
	}
	for _, t := range q.Terms {
		st.DF[t] = 0
		for _, u := range units {
			if count(u.all, t) > 0 {
				st.DF[t]++
			}
		}
	}
	settings := q.Settings
	if settings == (lexical.Settings{}) {
		settings = lexical.Defaults
	}
	var hits []lexical.Hit
	for _, u := range units {
		found := false
		for _, t := range q.Terms {
			f := float64(count(u.terms, t))
			if f == 0 {
				continue
			}
			found = true
			n, df := float64(st.Units), float64(st.DF[t])
			idf := math.Log(1 + (n-df+0.5)/(df+0.5))
			u.hit.Score += idf * f * (settings.K1 + 1) / (f + settings.K1*(1-settings.B+settings.B*float64(len(u.terms))/st.Average))
		}
		if found {
			u.hit.Tokens = len(u.terms)
			hits = append(hits, u.hit)
		}
	}
	return hits, st
}

// diff describes how a result differs from the oracle's; empty if it does not. Scores may differ by
// 1e-6. Units whose scores are within 1e-8 of each other may come in either order, but units with
// exactly the same score must come by id.
func (o *oracle) diff(q lexical.TermQuery, got lexical.Result) string {
	want, st := o.ranking(q)
	return diffHits(want, st, q.K, got)
}

// ranking is search with the hits in their order.
func (o *oracle) ranking(q lexical.TermQuery) ([]lexical.Hit, lexical.Statistics) {
	want, st := o.search(q)
	slices.SortFunc(want, func(a, b lexical.Hit) int {
		if a.Score != b.Score {
			return -compareFloats(a.Score, b.Score)
		}
		return compareHits(a, b)
	})
	return want, st
}

func compareHits(a, b lexical.Hit) int {
	if c := compareIDs(a.Cluster, b.Cluster); c != 0 {
		return c
	}
	return compareRefs(a.Ref, b.Ref)
}

func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
