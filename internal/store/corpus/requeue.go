package corpus

// This file queues failed versions again.

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const lockVersionsOfSQL = `
SELECT v.id FROM (
    SELECT d.last_version_id AS id FROM unnest($2::uuid[]) AS w(id)
    CROSS JOIN LATERAL (SELECT last_version_id FROM documents WHERE tenant_id = $1 AND id = w.id LIMIT 1) d ORDER BY 1) d
CROSS JOIN LATERAL (SELECT id FROM versions WHERE tenant_id = $1 AND id = d.id LIMIT 1 FOR UPDATE) v`

const requeueSQL = `
UPDATE versions v SET state = 'queued', attempt = attempt + 1, parses = 0, losses = 0, reason_code = NULL, reason = NULL,
       queued_at = now(), finished_at = NULL, trace = nullif($3, '')
FROM documents d
WHERE v.tenant_id = $1 AND v.id = ANY ($2) AND (v.state = 'failed') IS TRUE AND d.tenant_id = v.tenant_id AND d.id = v.document_id
  AND EXISTS (SELECT FROM blobs b WHERE b.tenant_id = v.tenant_id AND b.sha256 = v.sha256 OFFSET 0)
RETURNING v.id, v.document_id, v.collection_id, v.attempt, v.bytes, d.external_id`

// RetryBatch is the number of documents that one transaction queues again.
const RetryBatch = 500

// Requeue queues the failed newest versions of locked documents again, each in a new attempt, and
// so with a new message id that JetStream does not take for a duplicate. It returns their number.
func Requeue(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, documents []uuid.UUID) (int, error) {
	rows, err := tx.Query(ctx, lockVersionsOfSQL, tenant, documents)
	if err != nil {
		return 0, fmt.Errorf("lock versions: %w", err)
	}
	versions, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return 0, fmt.Errorf("lock versions: %w", err)
	}
	var out store.Outbox
	trace := store.Traceparent(ctx)
	if rows, err = tx.Query(ctx, requeueSQL, tenant, versions, trace); err != nil {
		return 0, fmt.Errorf("queue versions: %w", err)
	}
	m := wire.IngestMessage{Tenant: tenant, Trace: trace}
	var externalID string
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&m.Version, &m.Document, &m.Collection, &m.Attempt, &m.Bytes, &externalID}, func() error {
		n++
		if err := out.Ingest(m); err != nil {
			return err
		}
		return out.Event(wire.Event{Kind: "version.queued", Tenant: tenant, Collection: m.Collection, Document: m.Document, Version: m.Version,
			ExternalID: externalID, State: schema.StateQueued}, trace)
	})
	if err != nil {
		return 0, fmt.Errorf("queue versions: %w", err)
	}
	if n == 0 {
		return 0, nil
	}
	batch := &pgx.Batch{}
	batch.Queue(DropLeasesSQL, tenant, versions)
	batch.Queue(TouchDocumentsSQL, tenant, documents)
	out.Queue(ctx, batch)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return 0, fmt.Errorf("queue versions: %w", err)
	}
	return n, nil
}

const TouchDocumentsSQL = `UPDATE documents SET updated_at = now() WHERE tenant_id = $1 AND id = ANY ($2)`
