package main

// This file compares searching and indexing passages with Bleve, with the same texts and the same
// text analysis.

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/schema"
)

type lexicalCommand struct {
	common
	Passages int    `default:"300000" help:"How many passages there are."`
	K        int    `default:"100" help:"How many passages are wanted."`
	Queries  int    `default:"200" help:"How many questions are asked in a round."`
	Bleve    string `placeholder:"FILE" help:"The program that is Bleve; bench-bleve beside this one when empty."`
}

func (c *lexicalCommand) Run(ctx context.Context) error { return c.run(ctx, "lexical", c.measure) }

const (
	indexedAtOnce = 256  // documents, as in curation
	bleveBatch    = 2000 // passages, about the same amount
)

func (c *lexicalCommand) measure(ctx context.Context, b *workbench, t texts, f *findings) (err error) {
	s, err := b.newSpace(ctx, "lexical")
	if err != nil {
		return err
	}
	other, err := startBleve(c.Bleve, filepath.Join(b.dir, "bleve"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.close()) }()
	docs := first(t, c.Passages)
	passages := flat(docs)
	f.note("corpus", "%d passages of %d documents, %.1f MB", len(passages), len(docs), float64(bytesOf(passages))/1e6)
	l := &loader{workbench: b, space: s, keep: true}
	if err := c.index(ctx, l, other, docs, f); err != nil {
		return err
	}

	progressf("lexical: merging")
	if err := b.mergeAll(ctx, s); err != nil {
		return err
	}
	if _, err := other.ask(ctx, bleveRequest{Op: "merge"}); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	if err := c.sizes(ctx, b, other, len(passages), f); err != nil {
		return err
	}

	index := search.NewIndex(b.store, indexCache)
	query := lexical.TermQuery{Unit: schema.UnitPassage, K: c.K, Settings: lexical.Defaults}
	queries := questions(docs, c.Queries, c.Seed)
	if err := c.agreement(ctx, l, other, index, passages, queries[:min(len(queries), 30)], f); err != nil {
		return err
	}
	ask := func(ctx context.Context, _ int) (float64, time.Duration, error) {
		took, err := timed(func() error {
			for _, q := range queries {
				if _, err := index.SearchText(ctx, s.Tenant, s.collection, q, query); err != nil {
					return err
				}
			}
			return nil
		})
		return float64(len(queries)), took, err
	}
	searchOther := func(ctx context.Context, _ int) (float64, time.Duration, error) {
		r, err := other.ask(ctx, bleveRequest{Op: "search", Queries: queries, K: c.K})
		return float64(len(queries)), r.took(), err
	}
	if err := c.measuring("lexical"); err != nil {
		return err
	}
	for _, warm := range []func(context.Context, int) (float64, time.Duration, error){ask, searchOther} {
		if _, _, err := warm(ctx, 0); err != nil {
			return err
		}
	}
	rates, err := rounds(ctx, c.Rounds, side{"Sluice", ask}, side{"Bleve", searchOther})
	if err != nil {
		return err
	}
	f.compare(ratio{What: fmt.Sprintf("BM25 top %d of passages", c.K), Unit: "queries/s", Ours: rates[0], Other: rates[1], Against: "Bleve", Target: 3})
	return f.pure(ctx, index, s, queries, query)
}

// index loads the documents, deletes their postings and rebuilds them, in as many parts as there
// are rounds.
func (c *lexicalCommand) index(ctx context.Context, l *loader, other *bleve, docs []written, f *findings) error {
	parts := make([][]written, c.Rounds)
	for i := range parts {
		parts[i] = docs[len(docs)*i/c.Rounds : len(docs)*(i+1)/c.Rounds]
	}
	ours := side{"Sluice", func(ctx context.Context, round int) (float64, time.Duration, error) {
		if err := l.load(ctx, parts[round]); err != nil {
			return 0, 0, err
		}
		// The newest versions are those of this part; the older ones keep their postings.
		if err := l.forgetPostings(ctx, len(parts[round])); err != nil {
			return 0, 0, err
		}
		took, err := timed(func() error { return l.indexAll(ctx) })
		return float64(len(flat(parts[round]))), took, err
	}}
	next := 0
	theirs := side{"Bleve", func(ctx context.Context, round int) (float64, time.Duration, error) {
		texts := flat(parts[round])
		r, err := other.ask(ctx, bleveRequest{Op: "index", Texts: texts, First: next, Batch: bleveBatch, Writers: runtime.GOMAXPROCS(0)})
		next += len(texts)
		return float64(len(texts)), r.took(), err
	}}
	progressf("lexical: indexing")
	rates, err := rounds(ctx, c.Rounds, ours, theirs)
	if err != nil {
		return err
	}
	f.compare(ratio{What: "indexing passages", Unit: "passages/s", Ours: rates[0], Other: rates[1], Against: "Bleve", Target: 2})
	return nil
}

// forgetPostings deletes the postings of the newest documents.
func (l *loader) forgetPostings(ctx context.Context, newest int) error {
	var versions []string
	for _, d := range l.kept[len(l.kept)-newest:] {
		versions = append(versions, d.Version.String())
	}
	_, err := l.others.Exec(ctx, `DELETE FROM lexical_entries WHERE version_id = ANY ($1::text[]::uuid[])`, versions)
	if err == nil {
		// Segments are created in order: those that are new belong to this part.
		_, err = l.others.Exec(ctx, `
			WITH gone AS (DELETE FROM lexical_segments WHERE collection_id = $1 AND NOT id = ANY ($2::text[]::uuid[]) RETURNING id)
			DELETE FROM lexical_pages WHERE segment_id IN (SELECT id FROM gone)`, l.collection, append([]string{}, l.segments...))
	}
	if err != nil {
		return fmt.Errorf("take postings away: %w", err)
	}
	return nil
}

// indexAll creates all missing postings.
func (l *loader) indexAll(ctx context.Context) error {
	for {
		done, left, err := l.store.BackfillLexical(ctx, l.Tenant, l.collection, indexedAtOnce)
		if err != nil {
			return err
		}
		if left == 0 {
			return l.noteSegments(ctx)
		}
		if done == 0 {
			return fmt.Errorf("%d documents are not indexed", left)
		}
	}
}

// noteSegments records the current segments.
func (l *loader) noteSegments(ctx context.Context) error {
	var err error
	l.segments, err = single[[]string](ctx, l.workbench, `SELECT coalesce(array_agg(id::text), '{}') FROM lexical_segments WHERE collection_id = $1`, l.collection)
	return err
}

// sizes notes the size of both indexes on disk.
func (c *lexicalCommand) sizes(ctx context.Context, b *workbench, other *bleve, passages int, f *findings) error {
	r, err := other.ask(ctx, bleveRequest{Op: "size"})
	if err != nil {
		return err
	}
	if r.Documents != passages {
		return fmt.Errorf("the index of Bleve has %d passages of %d", r.Documents, passages)
	}
	own, err := single[int64](ctx, b, `SELECT sum(bytes)::bigint FROM lexical_segments WHERE merged_at IS NULL`)
	if err != nil {
		return err
	}
	f.note("index on disk", "Sluice %.0f bytes per passage, Bleve %.0f", float64(own)/float64(passages), float64(r.Bytes)/float64(passages))
	return nil
}

func bytesOf(texts []string) int {
	n := 0
	for _, t := range texts {
		n += len(t)
	}
	return n
}
