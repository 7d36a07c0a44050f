package sources

// This file stores items as listings report them, and what became of them. A run's counts are
// raised only for items whose row shows that they were not counted yet.

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/source/follow"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/access"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// maxKeptSkipped bounds the skipped items of a run that are kept with their reasons.
const maxKeptSkipped = 1000

const (
	pageSQL = `
SELECT r.cursor, r.phase, r.skipped, s.max_items FROM source_runs r JOIN sources s ON s.tenant_id = r.tenant_id AND s.id = r.source_id
WHERE r.tenant_id = $1 AND r.id = $2 FOR UPDATE OF r`
	storedItemsSQL = `
SELECT item, path, url, version, document_id IS NOT NULL, run_id, pending, moved, reason FROM source_items
WHERE tenant_id = $1 AND source_id = $2 AND item = ANY ($3)`
	countItemsSQL  = `SELECT count(*) FROM source_items WHERE tenant_id = $1 AND source_id = $2`
	upsertItemsSQL = `
INSERT INTO source_items AS i (tenant_id, source_id, run_id, item, path, url, size, modified_at, listed, pending, moved, reason)
SELECT $1, $2, $3, n.* FROM unnest($4::text[], $5::text[], $6::text[], $7::bigint[], $8::timestamptz[], $9::text[], $10::text[], $11::bool[], $12::text[])
    AS n (item, path, url, size, modified_at, listed, pending, moved, reason)
ON CONFLICT (tenant_id, source_id, item) DO UPDATE SET run_id = excluded.run_id, path = excluded.path, url = excluded.url, size = excluded.size,
    modified_at = excluded.modified_at, listed = excluded.listed, pending = excluded.pending, moved = excluded.moved, reason = excluded.reason,
    version = CASE WHEN excluded.reason <> '' THEN excluded.listed ELSE i.version END,
    tries = CASE WHEN i.run_id = excluded.run_id THEN i.tries ELSE 0 END`
	markDeletedSQL = `UPDATE source_items SET pending = 'delete' WHERE tenant_id = $1 AND source_id = $2 AND item = ANY ($3)`
	updateRunSQL   = `
UPDATE source_runs SET cursor = $3, phase = CASE WHEN $3 = '' THEN 'fetch' ELSE 'list' END, changes = $4, seen = seen + $5, unchanged = unchanged + $6, skipped = skipped + $7
WHERE tenant_id = $1 AND id = $2`
	addSkippedSQL = `
INSERT INTO source_skipped (tenant_id, source_id, run_id, number, path, reason)
SELECT $1, $2, $3, $4 + n.ordinality, n.path, n.reason FROM unnest($5::text[], $6::text[]) WITH ORDINALITY AS n (path, reason, ordinality)`
)

// storedItem is what was stored of an item before it was listed.
type storedItem struct {
	path, url, version string
	document           bool // it has a document
	run                uuid.UUID
	pending            string
	moved              bool
	reason             string
}

// itemColumns are rows of items to be written.
type itemColumns struct {
	ids, paths, urls, listed, pending, reasons []string
	sizes                                      []int64
	modified                                   []*time.Time
	moved                                      []bool
}

// SaveListing implements follow.Store.
func (s *SourceStore) SaveListing(ctx context.Context, in wire.SourceSync, pageCursor string, p follow.ListedPage) error {
	return s.withLock(ctx, in, "note a page", func(ctx context.Context, tx pgx.Tx) error {
		var cursor, phase string
		var before, maxItems int64
		if err := tx.QueryRow(ctx, pageSQL, in.Tenant, in.Run).Scan(&cursor, &phase, &before, &maxItems); err != nil {
			return err
		}
		if cursor != pageCursor || phase != follow.PhaseList {
			return lostLeaseError(pgx.ErrNoRows, in)
		}
		if err := access.Current(ctx, tx, in.Tenant, in.Source, p.Pushed); err != nil {
			return err
		}
		stored, err := storedItems(ctx, tx, in, p.Items)
		if err != nil {
			return err
		}
		remaining := int64(-1)
		if maxItems > 0 {
			var count int64
			if err := tx.QueryRow(ctx, countItemsSQL, in.Tenant, in.Source).Scan(&count); err != nil {
				return err
			}
			remaining = max(0, maxItems-count)
		}
		rows, skipped := itemColumns{}, append([]source.Skipped{}, p.Skipped...)
		var seen, unchanged int64
		var accessItems []source.Item
		for _, item := range p.Items {
			k, exists := stored[item.ID]
			if !exists && remaining == 0 {
				skipped = append(skipped, source.Skipped{Path: item.Path, Reason: "the source has reached its limit of items"})
				continue
			}
			if !exists && remaining > 0 {
				remaining--
			}
			counted := exists && k.run == in.Run
			if !counted {
				seen++
			}
			pending, moved, reason := nextAction(in.Run, k, exists, item)
			rows.add(item, pending, moved, reason)
			accessItems = append(accessItems, item.Item)
			switch {
			case counted:
			case reason != "":
				skipped = append(skipped, source.Skipped{Path: item.Path, Reason: reason})
			case pending == "":
				unchanged++
			}
		}
		if err := rows.write(ctx, tx, in); err != nil {
			return err
		}
		if err := access.Note(ctx, tx, in.Tenant, in.Source, in.Run, p.Folders, accessItems); err != nil {
			return err
		}
		if len(p.Deleted) > 0 {
			if err := access.Forget(ctx, tx, in.Tenant, in.Source, nil, p.Deleted); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, markDeletedSQL, in.Tenant, in.Source, p.Deleted); err != nil {
				return err
			}
		}
		if err := addSkipped(ctx, tx, in, before, skipped); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, updateRunSQL, in.Tenant, in.Run, p.Next, p.Changes, seen, unchanged, len(skipped)); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, recoveredSQL, in.Tenant, in.Source)
		return err
	})
}

// nextAction decides what has to be done about an item that run listed.
func nextAction(run uuid.UUID, k storedItem, exists bool, item follow.Listed) (pending string, moved bool, reason string) {
	moved = exists && k.document && (k.moved || k.path != item.Path || k.url != item.URL)
	changed := item.Version != k.version
	if item.Version == "" { // only fetching it shows whether it changed, once in a run
		changed = k.run != run || k.pending == follow.ActionFetch
	}
	switch {
	case item.Reason != "":
		return "", moved, item.Reason
	case !exists || changed:
		return follow.ActionFetch, moved, ""
	case k.reason != "":
		return "", moved, k.reason
	case moved || k.pending == follow.ActionDescribe:
		return follow.ActionDescribe, moved, ""
	}
	return "", false, ""
}

func (c *itemColumns) add(item follow.Listed, pending string, moved bool, reason string) {
	c.ids, c.paths, c.urls = append(c.ids, item.ID), append(c.paths, item.Path), append(c.urls, item.URL)
	c.listed, c.pending, c.reasons = append(c.listed, item.Version), append(c.pending, pending), append(c.reasons, reason)
	c.sizes, c.moved = append(c.sizes, item.Size), append(c.moved, moved)
	var modified *time.Time
	if !item.Modified.IsZero() {
		modified = &item.Modified
	}
	c.modified = append(c.modified, modified)
}

func (c *itemColumns) write(ctx context.Context, tx pgx.Tx, in wire.SourceSync) error {
	if len(c.ids) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, upsertItemsSQL, in.Tenant, in.Source, in.Run, c.ids, c.paths, c.urls, c.sizes, c.modified, c.listed, c.pending, c.moved, c.reasons)
	return store.Wrap(err, "write items")
}

func storedItems(ctx context.Context, tx pgx.Tx, in wire.SourceSync, items []follow.Listed) (map[string]storedItem, error) {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.ID
	}
	rows, err := tx.Query(ctx, storedItemsSQL, in.Tenant, in.Source, ids)
	if err != nil {
		return nil, err
	}
	out := map[string]storedItem{}
	var id string
	var k storedItem
	_, err = pgx.ForEachRow(rows, []any{&id, &k.path, &k.url, &k.version, &k.document, &k.run, &k.pending, &k.moved, &k.reason}, func() error {
		out[id] = k
		return nil
	})
	return out, store.Wrap(err, "read items")
}

// addSkipped stores the first of the items that a run skips. before is the number that it skipped
// earlier.
func addSkipped(ctx context.Context, tx pgx.Tx, in wire.SourceSync, before int64, skipped []source.Skipped) error {
	skipped = skipped[:min(int64(len(skipped)), max(0, maxKeptSkipped-before))]
	if len(skipped) == 0 {
		return nil
	}
	var paths, reasons []string
	for _, s := range skipped {
		paths, reasons = append(paths, s.Path), append(reasons, s.Reason)
	}
	_, err := tx.Exec(ctx, addSkippedSQL, in.Tenant, in.Source, in.Run, before, paths, reasons)
	return store.Wrap(err, "note what was skipped")
}

const pendingSQL = `
SELECT item, path, url, size, coalesce(modified_at, '0001-01-01 00:00:00+00'), CASE WHEN listed <> '' THEN listed ELSE version END, version, pending,
       document_id, moved, tries FROM source_items
WHERE tenant_id = $1 AND source_id = $2 AND pending <> '' ORDER BY tries, item LIMIT $3`

// PendingItems implements follow.Store.
func (s *SourceStore) PendingItems(ctx context.Context, in wire.SourceSync, limit int) (out []follow.Item, err error) {
	err = s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, pendingSQL, in.Tenant, in.Source, limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (i follow.Item, err error) {
			err = row.Scan(&i.ID, &i.Path, &i.URL, &i.Size, &i.Modified, &i.Version, &i.Fetched, &i.Action, &i.Document, &i.Moved, &i.Tries)
			return i, err
		})
		return err
	})
	return out, store.Wrap(err, "list pending items of source %s", in.Source)
}

// PostponeItems implements follow.Store.
func (s *SourceStore) PostponeItems(ctx context.Context, in wire.SourceSync, items []string) error {
	return s.withLock(ctx, in, "postpone items", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE source_items SET tries = tries + 1 WHERE tenant_id = $1 AND source_id = $2 AND item = ANY ($3) AND pending <> ''`, in.Tenant, in.Source, items)
		return err
	})
}

const (
	settleItemSQL = `
UPDATE source_items SET pending = '', tries = 0, moved = false, reason = '',
       version = CASE WHEN $5 THEN $4 ELSE version END, document_id = coalesce($6, document_id), sha256 = coalesce($7, sha256)
WHERE tenant_id = $1 AND source_id = $2 AND item = $3`
	skipItemSQL = `
UPDATE source_items SET pending = '', tries = 0, reason = $4, version = CASE WHEN $5 THEN '' ELSE listed END WHERE tenant_id = $1 AND source_id = $2 AND item = $3`
	countSQL = `
UPDATE source_runs SET added = added + $3, changed = changed + $4, unchanged = unchanged + $5, moved = moved + $6, deleted = deleted + $7, skipped = skipped + $8,
       fetched = fetched + $9, bytes = bytes + $10
WHERE tenant_id = $1 AND id = $2`
)

// RecordOutcome implements follow.Store. Whether an item counts as added or changed depends on its
// row, so the result is the same when it is fetched again after a worker died.
func (s *SourceStore) RecordOutcome(ctx context.Context, in wire.SourceSync, o follow.ItemOutcome) error {
	return s.withLock(ctx, in, "settle an item", func(ctx context.Context, tx pgx.Tx) error {
		var pending, path string
		var document *uuid.UUID
		var sha256 []byte
		var moved bool
		err := tx.QueryRow(ctx, `SELECT pending, path, document_id, sha256, moved FROM source_items WHERE tenant_id = $1 AND source_id = $2 AND item = $3`,
			in.Tenant, in.Source, o.Item).Scan(&pending, &path, &document, &sha256, &moved)
		if store.IsNoRows(err) || err == nil && pending == "" {
			return nil // settled before
		}
		if err != nil {
			return err
		}
		var r schema.SourceRun
		switch o.Outcome {
		case follow.Deleted:
			if _, err := tx.Exec(ctx, `DELETE FROM source_items WHERE tenant_id = $1 AND source_id = $2 AND item = $3`, in.Tenant, in.Source, o.Item); err != nil {
				return err
			}
			if err := access.Forget(ctx, tx, in.Tenant, in.Source, []string{o.Item}, nil); err != nil {
				return err
			}
			if document != nil {
				r.Deleted++
			}
		case follow.Skipped:
			var before int64
			if err := tx.QueryRow(ctx, `SELECT skipped FROM source_runs WHERE tenant_id = $1 AND id = $2`, in.Tenant, in.Run).Scan(&before); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, skipItemSQL, in.Tenant, in.Source, o.Item, o.Reason, o.Retry); err != nil {
				return err
			}
			if err := addSkipped(ctx, tx, in, before, []source.Skipped{{Path: path, Reason: o.Reason}}); err != nil {
				return err
			}
			r.Skipped++
		default:
			var documentID *uuid.UUID
			if o.Document != uuid.Nil {
				documentID = &o.Document
			}
			if _, err := tx.Exec(ctx, settleItemSQL, in.Tenant, in.Source, o.Item, o.Version, o.Outcome != follow.Described, documentID, o.SHA256); err != nil {
				return err
			}
			countItem(&r, o, document != nil, string(sha256) == string(o.SHA256), moved)
		}
		if _, err := tx.Exec(ctx, countSQL, in.Tenant, in.Run, r.Added, r.Changed, r.Unchanged, r.Moved, r.Deleted, r.Skipped, r.Fetched, r.Bytes); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, recoveredSQL, in.Tenant, in.Source)
		return err
	})
}

// countItem counts an item that was fetched or described.
func countItem(r *schema.SourceRun, o follow.ItemOutcome, hadDocument, same, moved bool) {
	if o.Outcome == follow.Fetched {
		r.Fetched, r.Bytes = 1, o.Bytes
	}
	if moved {
		r.Moved = 1
	}
	switch {
	case o.Outcome == follow.Fetched && !hadDocument:
		r.Added = 1
	case o.Outcome == follow.Fetched && !same:
		r.Changed = 1
	case !moved && o.Outcome != follow.Described:
		r.Unchanged = 1
	}
}

// KnownItems implements follow.Store.
func (s *SourceStore) KnownItems(ctx context.Context, tenant, id uuid.UUID, ids []string) (map[string]string, error) {
	out := map[string]string{}
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		clear(out)
		rows, err := tx.Query(ctx, `SELECT item, version FROM source_items WHERE tenant_id = $1 AND source_id = $2 AND item = ANY ($3)`, tenant, id, ids)
		if err != nil {
			return err
		}
		var item, version string
		_, err = pgx.ForEachRow(rows, []any{&item, &version}, func() error {
			out[item] = version
			return nil
		})
		return err
	})
	return out, store.Wrap(err, "read items of source %s", id)
}
