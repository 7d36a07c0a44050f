package main

// This file compares what ingestion writes for documents with a raw binary COPY of the same rows
// into tables without keys, checks or row-level security.

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lexical"
)

type storeCommand struct {
	common
	Batches int `default:"4" help:"Batches of documents per round."`
}

func (c *storeCommand) Run(ctx context.Context) error { return c.run(ctx, "store", c.measure) }

// copied are the tables that are copied, with conditions for their rows.
var copied = []struct{ table, rows string }{
	{"sections", "version_id IN (SELECT id FROM others.wanted)"},
	{"passages", "version_id IN (SELECT id FROM others.wanted)"},
	{fmt.Sprintf("vectors_%d", dimension), "version_id IN (SELECT id FROM others.wanted)"},
	{"lexical_entries", "version_id IN (SELECT id FROM others.wanted)"},
	{"lexical_segments", "id IN (SELECT id FROM others.wanted)"},
	{"lexical_pages", "segment_id IN (SELECT id FROM others.wanted)"},
}

// image has a batch's rows in COPY's format, by table.
type image struct {
	passages int
	tables   [][]byte
}

func (c *storeCommand) measure(ctx context.Context, b *workbench, t texts, f *findings) error {
	s, err := b.newSpace(ctx, "storing")
	if err != nil {
		return err
	}
	l := &loader{workbench: b, space: s, points: newPoints(c.Seed)}
	for _, table := range copied {
		// Storage is as in the original; text is compressed by the fastest method.
		if err := b.execute(ctx, fmt.Sprintf(`CREATE TABLE others.%[1]s (LIKE %[1]s INCLUDING STORAGE INCLUDING COMPRESSION)`, table.table)); err != nil {
			return err
		}
	}
	if err := b.execute(ctx, `CREATE TABLE others.wanted (id uuid)`, `ALTER TABLE others.sections ALTER COLUMN body SET COMPRESSION lz4`); err != nil {
		return err
	}
	conn, err := b.others.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	copier := &copier{workbench: b, conn: conn, space: s, seen: map[uuid.UUID]bool{}}
	analyzer, err := lexical.NewAnalyzer("en")
	if err != nil {
		return err
	}
	var analysing []time.Duration // times of the batches' text analysis
	var ours, others cost
	next := 0
	// The other side copies what the previous round stored; so the first round is stored here.
	store := func(ctx context.Context) (passages int, took time.Duration, err error) {
		var images []image
		var apart time.Duration
		for range c.Batches {
			var docs []written
			for size := 0; len(docs) < batch.MaxVersions && size < batch.MaxBytes*9/10; next++ {
				d := t.document(next % t.maxDocuments())
				for _, p := range d.pieces {
					size += len(p.text)
				}
				docs = append(docs, d)
			}
			ready, err := l.prepare(ctx, docs)
			if err != nil {
				return 0, 0, err
			}
			// Stem new words now: the stems are cached, so the time would be counted in storing but
			// not in the measurement that is subtracted.
			texts := textsOf(ready)
			analyzer.TermsOfAll(texts)
			if err := b.spent(ctx, &ours, func() error {
				one, err := timed(func() error { return l.write(ctx, ready) })
				took += one
				return err
			}); err != nil {
				return 0, 0, err
			}
			analysed, _ := timed(func() error { analyzer.TermsOfAll(texts); return nil })
			apart += analysed
			img, err := copier.take(ctx, ready)
			if err != nil {
				return 0, 0, err
			}
			images = append(images, img)
			passages += img.passages
		}
		copier.later = append(copier.later, images)
		analysing = append(analysing, apart)
		return passages, took, nil
	}
	for range 2 { // warm up
		if _, _, err := store(ctx); err != nil {
			return err
		}
	}
	if _, _, err := copier.put(ctx); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	if err := c.measuring("store"); err != nil {
		return err
	}
	ours = cost{}
	var amounts []float64
	rates, err := rounds(ctx, c.Rounds,
		side{"storing", func(ctx context.Context, _ int) (float64, time.Duration, error) {
			n, took, err := store(ctx)
			amounts = append(amounts, float64(n))
			return float64(n), took, err
		}},
		side{"COPY", func(ctx context.Context, _ int) (float64, time.Duration, error) {
			var n int
			var took time.Duration
			err := b.spent(ctx, &others, func() (err error) {
				n, took, err = copier.put(ctx)
				return err
			})
			return float64(n), took, err
		}})
	if err != nil {
		return err
	}
	// Text analysis is not storing. It happens before the transaction, so its time, measured right
	// after each batch, is subtracted. The segment is built while PostgreSQL writes, so waiting for
	// each other counts.
	analysing = analysing[len(analysing)-c.Rounds:]
	alone := make([]float64, c.Rounds)
	for i, rate := range rates[0] {
		whole := amounts[len(amounts)-c.Rounds+i] / rate
		alone[i] = amounts[len(amounts)-c.Rounds+i] / max(whole-analysing[i].Seconds(), 1e-9)
	}
	f.compare(ratio{What: "storing passages, vectors and postings", Unit: "passages/s", Ours: alone, Other: rates[1], Against: "COPY", Target: 0.5})
	f.compare(ratio{What: "the same, and analysing text of known words", Unit: "passages/s", Ours: rates[0], Other: rates[1], Against: "COPY"})
	f.note("per round", "%d batches, %d passages each, %.1f MB of rows each", c.Batches, copier.passages/copier.images, float64(copier.bytes)/float64(copier.images)/1e6)
	for _, side := range []struct {
		name string
		cost
	}{{"Sluice", ours}, {"COPY", others}} {
		n := float64(c.Batches * c.Rounds)
		f.note("a batch costs "+side.name, "%.1f ms of processor time in PostgreSQL, %.1f ms in this process, %.2f MB of write-ahead log", side.postgres/n*1e3, side.self/n*1e3, side.log/n/1e6)
	}
	for i, table := range copied {
		f.note("rows of "+table.table, "%.0f bytes per passage", float64(copier.byTable[i])/float64(copier.passages))
	}
	return nil
}

// textsOf returns the passages of documents.
func textsOf(docs []batch.Document) (out []string) {
	for _, d := range docs {
		for _, sec := range d.Text.Sections {
			for _, p := range sec.Passages {
				out = append(out, sec.Text[p.Start:p.End])
			}
		}
	}
	return out
}

// copier reads stored rows, and copies them into plain tables.
type copier struct {
	*workbench
	conn  *pgxpool.Conn
	space space
	seen  map[uuid.UUID]bool // ids of segments
	later [][]image

	images, passages, bytes int
	byTable                 [6]int
}

// take reads the rows of documents that were just stored.
func (c *copier) take(ctx context.Context, docs []batch.Document) (image, error) {
	out := image{}
	var wanted [][]any
	for _, d := range docs {
		wanted = append(wanted, []any{d.Version})
		out.passages += d.Text.Passages()
	}
	rows, err := c.conn.Query(ctx, `SELECT id FROM lexical_segments WHERE collection_id = $1`, c.space.collection)
	if err != nil {
		return out, fmt.Errorf("list segments: %w", err)
	}
	segments, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return out, fmt.Errorf("list segments: %w", err)
	}
	for _, id := range segments {
		if !c.seen[id] {
			c.seen[id] = true
			wanted = append(wanted, []any{id})
		}
	}
	if _, err := c.conn.Exec(ctx, `TRUNCATE others.wanted`); err != nil {
		return out, fmt.Errorf("name what to copy: %w", err)
	}
	if _, err := c.conn.CopyFrom(ctx, pgx.Identifier{"others", "wanted"}, []string{"id"}, pgx.CopyFromRows(wanted)); err != nil {
		return out, fmt.Errorf("name what to copy: %w", err)
	}
	for i, t := range copied {
		var rows bytes.Buffer
		if _, err := c.conn.Conn().PgConn().CopyTo(ctx, &rows, fmt.Sprintf(`COPY (SELECT * FROM %s WHERE %s) TO STDOUT (FORMAT binary)`, t.table, t.rows)); err != nil {
			return out, fmt.Errorf("read the rows of %s: %w", t.table, err)
		}
		out.tables = append(out.tables, rows.Bytes())
		c.bytes += rows.Len()
		c.byTable[i] += rows.Len()
	}
	c.images++
	c.passages += out.passages
	return out, nil
}

// put copies the rows that were taken first, one batch per transaction.
func (c *copier) put(ctx context.Context) (passages int, took time.Duration, err error) {
	images := c.later[0]
	c.later = c.later[1:]
	pg := c.conn.Conn().PgConn()
	took, err = timed(func() error {
		for _, img := range images {
			passages += img.passages
			if _, err := c.conn.Exec(ctx, `BEGIN`); err != nil {
				return fmt.Errorf("begin: %w", err)
			}
			for i, t := range copied {
				if _, err := pg.CopyFrom(ctx, bytes.NewReader(img.tables[i]), fmt.Sprintf(`COPY others.%s FROM STDIN (FORMAT binary)`, t.table)); err != nil {
					return fmt.Errorf("copy into %s: %w", t.table, err)
				}
			}
			if _, err := c.conn.Exec(ctx, `COMMIT`); err != nil {
				return fmt.Errorf("commit: %w", err)
			}
		}
		return nil
	})
	return passages, took, err
}
