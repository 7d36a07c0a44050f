package main

// This file checks that Bleve and Sluice do the same work: that Bleve's scores follow its formula
// over our terms.

import (
	"context"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/schema"
)

// bleveFormula is Bleve's BM25. It differs from ours in four ways: a term's inverse document
// frequency is squared; the square root of a term's frequency in a text is used; a score is
// multiplied by the share of the question's terms that the text has; and the mean length is the
// number of different terms divided by the number of texts, rounded up.
type bleveFormula struct {
	texts, mean float64
	holding     map[string]int // number of texts that have a term
	terms       func(text string) []string
}

// newBleveFormula counts the texts that have the terms of some questions.
func newBleveFormula(passages, queries []string, size bleveReply) (*bleveFormula, error) {
	analyzer, err := lexical.NewAnalyzer("en")
	if err != nil {
		return nil, err
	}
	f := &bleveFormula{texts: float64(len(passages)), mean: math.Ceil(float64(size.Terms) / float64(size.Documents)), holding: map[string]int{}, terms: analyzer.Terms}
	for _, q := range queries {
		for _, term := range f.terms(q) {
			f.holding[term] = 0
		}
	}
	for _, p := range passages {
		seen := map[string]bool{}
		for _, term := range f.terms(p) {
			if n, wanted := f.holding[term]; wanted && !seen[term] {
				seen[term] = true
				f.holding[term] = n + 1
			}
		}
	}
	return f, nil
}

// score returns the score of a text for a question, up to a factor that depends only on the
// question.
func (f *bleveFormula) score(question []string, text string) float64 {
	frequency := map[string]float64{}
	terms := f.terms(text)
	for _, term := range terms {
		frequency[term]++
	}
	s := lexical.Defaults
	sum, found := 0.0, 0
	for _, term := range question {
		n := float64(f.holding[term])
		if tf := math.Sqrt(frequency[term]); tf > 0 {
			found++
			idf := math.Log(1 + (f.texts-n+0.5)/(n+0.5))
			sum += idf * idf * tf / (tf + s.K1*(1-s.B+s.B*float64(len(terms))/f.mean))
		}
	}
	return sum * float64(found) / float64(len(question))
}

// agreement returns an error unless Bleve's scores follow the formula. It notes how many of the
// same passages both find.
func (c *lexicalCommand) agreement(ctx context.Context, l *loader, other *bleve, index *search.Index, passages, queries []string, f *findings) error {
	size, err := other.ask(ctx, bleveRequest{Op: "size"})
	if err != nil {
		return err
	}
	r, err := other.ask(ctx, bleveRequest{Op: "search", Queries: queries, K: c.K, Hits: true})
	if err != nil {
		return err
	}
	formula, err := newBleveFormula(passages, queries, size)
	if err != nil {
		return err
	}
	number := map[lexical.Ref]int{}
	for _, d := range l.kept {
		for _, s := range d.Text.Sections {
			for _, p := range s.Passages {
				number[lexical.Ref{Version: d.Version, Section: s.Ordinal, Passage: p.Ordinal}] = len(number)
			}
		}
	}
	all, same, common := 0, 0, 0
	for i, q := range queries {
		own, err := index.SearchText(ctx, l.Tenant, l.collection, q, lexical.TermQuery{Unit: schema.UnitPassage, K: c.K, Settings: lexical.Defaults})
		if err != nil {
			return err
		}
		found := map[int]bool{}
		for _, h := range own.Hits {
			found[number[h.Ref]] = true
		}
		question := formula.terms(q)
		factors := make([]float64, len(r.Hits[i]))
		for j, id := range r.Hits[i] {
			all++
			if found[id] {
				common++
			}
			factors[j] = r.Scores[i][j] / formula.score(question, passages[id])
		}
		for _, factor := range factors {
			if math.Abs(factor/median(factors)-1) < 0.05 { // stop words and possessives differ slightly, and so do lengths
				same++
			}
		}
	}
	if all == 0 || float64(same) < 0.99*float64(all) {
		return fmt.Errorf("the sides do not do the same: %d of %d of Bleve's scores are those of its formula over Sluice's terms", same, all)
	}
	f.note("agreement", "%.1f %% of Bleve's scores are those of its formula over Sluice's terms; %.1f %% of its passages are Sluice's, too",
		100*float64(same)/float64(all), 100*float64(common)/float64(all))
	return nil
}
