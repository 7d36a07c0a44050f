package sources

// This file lists a source's runs, its items and what was skipped, and the drivers that workers
// have.

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// SourceRuns lists a page of a source's runs, newest first.
func (s *SourceStore) SourceRuns(ctx context.Context, p schema.Principal, id uuid.UUID, q schema.PageQuery) ([]schema.SourceRun, string, error) {
	pg, err := store.PageOf(q)
	if err != nil {
		return nil, "", err
	}
	var out []schema.SourceRun
	err = s.withSource(ctx, p, id, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, listRunsSQL, p.Tenant, id, pg.After, pg.Limit+1)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scanRun)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list the runs of source %s: %w", id, err)
	}
	out, next := store.Cut(pg, out, func(r schema.SourceRun) uuid.UUID { return r.ID })
	return out, next, nil
}

// withSource runs read in a transaction, if the source exists.
func (s *SourceStore) withSource(ctx context.Context, p schema.Principal, id uuid.UUID, read func(ctx context.Context, tx pgx.Tx) error) error {
	return s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		var exists bool
		if err := tx.QueryRow(ctx, `SELECT true FROM sources WHERE tenant_id = $1 AND id = $2`, p.Tenant, id).Scan(&exists); err != nil {
			return store.Named(err, "source", id)
		}
		return read(ctx, tx)
	})
}

const listItemsSQL = `
SELECT item, path, url, size, modified_at, document_id, pending, reason FROM source_items
WHERE tenant_id = $1 AND source_id = $2 AND item > $3 ORDER BY item LIMIT $4`

// SourceItems lists a page of a source's items, by their ids. Cursors are base64 of the last id.
func (s *SourceStore) SourceItems(ctx context.Context, p schema.Principal, id uuid.UUID, q schema.PageQuery) ([]schema.SourceItem, string, error) {
	after, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil {
		return nil, "", schema.Invalid("cursor", "is not the cursor of a previous page")
	}
	pg, err := store.PageOf(schema.PageQuery{Limit: q.Limit})
	if err != nil {
		return nil, "", err
	}
	var out []schema.SourceItem
	err = s.withSource(ctx, p, id, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, listItemsSQL, p.Tenant, id, string(after), pg.Limit+1)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (i schema.SourceItem, err error) {
			err = row.Scan(&i.Item, &i.Path, &i.URL, &i.Size, &i.ModifiedAt, &i.Document, &i.Pending, &i.Reason)
			return i, err
		})
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list the items of source %s: %w", id, err)
	}
	next := ""
	if len(out) > pg.Limit {
		out = out[:pg.Limit]
		next = base64.RawURLEncoding.EncodeToString([]byte(out[len(out)-1].Item))
	}
	return out, next, nil
}

const listSkippedSQL = `
SELECT number, path, reason FROM source_skipped
WHERE tenant_id = $1 AND source_id = $2 AND number > $3
  AND run_id = (SELECT r.id FROM source_runs r WHERE r.tenant_id = $1 AND r.source_id = $2 ORDER BY r.id DESC LIMIT 1)
ORDER BY number LIMIT $4`

// SourceSkipped lists a page of what the newest run skipped, of at most maxKeptSkipped in all.
func (s *SourceStore) SourceSkipped(ctx context.Context, p schema.Principal, id uuid.UUID, q schema.PageQuery) ([]schema.SourceSkipped, string, error) {
	after := int64(0)
	if q.Cursor != "" {
		var err error
		if after, err = strconv.ParseInt(q.Cursor, 10, 64); err != nil {
			return nil, "", schema.Invalid("cursor", "is not the cursor of a previous page")
		}
	}
	pg, err := store.PageOf(schema.PageQuery{Limit: q.Limit})
	if err != nil {
		return nil, "", err
	}
	var out []schema.SourceSkipped
	var numbers []int64
	err = s.withSource(ctx, p, id, func(ctx context.Context, tx pgx.Tx) error {
		out, numbers = nil, nil
		rows, err := tx.Query(ctx, listSkippedSQL, p.Tenant, id, after, pg.Limit+1)
		if err != nil {
			return err
		}
		var number int64
		var entry schema.SourceSkipped
		_, err = pgx.ForEachRow(rows, []any{&number, &entry.Path, &entry.Reason}, func() error {
			out, numbers = append(out, entry), append(numbers, number)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list what source %s skipped: %w", id, err)
	}
	if len(out) > pg.Limit {
		return out[:pg.Limit], strconv.FormatInt(numbers[pg.Limit-1], 10), nil
	}
	return out, "", nil
}

// driverTimeout is how long after it registered its drivers a worker counts as running.
const driverTimeout = 45 * time.Second

const (
	upsertDriversSQL = `
INSERT INTO source_drivers (name, summary, fields) SELECT * FROM unnest($1::text[], $2::text[], $3::jsonb[])
ON CONFLICT (name) DO UPDATE SET summary = excluded.summary, fields = excluded.fields, seen_at = now()`
	driversSQL = `SELECT name, summary, fields, seen_at > now() - $1::interval FROM source_drivers ORDER BY name`
)

// RegisterDrivers records the drivers of a running worker.
func (s *SourceStore) RegisterDrivers(ctx context.Context, drivers []schema.SourceDriver) error {
	var names, summaries []string
	var fields [][]schema.SourceField
	for _, d := range drivers {
		names, summaries, fields = append(names, d.Name), append(summaries, d.Summary), append(fields, store.EmptyNotNull(d.Fields))
	}
	return store.Wrap(s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, upsertDriversSQL, names, summaries, fields)
		return err
	}), "tell of the drivers of sources")
}

// SourceDrivers lists the drivers that workers registered.
func (s *SourceStore) SourceDrivers(ctx context.Context) ([]schema.SourceDriver, error) {
	var out []schema.SourceDriver
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, driversSQL, driverTimeout)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (d schema.SourceDriver, err error) {
			err = row.Scan(&d.Name, &d.Summary, &d.Fields, &d.Running)
			return d, err
		})
		return err
	})
	return out, store.Wrap(err, "list the drivers of sources")
}
