package corpus

// This file keeps runs that parse the documents of a collection again: starting, inspecting and
// cancelling one, and what its steps read and write. The state of a run is in its rows only; every
// write for a run first checks that it is still running.

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	lockReparsedCollectionSQL = `SELECT FROM collections WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL FOR UPDATE`
	insertReparseSQL          = `
INSERT INTO reparses (tenant_id, collection_id, number, state, total)
SELECT $1, $2, coalesce((SELECT max(number) FROM reparses WHERE tenant_id = $1 AND collection_id = $2), 0) + 1, 'running',
       (SELECT count(*) FROM documents WHERE tenant_id = $1 AND collection_id = $2 AND deleted_at IS NULL AND live_version_id IS NOT NULL)
RETURNING number`
	// Only the newest run is shown.
	forgetReparsedSQL = `DELETE FROM reparsed_documents WHERE tenant_id = $1 AND collection_id = $2 AND number < $3`

	reparseSQL = `
SELECT r.collection_id, r.number, r.state, r.total, c.unchanged, c.changed, c.writing, c.failed, r.created_at, r.finished_at
FROM reparses r, LATERAL (
    SELECT count(*) FILTER (WHERE p.outcome = 'unchanged')::int AS unchanged,
           count(*) FILTER (WHERE p.outcome = 'changed' AND v.state NOT IN ('received', 'queued', 'processing', 'failed'))::int AS changed,
           count(*) FILTER (WHERE v.state IN ('received', 'queued', 'processing'))::int AS writing,
           count(*) FILTER (WHERE p.outcome = 'failed' OR v.state = 'failed')::int AS failed
    FROM reparsed_documents p
    JOIN documents d ON d.tenant_id = p.tenant_id AND d.id = p.document_id AND d.deleted_at IS NULL
    LEFT JOIN versions v ON v.tenant_id = p.tenant_id AND v.id = p.version_id
    WHERE p.tenant_id = r.tenant_id AND p.collection_id = r.collection_id AND p.number = r.number
) AS c
WHERE r.tenant_id = $1 AND r.collection_id = $2 ORDER BY r.number DESC LIMIT 1`
	reparseFailuresSQL = `
SELECT d.id, d.external_id, coalesce(p.reason_code, v.reason_code), coalesce(p.reason, v.reason, '')
FROM reparsed_documents p
JOIN documents d ON d.tenant_id = p.tenant_id AND d.id = p.document_id AND d.deleted_at IS NULL
LEFT JOIN versions v ON v.tenant_id = p.tenant_id AND v.id = p.version_id
WHERE p.tenant_id = $1 AND p.collection_id = $2 AND p.number = $3 AND (p.outcome = 'failed' OR v.state = 'failed')
ORDER BY d.external_id LIMIT $4`
	cancelReparseSQL = `
UPDATE reparses SET state = 'cancelled', finished_at = now()
WHERE tenant_id = $1 AND collection_id = $2 AND state = 'running' RETURNING number`
	forgetParsesSQL = `
DELETE FROM reparsed_documents WHERE tenant_id = $1 AND collection_id = $2 AND number = $3 AND outcome = 'parsing'`

	runningReparseSQL = `
SELECT r.state = 'running', c.deleted_at IS NOT NULL FROM reparses r JOIN collections c ON c.tenant_id = r.tenant_id AND c.id = r.collection_id
WHERE r.tenant_id = $1 AND r.collection_id = $2 AND r.number = $3 FOR SHARE OF r`

	// $1 tenant, $2 collection, $3 number.
	reparseLeftSQL = `
SELECT d.id, v.bytes
FROM documents d
JOIN versions v ON v.tenant_id = d.tenant_id AND v.id = d.live_version_id
JOIN versions n ON n.tenant_id = d.tenant_id AND n.id = d.last_version_id
JOIN reparses r ON r.tenant_id = $1 AND r.collection_id = $2 AND r.number = $3
WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL AND v.created_at <= r.created_at AND (n.id = v.id OR n.state = 'failed')
  AND NOT EXISTS (SELECT FROM reparsed_documents p
    WHERE p.tenant_id = $1 AND p.collection_id = $2 AND p.number = $3 AND p.document_id = d.id AND p.outcome <> 'parsing')
ORDER BY d.id LIMIT $4`
	reparseWritingSQL = `
SELECT count(*)::int FROM reparsed_documents p JOIN versions v ON v.tenant_id = p.tenant_id AND v.id = p.version_id
WHERE p.tenant_id = $1 AND p.collection_id = $2 AND p.number = $3 AND v.state IN ('received', 'queued', 'processing')`

	// Returns no row for a document that is done.
	beginReparseSQL = `
INSERT INTO reparsed_documents AS p (tenant_id, collection_id, number, document_id, outcome, parses) VALUES ($1, $2, $3, $4, 'parsing', 1)
ON CONFLICT (collection_id, number, document_id, tenant_id) DO UPDATE SET parses = p.parses + 1 WHERE p.outcome = 'parsing'
RETURNING parses - 1`
	reparsedSQL = `
SELECT d.id, v.id, v.attempt, coalesce(nullif(v.file_name, ''), d.external_id), v.given_title, v.media_type, c.language, v.sha256,
       CASE WHEN n.id <> v.id THEN n.reason_code END, coalesce(n.reason, '')
FROM documents d
JOIN versions v ON v.tenant_id = d.tenant_id AND v.id = d.live_version_id
JOIN versions n ON n.tenant_id = d.tenant_id AND n.id = d.last_version_id AND (n.id = v.id OR n.state = 'failed')
JOIN collections c ON c.tenant_id = d.tenant_id AND c.id = d.collection_id
WHERE d.tenant_id = $1 AND d.id = $2 AND d.deleted_at IS NULL`
	abandonReparseSQL = `
UPDATE reparsed_documents SET parses = greatest(parses - 1, 0)
WHERE tenant_id = $1 AND collection_id = $2 AND number = $3 AND document_id = $4 AND outcome = 'parsing'`
	endReparseSQL = `
UPDATE reparsed_documents SET outcome = $5, reason_code = $6, reason = $7
WHERE tenant_id = $1 AND collection_id = $2 AND number = $3 AND document_id = $4 AND outcome = 'parsing'`
	dropReparsedSQL = `
DELETE FROM reparsed_documents WHERE tenant_id = $1 AND collection_id = $2 AND number = $3 AND document_id = $4 AND outcome = 'parsing'`

	shareReparsedCollectionSQL = `SELECT FROM collections WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL FOR SHARE`
	lockReparsedSQL            = `
SELECT d.external_id, d.last_number + 1 FROM documents d
WHERE d.tenant_id = $1 AND d.id = $2 AND d.deleted_at IS NULL AND d.live_version_id = $3 AND d.last_version_id = $3 FOR UPDATE`
	reparseChangesSQL = `
UPDATE reparsed_documents SET outcome = 'changed', version_id = $5
WHERE tenant_id = $1 AND collection_id = $2 AND number = $3 AND document_id = $4 AND outcome = 'parsing'`
	// The live version keeps the blob from purge.
	copyVersionSQL = `
INSERT INTO versions (tenant_id, collection_id, trace, id, document_id, number, state, title, given_title, file_name, media_type, sha256, bytes,
                      fingerprint, metadata, queued_at)
SELECT tenant_id, collection_id, nullif($4, ''), $3, document_id, $5, 'queued', given_title, given_title, file_name, media_type, sha256, bytes,
       fingerprint, metadata, now()
FROM versions WHERE tenant_id = $1 AND id = $2 RETURNING bytes`
	copyLabelsSQL = `
INSERT INTO version_labels (tenant_id, version_id, label) SELECT tenant_id, $3, label FROM version_labels WHERE tenant_id = $1 AND version_id = $2`
	copyMetadataSQL = `
INSERT INTO version_metadata (tenant_id, version_id, key, ordinal, text_value, int_value, time_value)
SELECT tenant_id, $3, key, ordinal, text_value, int_value, time_value FROM version_metadata WHERE tenant_id = $1 AND version_id = $2`
	copyNewestSQL = `
UPDATE documents SET last_version_id = $3, last_number = $4, updated_at = now() WHERE tenant_id = $1 AND id = $2`
	notNewestSQL      = `UPDATE versions SET newest = false WHERE tenant_id = $1 AND document_id = $2 AND newest AND id <> $3`
	reparsedTextSQL   = `INSERT INTO artifacts (tenant_id, version_id, attempt, stage, data) VALUES ($1, $2, 1, 'parsed', $3)`
	storedTitleSQL    = `SELECT title FROM versions WHERE tenant_id = $1 AND id = $2`
	storedSectionsSQL = `
SELECT s.ordinal, s.heading_path, s.body, s.page_starts, s.page_numbers, s.layout,
       ARRAY(SELECT l.target FROM links l WHERE l.tenant_id = s.tenant_id AND l.version_id = s.version_id AND l.section = s.ordinal)
FROM sections s WHERE s.tenant_id = $1 AND s.version_id = $2 ORDER BY s.ordinal`
	finishReparseSQL = `
UPDATE reparses SET state = 'done', finished_at = now() WHERE tenant_id = $1 AND collection_id = $2 AND number = $3 AND state = 'running'`
)

// StartReparse starts a run that parses a collection's live documents again. It returns the current
// run if there is one.
func (s *CorpusStore) StartReparse(ctx context.Context, p schema.Principal, collection uuid.UUID) (schema.Reparse, error) {
	var out schema.Reparse
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, lockReparsedCollectionSQL, p.Tenant, collection).Scan(); err != nil {
			return store.Named(err, "collection", collection)
		}
		before, found, err := newestReparse(ctx, tx, p.Tenant, collection)
		if err != nil || found && before.State == schema.ReparseRunning {
			out = before
			return err
		}
		var number int
		if err := tx.QueryRow(ctx, insertReparseSQL, p.Tenant, collection).Scan(&number); err != nil {
			return fmt.Errorf("note the run: %w", err)
		}
		if _, err := tx.Exec(ctx, forgetReparsedSQL, p.Tenant, collection, number); err != nil {
			return fmt.Errorf("forget run %d: %w", before.Number, err)
		}
		if err := store.Audit(ctx, tx, p.Tenant, p, "collection.reparse", collection.String(), map[string]any{"number": number}); err != nil {
			return err
		}
		out, _, err = newestReparse(ctx, tx, p.Tenant, collection)
		return err
	})
	return out, store.Wrap(err, "parse the documents of collection %s again", collection)
}

// Reparse returns the newest run of a collection. The error is schema.ErrNotFound when there never
// was one.
func (s *CorpusStore) Reparse(ctx context.Context, p schema.Principal, collection uuid.UUID) (schema.Reparse, error) {
	var out schema.Reparse
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := store.CollectionExists(ctx, tx, p.Tenant, collection); err != nil {
			return err
		}
		var found bool
		var err error
		out, found, err = newestReparse(ctx, tx, p.Tenant, collection)
		if err == nil && !found {
			return fmt.Errorf("the documents of the collection were never parsed again: %w", schema.ErrNotFound)
		}
		return err
	})
	return out, store.Wrap(err, "read how documents were parsed again")
}

// CancelReparse cancels the current run; documents that are queued are still written. The error is
// schema.ErrConflict when there is no current run.
func (s *CorpusStore) CancelReparse(ctx context.Context, p schema.Principal, collection uuid.UUID) (schema.Reparse, error) {
	var out schema.Reparse
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := store.CollectionExists(ctx, tx, p.Tenant, collection); err != nil {
			return err
		}
		number, found, err := cancelReparse(ctx, tx, p.Tenant, collection)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("no documents are being parsed again: %w", schema.ErrConflict)
		}
		if err := store.Audit(ctx, tx, p.Tenant, p, "collection.reparse.cancel", collection.String(), map[string]any{"number": number}); err != nil {
			return err
		}
		out, _, err = newestReparse(ctx, tx, p.Tenant, collection)
		return err
	})
	return out, store.Wrap(err, "cancel parsing documents again")
}

func cancelReparse(ctx context.Context, tx pgx.Tx, tenant, collection uuid.UUID) (number int, found bool, err error) {
	err = tx.QueryRow(ctx, cancelReparseSQL, tenant, collection).Scan(&number)
	if store.IsNoRows(err) {
		return 0, false, nil
	}
	if err == nil {
		_, err = tx.Exec(ctx, forgetParsesSQL, tenant, collection, number)
	}
	return number, true, store.Wrap(err, "cancel the run")
}

func newestReparse(ctx context.Context, tx pgx.Tx, tenant, collection uuid.UUID) (out schema.Reparse, found bool, err error) {
	err = tx.QueryRow(ctx, reparseSQL, tenant, collection).Scan(&out.CollectionID, &out.Number, &out.State, &out.Total,
		&out.Unchanged, &out.Changed, &out.Writing, &out.Failed, &out.CreatedAt, &out.FinishedAt)
	if store.IsNoRows(err) {
		return out, false, nil
	}
	if err != nil {
		return out, false, fmt.Errorf("read a run: %w", err)
	}
	rows, err := tx.Query(ctx, reparseFailuresSQL, tenant, collection, out.Number, schema.MaxReparseFailures)
	if err != nil {
		return out, false, fmt.Errorf("read failures: %w", err)
	}
	out.Failures, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (f schema.ReparseFailure, err error) {
		err = row.Scan(&f.Document, &f.ExternalID, &f.Reason.Code, &f.Reason.Message)
		return f, err
	})
	out.Failures = store.EmptyNotNull(out.Failures)
	return out, true, store.Wrap(err, "read failures")
}

// Reparses lists up to limit running runs of all tenants.
func (s *CorpusStore) Reparses(ctx context.Context, limit int) ([]wire.Reparse, error) {
	var out []wire.Reparse
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT tenant_id, collection_id, number FROM reparses WHERE state = 'running' ORDER BY created_at LIMIT $1`, limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[wire.Reparse])
		return err
	})
	return out, store.Wrap(err, "list runs that parse documents again")
}

// reparsing runs fn while the run is running, and keeps it so until fn's transaction ends;
// otherwise it returns batch.ErrReparseOver. It cancels the run of a deleted collection.
func (s *CorpusStore) reparsing(ctx context.Context, in wire.Reparse, fn func(ctx context.Context, tx pgx.Tx) error) error {
	over, deleted := false, false
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		var running bool
		err := tx.QueryRow(ctx, runningReparseSQL, in.Tenant, in.Collection, in.Number).Scan(&running, &deleted)
		if err != nil && !store.IsNoRows(err) {
			return fmt.Errorf("look at run %d: %w", in.Number, err)
		}
		if over = err != nil || !running || deleted; over {
			return nil
		}
		return fn(ctx, tx)
	})
	if err == nil && deleted {
		err = s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			_, _, err := cancelReparse(ctx, tx, in.Tenant, in.Collection)
			return err
		})
	}
	if err == nil && over {
		return fmt.Errorf("run %d of collection %s: %w", in.Number, in.Collection, batch.ErrReparseOver)
	}
	return err
}

// ReparseLeft implements ingest.Reparses.
func (s *CorpusStore) ReparseLeft(ctx context.Context, in wire.Reparse, limit int) (left []batch.Reparsable, writing int, err error) {
	err = s.reparsing(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, reparseWritingSQL, in.Tenant, in.Collection, in.Number).Scan(&writing); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, reparseLeftSQL, in.Tenant, in.Collection, in.Number, limit)
		if err != nil {
			return err
		}
		left, err = pgx.CollectRows(rows, pgx.RowToStructByPos[batch.Reparsable])
		return err
	})
	return left, writing, err
}

// BeginReparse implements ingest.Reparses.
func (s *CorpusStore) BeginReparse(ctx context.Context, in wire.Reparse, document uuid.UUID) (doc batch.Reparsed, found bool, err error) {
	err = s.reparsing(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		found, doc = false, batch.Reparsed{}
		var code *string
		var reason string
		err := tx.QueryRow(ctx, reparsedSQL, in.Tenant, document).Scan(&doc.Document, &doc.Version, &doc.Attempt.Attempt, &doc.Name, &doc.Title,
			&doc.MediaType, &doc.Language, &doc.SHA256, &code, &reason)
		if store.IsNoRows(err) {
			_, err := tx.Exec(ctx, dropReparsedSQL, in.Tenant, in.Collection, in.Number, document)
			return err
		}
		if err != nil {
			return fmt.Errorf("read document %s: %w", document, err)
		}
		if code != nil {
			doc.Newer = &schema.Reason{Code: *code, Message: reason}
		}
		err = tx.QueryRow(ctx, beginReparseSQL, in.Tenant, in.Collection, in.Number, document).Scan(&doc.Begun)
		found = err == nil
		return unlessNoRows(err)
	})
	return doc, found, err
}

// AbandonReparse implements ingest.Reparses.
func (s *CorpusStore) AbandonReparse(ctx context.Context, in wire.Reparse, document uuid.UUID) error {
	return s.reparsing(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, abandonReparseSQL, in.Tenant, in.Collection, in.Number, document)
		return err
	})
}

// EndReparse implements ingest.Reparses.
func (s *CorpusStore) EndReparse(ctx context.Context, in wire.Reparse, document uuid.UUID, reason *schema.Reason) error {
	outcome := "unchanged"
	var code, message *string
	if reason != nil {
		outcome, code, message = "failed", &reason.Code, &reason.Message
	}
	return s.reparsing(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, endReparseSQL, in.Tenant, in.Collection, in.Number, document, outcome, code, message)
		return err
	})
}

// QueueReparse implements ingest.Reparses. It skips a document that changed since its parse began.
func (s *CorpusStore) QueueReparse(ctx context.Context, in wire.Reparse, document, version uuid.UUID, parsed []byte) error {
	fresh, trace := schema.NewID(), store.Traceparent(ctx)
	return s.reparsing(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		// All transactions lock in this order: collection, documents, versions.
		if err := tx.QueryRow(ctx, shareReparsedCollectionSQL, in.Tenant, in.Collection).Scan(); err != nil {
			return store.Named(err, "collection", in.Collection)
		}
		var externalID string
		var number int
		err := tx.QueryRow(ctx, lockReparsedSQL, in.Tenant, document, version).Scan(&externalID, &number)
		if store.IsNoRows(err) {
			_, err := tx.Exec(ctx, dropReparsedSQL, in.Tenant, in.Collection, in.Number, document)
			return err
		}
		if err != nil {
			return fmt.Errorf("lock document %s: %w", document, err)
		}
		tag, err := tx.Exec(ctx, reparseChangesSQL, in.Tenant, in.Collection, in.Number, document, fresh)
		if err != nil || tag.RowsAffected() == 0 { // another execution was faster
			return store.Wrap(err, "note the change")
		}
		m := wire.IngestMessage{Tenant: in.Tenant, Collection: in.Collection, Document: document, Version: fresh, Attempt: 1, Trace: trace}
		if err := tx.QueryRow(ctx, copyVersionSQL, in.Tenant, version, fresh, trace, number).Scan(&m.Bytes); err != nil {
			return fmt.Errorf("make version %d of document %s: %w", number, document, err)
		}
		b := &pgx.Batch{}
		b.Queue(copyLabelsSQL, in.Tenant, version, fresh)
		b.Queue(copyMetadataSQL, in.Tenant, version, fresh)
		b.Queue(copyNewestSQL, in.Tenant, document, fresh, number)
		b.Queue(notNewestSQL, in.Tenant, document, fresh)
		b.Queue(reparsedTextSQL, in.Tenant, fresh, parsed)
		var out store.Outbox
		if err := out.Ingest(m); err != nil {
			return err
		}
		if err := out.Event(wire.Event{Kind: "version.queued", Tenant: in.Tenant, Collection: in.Collection, Document: document, Version: fresh,
			ExternalID: externalID, State: schema.StateQueued}, trace); err != nil {
			return err
		}
		out.Queue(ctx, b)
		return store.Wrap(tx.SendBatch(ctx, b).Close(), "queue version %d of document %s", number, document)
	})
}

// StoredVersion implements ingest.Reparses.
func (s *CorpusStore) StoredVersion(ctx context.Context, tenant, version uuid.UUID) (batch.StoredVersion, error) {
	var out batch.StoredVersion
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, storedTitleSQL, tenant, version).Scan(&out.Title); err != nil {
			return store.Named(err, "version", version)
		}
		rows, err := tx.Query(ctx, storedSectionsSQL, tenant, version)
		if err != nil {
			return err
		}
		out.Sections, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (sec schema.Section, err error) {
			var starts, pages []int
			err = row.Scan(&sec.Ordinal, &sec.HeadingPath, &sec.Text, &starts, &pages, &sec.Layout, &sec.Links)
			sec.Pages = store.PageMarks(starts, pages)
			return sec, err
		})
		return err
	})
	return out, err
}

// FinishReparse implements ingest.Reparses.
func (s *CorpusStore) FinishReparse(ctx context.Context, in wire.Reparse) (done bool, err error) {
	writing := 0
	err = s.reparsing(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, reparseWritingSQL, in.Tenant, in.Collection, in.Number).Scan(&writing)
	})
	if err != nil || writing > 0 {
		return false, err
	}
	err = s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, finishReparseSQL, in.Tenant, in.Collection, in.Number)
		return err
	})
	return err == nil, err
}
