package main

// This file measures how long after its commit a document is found by another process, simulated by
// a store and an index of their own that have searched the collection before. Searches for the
// document start at the commit.

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	lexicalsearch "github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/search"
	"github.com/sluice-rag/sluice/schema"
)

type freshCommand struct {
	common
	Passages  int `default:"30000" help:"Passages of the collection beforehand."`
	Documents int `default:"40" help:"How many documents are added, one by one, for each size of text."`
}

func (c *freshCommand) Run(ctx context.Context) error { return c.run(ctx, "fresh", c.measure) }

// freshLimit is the maximum time until a document is found, in seconds.
const freshLimit = 1.0

func (c *freshCommand) measure(ctx context.Context, b *workbench, t texts, f *findings) error {
	s, err := b.newSpace(ctx, "fresh")
	if err != nil {
		return err
	}
	progressf("fresh: loading")
	docs := first(t, c.Passages)
	l := &loader{workbench: b, space: s, points: newPoints(c.Seed), keep: true}
	if err := l.load(ctx, docs); err != nil {
		return err
	}
	if err := l.saveClusters(ctx, l.cluster(docs, clusterTokens)); err != nil {
		return err
	}
	l.keep = false
	reader, err := store.Open(ctx, b.postgres.URL(), store.Options{Name: "bench reader"})
	if err != nil {
		return err
	}
	defer reader.Close()
	index := lexicalsearch.NewIndex(search.New(reader), indexCache)
	for _, unit := range units { // load the collection
		for _, q := range questions(docs, 20, c.Seed) {
			if _, err := index.SearchText(ctx, s.Tenant, s.collection, q, lexical.TermQuery{Unit: unit, K: 10, Settings: lexical.Defaults}); err != nil {
				return err
			}
		}
	}
	if err := c.measuring("fresh"); err != nil {
		return err
	}
	serial := 0
	for _, unit := range units {
		var seconds []float64
		for range c.Documents {
			serial++
			took, err := c.one(ctx, l, index, unit, serial)
			if err != nil {
				return err
			}
			seconds = append(seconds, took.Seconds())
		}
		f.compare(ratio{What: fmt.Sprintf("found as a %s after its commit, slowest of %d", unit, c.Documents), Unit: "s", Ours: []float64{quantile(seconds, 1)}, Target: freshLimit, AtMost: true})
		f.note(string(unit), "found after p50 %.1f ms, p95 %.1f ms", median(seconds)*1000, quantile(seconds, 0.95)*1000)
	}
	return nil
}

// one adds a document with a word that no other document has, searches for that word until the
// document is found, and returns the time.
func (c *freshCommand) one(ctx context.Context, l *loader, index *lexicalsearch.Index, unit schema.Unit, serial int) (time.Duration, error) {
	word := "zyx" + strings.Map(func(r rune) rune { return 'a' + (r - '0') }, fmt.Sprintf("%06d", serial)) + "q"
	d := newSynthetic(c.Seed + 1).document(serial)
	d.pieces[0].text += word + ". "
	ready, err := l.prepare(ctx, []written{d})
	if err != nil {
		return 0, err
	}
	if err := l.write(ctx, ready); err != nil {
		return 0, err
	}
	committed := time.Now()
	for {
		r, err := index.SearchText(ctx, l.Tenant, l.collection, word, lexical.TermQuery{Unit: unit, K: 10, Settings: lexical.Defaults})
		if err != nil {
			return 0, err
		}
		if len(r.Hits) > 1 {
			return 0, fmt.Errorf("%d %ss have the word of one document", len(r.Hits), unit)
		}
		if len(r.Hits) == 1 {
			if got := r.Hits[0].Ref.Version; unit != schema.UnitCluster && got != ready[0].Version || unit == schema.UnitCluster && r.Hits[0].Cluster == uuid.Nil {
				return 0, fmt.Errorf("another %s was found: %+v", unit, r.Hits[0])
			}
			return time.Since(committed), nil
		}
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("document %d is not found: %w", serial, context.Cause(ctx))
		}
	}
}
