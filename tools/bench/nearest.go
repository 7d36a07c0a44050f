package main

// This file measures vector search in a small collection among a million vectors: Sluice's, an
// exact scan of the collection's rows through an index, and one HNSW graph of all vectors with a
// filter, tuned to find 99 of 100.

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/schema"
)

type vectorsCommand struct {
	common
	Passages   int           `default:"1000000" help:"Vectors of all collections."`
	Collection int           `default:"10000" help:"Vectors of the collection that is searched."`
	K          int           `default:"50" help:"How many nearest vectors are wanted."`
	Building   time.Duration `default:"12m" help:"Longest time that building the shared HNSW graph may take. When it takes longer, that row is left out."`
	Slice      time.Duration `default:"3s" help:"Longest time of a side in a round."`
}

func (c *vectorsCommand) Run(ctx context.Context) error { return c.run(ctx, "vectors", c.measure) }

// minRecall is the share of the nearest vectors that the graph must find.
const minRecall = 0.99

func (c *vectorsCommand) measure(ctx context.Context, b *workbench, t texts, f *findings) error {
	p := newPoints(c.Seed)
	docs := first(t, c.Collection)
	s, err := b.newSpace(ctx, "vectors")
	if err != nil {
		return err
	}
	progressf("vectors: loading %d", c.Passages)
	began := time.Now()
	if err := c.load(ctx, b, &loader{workbench: b, space: s, points: p}, docs); err != nil {
		return err
	}
	if err := b.execute(ctx,
		`CREATE TABLE others.vectors (collection_id uuid NOT NULL, passage_id uuid NOT NULL, embedding halfvec(256) NOT NULL)`,
		`ALTER TABLE others.vectors ALTER COLUMN embedding SET STORAGE PLAIN`,
		`CREATE TABLE others.graph (LIKE others.vectors INCLUDING STORAGE)`,
		`INSERT INTO others.vectors SELECT collection_id, passage_id, embedding FROM vectors_256`,
		`INSERT INTO others.graph SELECT * FROM others.vectors`,
		`CREATE INDEX ON others.vectors (collection_id)`); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	f.note("loading", "%.0f s", time.Since(began).Seconds())
	n := 0
	for _, d := range docs {
		n += d.passages()
	}
	f.note("collection", "%d vectors of %d, %d dimensions, %d wanted", n, c.Passages, dimension, c.K)

	questions := p.questions(docs, 400)
	exact := func(ctx context.Context, q []float32) ([]uuid.UUID, error) {
		return nearest(ctx, b.others, `SELECT passage_id FROM others.vectors WHERE collection_id = $1 ORDER BY embedding <#> $2 LIMIT $3`, s.collection, q, c.K)
	}
	vectors := dense.NewMemoryVectors(b.store, search.NewIndex(b.store, indexCache), indexCache)
	ours := func(ctx context.Context, q []float32) ([]uuid.UUID, error) { return nearestOf(ctx, vectors, s, q, c.K) }
	recall, err := recallOf(ctx, questions[:30], exact, ours)
	if err != nil {
		return err
	}
	f.note("recall, Sluice", "%.4f", recall)
	sides := []side{c.side("Sluice", questions, ours), c.side("exact", questions, exact)}
	// The settings apply to this connection.
	conn, err := b.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the server ends next
	graph, err := c.graph(ctx, conn, s, questions, exact, f)
	if err != nil {
		return err
	}
	if graph != nil {
		sides = append(sides, c.side("HNSW", questions, graph))
	}
	if err := c.measuring("vectors"); err != nil {
		return err
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
	f.compare(ratio{What: "against an index-filtered exact scan", Unit: "queries/s", Ours: rates[0], Other: rates[1], Against: "exact", Target: 2})
	if graph != nil {
		f.compare(ratio{What: fmt.Sprintf("against one HNSW graph and a filter, recall >= %g", minRecall), Unit: "queries/s",
			Ours: rates[0], Other: rates[2], Against: "HNSW", Target: 10})
	}
	return nil
}

type finder func(ctx context.Context, q []float32) ([]uuid.UUID, error)

func (c *vectorsCommand) side(name string, questions [][]float32, find finder) side {
	return queryRounds(name, questions, 1, c.Slice, func(ctx context.Context, q []float32) error {
		found, err := find(ctx, q)
		if err == nil && len(found) != c.K {
			err = fmt.Errorf("%d of %d found", len(found), c.K)
		}
		return err
	})
}

// load fills the table of vectors as concurrent ingestion by many tenants would: batches of the
// collection, through the store, alternate with batches of other collections, which only have
// vectors.
func (c *vectorsCommand) load(ctx context.Context, b *workbench, l *loader, docs []written) error {
	const others = 99
	ids := make([]uuid.UUID, 2*others)
	for i := range ids {
		ids[i] = schema.NewID()
	}
	all := batches(docs)
	rest := c.Passages - c.Collection
	filled := 0
	vector := make([]float32, dimension)
	for i, batch := range all {
		if err := l.load(ctx, batch); err != nil {
			return err
		}
		var spaceID int32
		var err error
		if spaceID, err = single[int32](ctx, b, `SELECT id FROM spaces WHERE name = $1`, vectorSpace); err != nil {
			return err
		}
		until := rest * (i + 1) / len(all)
		n := 0
		random := seeded(c.Seed, i)
		_, err = b.others.CopyFrom(ctx, pgx.Identifier{"vectors_256"},
			[]string{"tenant_id", "collection_id", "space_id", "passage_id", "version_id", "embedding"},
			pgx.CopyFromFunc(func() ([]any, error) {
				if filled+n >= until {
					return nil, nil
				}
				// 1,500 vectors in a row belong to one tenant.
				who := (filled + n) / 1500 % others
				l.points.near(random, (filled+n)/12, vector)
				n++
				return []any{ids[who], ids[others+who], spaceID, schema.NewID(), ids[who], pgvector.NewHalfVector(vector)}, nil
			}))
		if err != nil {
			return fmt.Errorf("load vectors of others: %w", err)
		}
		filled += n
	}
	return nil
}

// graph builds the shared graph and returns a search of it with enough recall; nil if there is
// none.
func (c *vectorsCommand) graph(ctx context.Context, conn *pgx.Conn, s space, questions [][]float32, exact finder, f *findings) (finder, error) {
	progressf("vectors: building the shared HNSW graph, up to %s", c.Building)
	building, cancel := context.WithTimeout(ctx, c.Building)
	defer cancel()
	took, err := timed(func() error {
		_, err := conn.Exec(building, `CREATE INDEX ON others.graph USING hnsw (embedding halfvec_ip_ops) WITH (m = 16, ef_construction = 64)`)
		return err
	})
	if err != nil {
		if ctx.Err() == nil && building.Err() != nil {
			f.note("shared HNSW", "not built in %s: no ratio", c.Building)
			return nil, nil
		}
		return nil, fmt.Errorf("build the graph: %w", err)
	}
	f.note("shared HNSW", "built in %.0f s", took.Seconds())
	for _, try := range []struct{ ef, tuples int }{{40, 20_000}, {100, 50_000}, {200, 100_000}, {400, 200_000}, {800, 400_000}, {1000, 1_000_000}} {
		for _, sql := range []string{
			`SET hnsw.iterative_scan = relaxed_order`, `SET hnsw.scan_mem_multiplier = 100`, `SET enable_seqscan = off`, `SET enable_sort = on`,
			fmt.Sprintf(`SET hnsw.ef_search = %d`, try.ef), fmt.Sprintf(`SET hnsw.max_scan_tuples = %d`, try.tuples),
		} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return nil, fmt.Errorf("%s: %w", sql, err)
			}
		}
		find := func(ctx context.Context, q []float32) ([]uuid.UUID, error) {
			return nearest(ctx, conn, `SELECT passage_id FROM others.graph WHERE collection_id = $1 ORDER BY embedding <#> $2 LIMIT $3`, s.collection, q, c.K)
		}
		recall, err := recallOf(ctx, questions[:30], exact, find)
		if err != nil {
			return nil, err
		}
		f.note("shared HNSW", "ef_search %d, %d tuples at most: recall %.3f", try.ef, try.tuples, recall)
		if recall >= minRecall {
			return find, nil
		}
	}
	f.note("shared HNSW", "no setting finds %g: the last one is compared", minRecall)
	return func(ctx context.Context, q []float32) ([]uuid.UUID, error) {
		return nearest(ctx, conn, `SELECT passage_id FROM others.graph WHERE collection_id = $1 ORDER BY embedding <#> $2 LIMIT $3`, s.collection, q, c.K)
	}, nil
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// nearest searches with SQL.
func nearest(ctx context.Context, db querier, sql string, collection uuid.UUID, q []float32, k int) ([]uuid.UUID, error) {
	rows, err := db.Query(ctx, sql, collection, pgvector.NewHalfVector(q), k)
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	return out, nil
}

// nearestOf searches with Sluice.
func nearestOf(ctx context.Context, vectors *dense.MemoryVectors, s space, q []float32, k int) ([]uuid.UUID, error) {
	hits, err := vectors.Nearest(ctx, dense.NearestQuery{Principal: s.Principal, Collection: s.collection, Space: vectorSpace, Vector: q, K: k})
	if err != nil {
		return nil, err
	}
	out := make([]uuid.UUID, len(hits))
	for i, h := range hits {
		out[i] = h.Passage
	}
	return out, nil
}

// recallOf returns the share of exact's results that other also finds.
func recallOf(ctx context.Context, questions [][]float32, exact, other finder) (float64, error) {
	found, all := 0, 0
	for _, q := range questions {
		want, err := exact(ctx, q)
		if err != nil {
			return 0, err
		}
		got, err := other(ctx, q)
		if err != nil {
			return 0, err
		}
		have := make(map[uuid.UUID]bool, len(got))
		for _, id := range got {
			have[id] = true
		}
		for _, id := range want {
			all++
			if have[id] {
				found++
			}
		}
	}
	return float64(found) / float64(max(1, all)), nil
}
