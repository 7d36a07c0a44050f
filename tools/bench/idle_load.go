package main

// This file fills the database of an idle server: many collections of many tenants, with no work
// left.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// short are texts in the generated language, with one short passage each.
type short struct{ synthetic }

// shortWords is the median length of such a passage.
const shortWords = 20

func (m short) document(i int) written {
	random := rand.New(rand.NewPCG(m.seed, uint64(i)))
	s := m.language.docGenerator(random)
	out := written{title: s.title(), topic: int(s.topic)}
	var b strings.Builder
	s.passage(&b, s.length(shortWords, passageSpread))
	out.pieces = []sectionText{{text: b.String(), starts: []int{0}}}
	return out
}

// shares divides a number into parts that differ by 1 at most.
func shares(total, parts int) []int {
	out := make([]int, parts)
	for i := range out {
		out[i] = total*(i+1)/parts - total*i/parts
	}
	return out
}

// load writes the documents as ingestion does, and does the work of curation, the relay and the
// counters of tenants' storage.
func (c *idleCommand) load(ctx context.Context, b *workbench) error {
	progressf("idle: loading %d documents", c.Documents)
	// A crash would spoil the measurement anyway.
	if err := b.execute(ctx, `ALTER SYSTEM SET synchronous_commit = off`, `SELECT pg_reload_conf()`); err != nil {
		return err
	}
	var spaces []space
	for i := range c.Tenants {
		p, err := b.newTenant(ctx, fmt.Sprintf("tenant-%d", i+1))
		if err != nil {
			return err
		}
		for n := i; n < c.Collections; n += c.Tenants {
			s, err := b.newCollection(ctx, p, fmt.Sprintf("collection-%d", n+1))
			if err != nil {
				return err
			}
			spaces = append(spaces, s)
		}
	}
	points, texts := newPoints(c.Seed), short{newSynthetic(c.Seed)}
	group, loading := errgroup.WithContext(ctx)
	group.SetLimit(writers())
	first := 0
	for i, count := range shares(c.Documents, len(spaces)) {
		from := first
		first += count
		group.Go(func() error {
			if loading.Err() != nil {
				return context.Cause(loading)
			}
			l := &loader{workbench: b, space: spaces[i], points: points}
			for n := 0; n < count; n += documentsAtOnce {
				docs := make([]written, min(documentsAtOnce, count-n))
				for j := range docs {
					docs[j] = texts.document(from + n + j)
				}
				if err := l.load(loading, docs); err != nil {
					return err
				}
			}
			if err := l.curate(loading); err != nil {
				return fmt.Errorf("curate collection %d: %w", i+1, err)
			}
			if (i+1)%50 == 0 {
				progressf("idle: %d collections are loaded", i+1)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// The relay would only publish messages about documents that are ready already.
	if err := b.execute(ctx, `TRUNCATE outbox`, `ALTER SYSTEM RESET synchronous_commit`, `SELECT pg_reload_conf()`); err != nil {
		return err
	}
	if err := b.store.AddUpStored(ctx); err != nil {
		return err
	}
	if _, err := b.store.RecountStored(ctx, time.Hour, c.Tenants+1); err != nil {
		return err
	}
	return b.settle(ctx)
}

// documentsAtOnce is the number of documents in an upload.
const documentsAtOnce = 64

// curate does what curation does with a collection until nothing is due.
func (l *loader) curate(ctx context.Context) error {
	for more := true; more; {
		var err error
		if _, more, err = l.store.ClusterChanged(ctx, l.Tenant, l.collection); err != nil {
			return fmt.Errorf("cluster: %w", err)
		}
	}
	if err := l.mergeAll(ctx, l.space); err != nil {
		return fmt.Errorf("merge segments: %w", err)
	}
	if _, err := l.store.DropMerged(ctx, l.Tenant, l.collection, 0); err != nil {
		return err
	}
	for more := true; more; {
		var err error
		if more, err = l.store.TendVectors(ctx, l.Tenant, l.collection); err != nil {
			return fmt.Errorf("tend vectors: %w", err)
		}
	}
	return nil
}

func removeDir(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove what was measured: %w", err)
	}
	return nil
}
