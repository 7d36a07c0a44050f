package documents

// This file changes documents without new content: delete, retry, labels and metadata. Documents
// are locked before their versions, each in id order.

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/access"
	"github.com/sluice-rag/sluice/internal/store/corpus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const namedSQL = `SELECT coalesce((metadata - 'links')::text, '') FROM versions WHERE tenant_id = $1 AND id = $2`

const (
	lockDocumentSQL = `
SELECT collection_id, external_id, live_version_id, last_version_id FROM documents d
WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL AND ` + store.OfLiving + ` FOR UPDATE`

	lockUnretiredSQL = `
SELECT id FROM versions
WHERE tenant_id = $1 AND document_id = ANY ($2) AND state NOT IN ('superseded', 'cancelled') ORDER BY id FOR UPDATE`
	retireVersionsSQL = `
UPDATE versions v SET state = CASE v.state WHEN 'ready' THEN 'superseded' ELSE 'cancelled' END,
       reason_code = NULL, reason = NULL, finished_at = coalesce(v.finished_at, now())
FROM documents d
WHERE v.tenant_id = $1 AND v.id = ANY ($2) AND d.tenant_id = v.tenant_id AND d.id = v.document_id
RETURNING v.id, v.document_id, v.collection_id, d.external_id, v.state`
	hideDocumentsSQL = `
UPDATE documents SET deleted_at = now(), updated_at = now(), live_version_id = NULL WHERE tenant_id = $1 AND id = ANY ($2)`
	hideNewestSQL = `UPDATE versions SET newest = false WHERE tenant_id = $1 AND document_id = ANY ($2) AND newest`

	lockFailedSQL = `
SELECT d.id FROM documents d
CROSS JOIN LATERAL (SELECT sha256 FROM versions WHERE tenant_id = $1 AND id = d.last_version_id AND (state = 'failed') IS TRUE LIMIT 1) v
WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL AND d.id > $4
  AND EXISTS (SELECT FROM blobs b WHERE b.tenant_id = $1 AND b.sha256 = v.sha256 OFFSET 0)
ORDER BY d.id LIMIT $3 FOR UPDATE OF d`

	setMetadataSQL = `UPDATE versions SET metadata = $3 WHERE tenant_id = $1 AND id = $2`
	// Takes effect once in a transaction, however often it is called.
	raiseRevisionSQL = `SELECT sluice_raise_lexical_revision($1, $2)`
	uncurateSQL      = `UPDATE versions SET curated = false WHERE tenant_id = $1 AND id = $2 AND (state = 'ready') IS TRUE`
	dropLabelsSQL    = `DELETE FROM version_labels WHERE tenant_id = $1 AND version_id = $2`
	dropMetadataSQL  = `DELETE FROM version_metadata WHERE tenant_id = $1 AND version_id = $2`
)

// lockedDocument is a locked document that is not deleted.
type lockedDocument struct {
	collection uuid.UUID
	externalID string
	live, last *uuid.UUID
}

func lockDocument(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID) (lockedDocument, error) {
	var d lockedDocument
	err := tx.QueryRow(ctx, lockDocumentSQL, tenant, id).Scan(&d.collection, &d.externalID, &d.live, &d.last)
	return d, store.Named(err, "document", id)
}

// The source's next attempt begins, and the source is removed, after this transaction.
const holdSourceSQL = `SELECT true FROM sources WHERE tenant_id = $1 AND id = $2 AND attempt = $3 FOR KEY SHARE`

// holdSource locks the source for which p writes, if any, after the documents. The error is
// schema.ErrLostLease if the source has another attempt.
func holdSource(ctx context.Context, tx pgx.Tx, p schema.Principal) error {
	h := p.Holds
	if h == nil {
		return nil
	}
	err := tx.QueryRow(ctx, holdSourceSQL, p.Tenant, h.Source, h.Attempt).Scan(nil)
	if store.IsNoRows(err) {
		err = schema.ErrLostLease
	}
	return store.Wrap(err, "hold source %s in attempt %d", h.Source, h.Attempt)
}

// DeleteDocument hides a document at once and cancels its unfinished versions; purge removes its
// contents. A later upload under the same external id restores the document with new content.
func (s *DocumentStore) DeleteDocument(ctx context.Context, p schema.Principal, id uuid.UUID) error {
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		d, err := lockDocument(ctx, tx, p.Tenant, id)
		if err != nil {
			return err
		}
		if err := holdSource(ctx, tx, p); err != nil {
			return err
		}
		if err := hideDocuments(ctx, tx, p.Tenant, []uuid.UUID{id}); err != nil {
			return err
		}
		var out store.Outbox
		event := wire.Event{Kind: "document.deleted", Tenant: p.Tenant, Collection: d.collection, Document: id, ExternalID: d.externalID, State: schema.StateCancelled}
		if d.last != nil {
			event.Version = *d.last
		}
		if err := out.Event(event, store.Traceparent(ctx)); err != nil {
			return err
		}
		if err := out.Write(ctx, tx); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "document.delete", id.String(), map[string]any{"external_id": d.externalID, "collection": d.collection})
	})
	return store.Wrap(err, "delete document")
}

// hideDocuments deletes documents that the transaction has locked: their versions retire, each with
// an event, so that none goes live any more and purge finds them.
func hideDocuments(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, documents []uuid.UUID) error {
	if len(documents) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, lockUnretiredSQL, tenant, documents)
	if err != nil {
		return fmt.Errorf("lock versions: %w", err)
	}
	versions, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return fmt.Errorf("lock versions: %w", err)
	}
	var out store.Outbox
	trace := store.Traceparent(ctx)
	if rows, err = tx.Query(ctx, retireVersionsSQL, tenant, versions); err != nil {
		return fmt.Errorf("retire versions: %w", err)
	}
	e := wire.Event{Tenant: tenant}
	if _, err := pgx.ForEachRow(rows, []any{&e.Version, &e.Document, &e.Collection, &e.ExternalID, &e.State}, func() error {
		e.Kind = "version." + string(e.State)
		return out.Event(e, trace)
	}); err != nil {
		return fmt.Errorf("retire versions: %w", err)
	}
	if err := out.Write(ctx, tx); err != nil {
		return err
	}
	batch := &pgx.Batch{}
	batch.Queue(corpus.DropLeasesSQL, tenant, versions)
	batch.Queue(corpus.DropSignaturesSQL, tenant, versions)
	batch.Queue(hideDocumentsSQL, tenant, documents)
	batch.Queue(hideNewestSQL, tenant, documents)
	return store.Wrap(tx.SendBatch(ctx, batch).Close(), "hide documents")
}

// RetryDocument queues a document's failed newest version again, in a new attempt. The error is
// schema.ErrConflict when the version did not fail, or its bytes were not kept.
func (s *DocumentStore) RetryDocument(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Document, error) {
	var out schema.Document
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := lockDocument(ctx, tx, p.Tenant, id); err != nil {
			return err
		}
		n, err := corpus.Requeue(ctx, tx, p.Tenant, []uuid.UUID{id})
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, documentSQL, visibleTo(p, id)...)
		if err != nil {
			return err
		}
		if out, err = pgx.CollectExactlyOneRow(rows, scanDocument); err != nil {
			return err
		}
		switch {
		case n == 0 && out.State == schema.StateFailed:
			return fmt.Errorf("the bytes of %q were not kept (%s); upload it again: %w", out.ExternalID, out.Reason.Code, schema.ErrConflict)
		case n == 0:
			return fmt.Errorf("%q is %s; only a failed document can be retried: %w", out.ExternalID, out.State, schema.ErrConflict)
		}
		return store.Audit(ctx, tx, p.Tenant, p, "document.retry", id.String(), map[string]any{"external_id": out.ExternalID, "attempt": out.Attempt})
	})
	return out, store.Wrap(err, "retry document")
}

// RetryFailed queues all failed documents of a collection again, each once, except those whose
// bytes were not kept, and returns their number.
func (s *DocumentStore) RetryFailed(ctx context.Context, p schema.Principal, collection uuid.UUID) (int, error) {
	// In the order of ids, so that a document that fails again meanwhile is not retried twice.
	var after uuid.UUID
	for total := 0; ; {
		var documents []uuid.UUID
		var n int
		err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			n = 0
			if err := store.CollectionExists(ctx, tx, p.Tenant, collection); err != nil {
				return err
			}
			rows, err := tx.Query(ctx, lockFailedSQL, p.Tenant, collection, corpus.RetryBatch, after)
			if err != nil {
				return err
			}
			documents, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			if err != nil || len(documents) == 0 {
				return err
			}
			if n, err = corpus.Requeue(ctx, tx, p.Tenant, documents); err != nil || n == 0 {
				return err
			}
			return store.Audit(ctx, tx, p.Tenant, p, "collection.retry", collection.String(), map[string]any{"documents": n})
		})
		if err != nil {
			return total, fmt.Errorf("retry failed documents: %w", err)
		}
		total += n
		if len(documents) < corpus.RetryBatch {
			return total, nil
		}
		after = documents[len(documents)-1]
	}
}

// ChangeAttributes implements documents.Store.
func (s *DocumentStore) ChangeAttributes(ctx context.Context, p schema.Principal, id uuid.UUID, c schema.DocumentChange, to documents.Attributes) (schema.Document, error) {
	var out schema.Document
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		var r corpus.Recipe
		if c.Labels != nil || c.Metadata != nil {
			var err error
			if r, err = corpus.ShareRecipe(ctx, tx, p.Tenant, id); err != nil {
				return err
			}
		}
		d, err := lockDocument(ctx, tx, p.Tenant, id)
		if err != nil {
			return err
		}
		if err := holdSource(ctx, tx, p); err != nil {
			return err
		}
		if c.Labels != nil {
			if err := access.MayLabel(ctx, tx, p, d.externalID, to.Labels); err != nil {
				return err
			}
		}
		var versions []uuid.UUID
		for _, v := range []*uuid.UUID{d.live, d.last} {
			if v != nil {
				versions = append(versions, *v)
			}
		}
		named := func() (metadata string, err error) {
			if c.Metadata == nil || d.live == nil {
				return "", nil
			}
			err = tx.QueryRow(ctx, namedSQL, p.Tenant, *d.live).Scan(&metadata)
			return metadata, store.Wrap(err, "read what the document is called")
		}
		before, err := named()
		if err != nil {
			return err
		}
		if err := setAttributes(ctx, tx, p.Tenant, versions, c, to); err != nil {
			return err
		}
		if d.live != nil {
			// Filters read metadata, which is not in the index.
			if _, err := tx.Exec(ctx, raiseRevisionSQL, p.Tenant, d.collection); err != nil {
				return fmt.Errorf("raise the revision of collection %s: %w", d.collection, err)
			}
		}
		after, err := named()
		if err != nil {
			return err
		}
		if c.Labels != nil { // other versions may be in processing or still be read
			if _, err := narrow(ctx, tx, p.Tenant, d.collection, []narrowing{{id, to.Labels}}, versions); err != nil {
				return err
			}
		}
		if c.Metadata != nil && d.live != nil {
			if err := corpus.RelinkGiven(ctx, tx, p.Tenant, d.collection, *d.live); err != nil {
				return err
			}
		}
		// Metadata is part of the names that the index has of a document.
		if (c.Labels != nil || before != after) && d.live != nil {
			if err := corpus.Relabel(ctx, tx, p.Tenant, *d.live, r); err != nil {
				return err
			}
			// Lets curation merge the segment of one document.
			if _, err := tx.Exec(ctx, uncurateSQL, p.Tenant, *d.live); err != nil {
				return fmt.Errorf("leave it to curation: %w", err)
			}
		}
		var messages store.Outbox
		event := wire.Event{Kind: "document.updated", Tenant: p.Tenant, Collection: d.collection, Document: id, ExternalID: d.externalID}
		rows, err := tx.Query(ctx, documentSQL, p.Tenant, true, []string{}, id)
		if err != nil {
			return err
		}
		if out, err = pgx.CollectExactlyOneRow(rows, scanDocument); err != nil {
			return err
		}
		if d.last != nil {
			event.Version = *d.last
		}
		event.State, event.Reason = out.State, out.Reason
		if err := messages.Event(event, store.Traceparent(ctx)); err != nil {
			return err
		}
		if err := messages.Write(ctx, tx); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "document.update", id.String(), map[string]any{"external_id": d.externalID, "labels": c.Labels, "metadata": c.Metadata != nil})
	})
	return out, store.Wrap(err, "update document")
}

func setAttributes(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, versions []uuid.UUID, c schema.DocumentChange, to documents.Attributes) error {
	type row struct {
		id         uuid.UUID
		sha256     string
		attributes schema.Attributes
	}
	rows, err := tx.Query(ctx, attributesSQL, tenant, versions)
	if err != nil {
		return fmt.Errorf("lock versions: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (out row, err error) {
		err = r.Scan(&out.id, &out.sha256, &out.attributes.Title, &out.attributes.Metadata, &out.attributes.Labels)
		return out, err
	})
	if err != nil {
		return fmt.Errorf("lock versions: %w", err)
	}
	batch := &pgx.Batch{}
	for _, v := range list {
		if c.Labels != nil {
			v.attributes.Labels = to.Labels
			batch.Queue(dropLabelsSQL, tenant, v.id)
		}
		if c.Metadata != nil {
			v.attributes.Metadata = *c.Metadata
			batch.Queue(dropMetadataSQL, tenant, v.id)
			batch.Queue(setMetadataSQL, tenant, v.id, to.Metadata)
		}
		fingerprint, err := schema.Fingerprint(v.sha256, v.attributes)
		if err != nil {
			return err
		}
		batch.Queue(setFingerprintSQL, tenant, v.id, fingerprint)
		var rows attributeRows
		rows.add(v.id, to)
		rows.queue(batch, tenant)
	}
	return store.Wrap(tx.SendBatch(ctx, batch).Close(), "set labels and metadata")
}
