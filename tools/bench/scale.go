package main

// This file loads a million passages of a hundred tenants of very different sizes through the
// store, does curation's work, and measures the time, the size on disk, and searches.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/schema"
)

type scaleCommand struct {
	common
	Passages int           `default:"1000000" help:"Passages of all tenants."`
	Tenants  int           `default:"100" help:"How many tenants there are. The nth largest has an nth of the largest one's passages."`
	Queries  int           `default:"10" help:"Questions per tenant."`
	K        int           `default:"100" help:"How many units are wanted."`
	Cache    int64         `default:"0" help:"Bytes of the index that the asking process keeps in memory; as a query-worker when 0."`
	Curation time.Duration `default:"9m" help:"Longest time for curation's work: what is not done then is left."`
	Data     string        `placeholder:"DIR" help:"Keep the database there. If it has been loaded, only search it."`
}

func (c *scaleCommand) Run(ctx context.Context) error {
	c.dir = c.Data
	return c.run(ctx, "scale", c.measure)
}

// loadedFile names the file, in the directory of a kept database, that says what it has. It is
// written when loading is complete.
const loadedFile = "loaded.json"

// loaded describes a loaded database.
type loaded struct {
	Corpus string
	Spaces []askSpace
}

// measure loads a database, unless a kept one has been loaded, and searches it.
func (c *scaleCommand) measure(ctx context.Context, b *workbench, t texts, f *findings) error {
	file := filepath.Join(b.dir, loadedFile)
	var l loaded
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if l, err = c.fill(ctx, b, t, f); err != nil {
			return err
		}
		if data, err = json.Marshal(l); err == nil {
			err = os.WriteFile(file, data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("note what was loaded: %w", err)
		}
	case err != nil:
		return fmt.Errorf("read what was loaded: %w", err)
	default:
		if err := json.Unmarshal(data, &l); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		f.note("corpus, loaded before", "%s", l.Corpus)
	}
	if err := c.ask(ctx, b, l.Spaces, f); err != nil {
		return err
	}
	return c.recall(ctx, b, l.Spaces, f)
}

// sizes divides a number of passages among tenants by Zipf's law.
func sizes(passages, tenants int) []int {
	sum := 0.0
	for i := range tenants {
		sum += 1 / float64(i+1)
	}
	out := make([]int, tenants)
	for i := range out {
		out[i] = max(1, int(float64(passages)/sum/float64(i+1)))
	}
	return out
}

// tenantState is a tenant of the measurement.
type tenantState struct {
	*loader
	mu     sync.Mutex
	wanted int // number of passages
	have   int
	number int
	docs   []int // numbers of its documents
}

// fill loads all tenants and does curation's work.
func (c *scaleCommand) fill(ctx context.Context, b *workbench, t texts, f *findings) (loaded, error) {
	residents := make([]*tenantState, c.Tenants)
	p := newPoints(c.Seed)
	for i, n := range sizes(c.Passages, c.Tenants) {
		s, err := b.newSpace(ctx, fmt.Sprintf("tenant-%d", i+1))
		if err != nil {
			return loaded{}, err
		}
		residents[i] = &tenantState{loader: &loader{workbench: b, space: s, points: p}, wanted: n, number: i}
	}
	progressf("scale: loading")
	took, err := timed(func() error { return c.load(ctx, t, residents) })
	if err != nil {
		return loaded{}, err
	}
	passages, documents := 0, 0
	var writing time.Duration
	for _, r := range residents {
		passages += r.have
		documents += len(r.docs)
		writing += r.spent
	}
	out := loaded{Corpus: fmt.Sprintf("%d passages of %d documents; %d tenants, the largest has %d passages, the median %d, the smallest %d",
		passages, documents, c.Tenants, residents[0].have, residents[c.Tenants/2].have, residents[c.Tenants-1].have)}
	f.note("corpus", "%s", out.Corpus)
	f.note("loading", "%.0f s: %.0f passages/s by %d writers; writing took %.0f s of their time, taking documents in and making up text and vectors the rest",
		took.Seconds(), float64(passages)/took.Seconds(), writers(), writing.Seconds())
	if err := c.curate(ctx, residents, f); err != nil {
		return loaded{}, err
	}
	if err := b.settle(ctx); err != nil {
		return loaded{}, err
	}
	if err := c.disk(ctx, b, passages, f); err != nil {
		return loaded{}, err
	}
	for _, r := range residents {
		docs := make([]written, 0, 50)
		random := seeded(c.Seed, 1<<36+r.number)
		for range 50 {
			docs = append(docs, t.document(r.docs[random.IntN(len(r.docs))]))
		}
		seed := c.Seed + uint64(r.number)
		out.Spaces = append(out.Spaces, askSpace{
			Tenant: r.Tenant, Collection: r.collection, Questions: questions(docs, c.Queries, seed), Vectors: r.points.questions(docs, c.Queries),
		})
	}
	return out, nil
}

func writers() int { return max(2, runtime.GOMAXPROCS(0)) }

// load writes batches of tenants that are drawn in proportion to what they lack, as if all were
// ingesting at once.
func (c *scaleCommand) load(ctx context.Context, t texts, residents []*tenantState) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type turn struct {
		r    *tenantState
		docs []int
	}
	turns := make(chan turn)
	var wg sync.WaitGroup
	for range writers() {
		wg.Go(func() {
			for n := range turns {
				docs := make([]written, len(n.docs))
				for i, number := range n.docs {
					docs[i] = t.document(number)
				}
				n.r.mu.Lock() // batches of one tenant are written one after another
				err := n.r.load(ctx, docs)
				n.r.mu.Unlock()
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(c.Seed, 1<<35))
	next := 0
	open := append([]*tenantState{}, residents...)
	for len(open) > 0 && ctx.Err() == nil {
		missing := 0
		for _, r := range open {
			missing += r.wanted - r.have
		}
		at, i := random.IntN(missing), 0
		for at >= open[i].wanted-open[i].have {
			at -= open[i].wanted - open[i].have
			i++
		}
		r := open[i]
		n := turn{r: r}
		for bytes := 0; len(n.docs) < 64 && bytes < 900_000 && r.have < r.wanted; next++ {
			number := next % t.maxDocuments()
			d := t.document(number)
			for _, p := range d.pieces {
				bytes += len(p.text)
			}
			r.have += d.passages()
			n.docs = append(n.docs, number)
		}
		r.docs = append(r.docs, n.docs...)
		if r.have >= r.wanted {
			open = append(open[:i], open[i+1:]...)
		}
		select {
		case turns <- n:
		case <-ctx.Done():
		}
	}
	close(turns)
	wg.Wait()
	return context.Cause(ctx)
}

// curate does the work of curation: it merges segments, builds vector indexes of large collections,
// and clusters.
func (c *scaleCommand) curate(ctx context.Context, residents []*tenantState, f *findings) error {
	ends := time.Now().Add(c.Curation)
	for _, step := range []struct {
		name string
		do   func(r *tenantState) error
	}{
		{"merging segments", func(r *tenantState) error { return r.mergeAll(ctx, r.space) }},
		{"clustering", func(r *tenantState) error {
			_, err := r.store.RebuildClusters(ctx, r.Tenant, r.collection, 1)
			return err
		}},
		{"vectors' own partitions and graphs", func(r *tenantState) error {
			for {
				more, err := r.store.TendVectors(ctx, r.Tenant, r.collection)
				if err != nil || !more {
					return err
				}
			}
		}},
	} {
		progressf("scale: %s", step.name)
		begin, done := time.Now(), 0
		for _, r := range residents {
			if time.Now().After(ends) {
				break
			}
			if err := step.do(r); err != nil {
				return fmt.Errorf("%s of tenant %d: %w", step.name, r.number+1, err)
			}
			done++
		}
		f.note(step.name, "%.0f s for %d of %d tenants", time.Since(begin).Seconds(), done, len(residents))
	}
	return nil
}

// disk notes the size of each table, with its indexes and its TOAST data.
func (c *scaleCommand) disk(ctx context.Context, b *workbench, passages int, f *findings) error {
	rows, err := b.others.Query(ctx, `
		SELECT coalesce(parent.relname, c.relname), sum(pg_total_relation_size(c.oid))::bigint AS bytes
		FROM pg_class c
		LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class parent ON parent.oid = i.inhparent
		WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
		GROUP BY 1 HAVING sum(pg_total_relation_size(c.oid)) >= $1 ORDER BY 2 DESC`, passages)
	if err != nil {
		return fmt.Errorf("measure tables: %w", err)
	}
	defer rows.Close()
	total := 0.0
	for rows.Next() {
		var name string
		var bytes int64
		if err := rows.Scan(&name, &bytes); err != nil {
			return fmt.Errorf("measure tables: %w", err)
		}
		each := float64(bytes) / float64(passages)
		total += each
		f.note("disk, "+name, "%.0f bytes per passage", each)
	}
	f.note("disk, all of these", "%.0f bytes per passage", total)
	if err := rows.Err(); err != nil {
		return fmt.Errorf("measure tables: %w", err)
	}
	return nil
}

// ask runs the searches in a separate process.
func (c *scaleCommand) ask(ctx context.Context, b *workbench, spaces []askSpace, f *findings) error {
	job := askJob{URL: b.postgres.URL(), K: c.K, Cache: c.Cache, Spaces: spaces}
	if job.Cache == 0 {
		job.Cache = config.Answering{}.LexicalCacheBytes()
	}
	progressf("scale: asking")
	// PostgreSQL's memory is empty then; files may still be in the system's cache.
	if err := b.restart(ctx); err != nil {
		return err
	}
	got, err := runAsker(ctx, job)
	if err != nil {
		return err
	}
	for _, u := range got.Units {
		f.note(u.Unit+"s", "cold p50 %.1f ms, p95 %.1f ms; warm p50 %.2f ms, p95 %.2f ms; in the largest collection, warm, p50 %.2f ms, p95 %.2f ms",
			median(u.Cold), quantile(u.Cold, 0.95), median(u.Warm), quantile(u.Warm, 0.95), median(u.Largest), quantile(u.Largest, 0.95))
	}
	f.note("memory of the asking process", "%.0f MB resident at first, %.0f MB after all questions of all tenants, %.0f MB at most; "+
		"of it the index's parts %.0f of at most %.0f MB and vectors %.0f of at most %.0f MB; %d parts were let go",
		mega(got.Before), mega(got.After), mega(got.Peak), mega(got.Index), mega(job.Cache), mega(got.Vectors), mega(vectorCache), got.Evictions)
	return nil
}

func mega(bytes int64) float64 { return float64(bytes) / 1e6 }

// recall measures the recall of vector search in collections with a graph; in others it is exact.
func (c *scaleCommand) recall(ctx context.Context, b *workbench, spaces []askSpace, f *findings) error {
	progressf("scale: recall")
	worst, graphs := 1.0, 0
	for i, s := range spaces {
		got, err := b.store.Recall(ctx, s.Tenant, s.Collection, 30)
		if err != nil {
			return err
		}
		if got.Indexed == 0 {
			continue
		}
		graphs++
		worst = min(worst, got.Recall)
		f.note(fmt.Sprintf("recall, tenant %d", i+1), "%.4f of %d samples, graph of %d vectors", got.Recall, got.Samples, got.Indexed)
	}
	f.note("recall", "%.4f at worst in %d collections with a graph; %d are searched exactly", worst, graphs, len(spaces)-graphs)
	return nil
}

// searched are the kinds of searches in the order in which they are run.
var searched = append([]schema.Unit{"vector"}, units...)
