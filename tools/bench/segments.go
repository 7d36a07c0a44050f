package main

// This file measures searches while segments wait to be merged: the same documents in 64 segments,
// and in as few as merging leaves.

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/schema"
)

type segmentsCommand struct {
	common
	Segments int           `default:"64" help:"How many segments wait."`
	Passages int           `default:"1500" help:"Passages of a segment: a batch of ingestion."`
	K        int           `default:"100" help:"How many units are wanted."`
	Slice    time.Duration `default:"2s" help:"Longest time of a side in a round."`
}

func (c *segmentsCommand) Run(ctx context.Context) error { return c.run(ctx, "segments", c.measure) }

// units are the sizes of text that are searched, smallest first.
var units = []schema.Unit{schema.UnitPassage, schema.UnitSection, schema.UnitDocument, schema.UnitCluster}

func (c *segmentsCommand) measure(ctx context.Context, b *workbench, t texts, f *findings) error {
	progressf("segments: loading")
	docs := first(t, c.Segments*c.Passages)
	var spaces [2]space
	for i, name := range []string{"waiting", "merged"} {
		var err error
		if spaces[i], err = b.newSpace(ctx, name); err != nil {
			return err
		}
		l := &loader{workbench: b, space: spaces[i], keep: true}
		// Write exactly one batch per segment.
		for n := range c.Segments {
			part := docs[len(docs)*n/c.Segments : len(docs)*(n+1)/c.Segments]
			ready, err := l.prepare(ctx, part)
			if err == nil {
				err = l.write(ctx, ready)
			}
			if err != nil {
				return err
			}
		}
		if err := l.saveClusters(ctx, l.cluster(docs, clusterTokens)); err != nil {
			return err
		}
	}
	if err := b.mergeAll(ctx, spaces[1]); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	var counts [2]int64
	for i, s := range spaces {
		var err error
		if counts[i], err = single[int64](ctx, b, `SELECT count(*) FROM lexical_segments WHERE collection_id = $1 AND merged_at IS NULL`, s.collection); err != nil {
			return err
		}
	}
	f.note("corpus", "%d passages of %d documents; %d segments, and merged into %d", len(flat(docs)), len(docs), counts[0], counts[1])

	if err := c.measuring("segments"); err != nil {
		return err
	}
	index := search.NewIndex(b.store, indexCache)
	queries := questions(docs, 400, c.Seed)
	for _, unit := range units {
		query := lexical.TermQuery{Unit: unit, K: c.K, Settings: lexical.Defaults}
		var sides []side
		for i, s := range spaces {
			sides = append(sides, queryRounds([]string{"waiting", "merged"}[i], queries, 1, c.Slice, func(ctx context.Context, q string) error {
				r, err := index.SearchText(ctx, s.Tenant, s.collection, q, query)
				if err == nil && len(r.Hits) == 0 {
					err = fmt.Errorf("%q finds nothing", q)
				}
				return err
			}))
		}
		for _, s := range sides { // warm up
			if _, _, err := s.measure(ctx, 0); err != nil {
				return err
			}
		}
		rates, err := rounds(ctx, c.Rounds, sides...)
		if err != nil {
			return err
		}
		f.compare(ratio{What: fmt.Sprintf("%ss, %d segments", unit, counts[0]), Unit: "queries/s", Ours: rates[0], Other: rates[1], Against: "merged", Target: 0.7})
	}
	return nil
}

// mergeAll merges until nothing is due.
func (b *workbench) mergeAll(ctx context.Context, s space) error {
	for {
		n, err := b.store.MergeSegments(ctx, s.Tenant, s.collection)
		if err != nil || n == 0 {
			return err
		}
	}
}
