// Package documents keeps collections, and the documents in them with their versions: uploads,
// lists, texts, labels and metadata, deletion.
package documents

// This file reads documents and their versions, without their text. A key without the ingest scope
// sees only documents that it could find: those without labels, or with one of its groups.

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/blobs"
	"github.com/sluice-rag/sluice/schema"
)

// DocumentStore keeps the tenants' collections and documents.
type DocumentStore struct {
	db    *store.Store
	bytes *blobs.BlobStore
}

// New returns the DocumentStore of a database.
func New(db *store.Store) *DocumentStore { return &DocumentStore{db, blobs.New(db)} }

const (
	documentColumns = `
SELECT d.id, d.collection_id, d.external_id, v.title, v.state, v.reason_code, v.reason, d.live_version_id IS NOT NULL,
       v.media_type, v.bytes, encode(v.sha256, 'hex'), v.number, v.attempt, v.section_count, v.passage_count,
       ARRAY(SELECT l.label FROM version_labels l WHERE l.tenant_id = v.tenant_id AND l.version_id = v.id ORDER BY l.label),
       v.metadata, d.created_at, d.updated_at`
	versionsSQL = `
SELECT id, document_id, collection_id, number, state, reason_code, reason, attempt, media_type, bytes, encode(sha256, 'hex'),
       created_at, CASE WHEN state IN ('ready', 'superseded') THEN finished_at END
FROM versions WHERE tenant_id = $1 AND document_id = $2 ORDER BY number DESC LIMIT 500`
)

var (
	// $1 tenant, $2 sees all, $3 groups. When the newest version has wider labels, those of the
	// live one apply until the newest is live.
	documentVisible = `
WHERE d.tenant_id = $1 AND d.deleted_at IS NULL AND ` + store.OfLiving + ` AND ($2 OR ` + store.ReadableNow("v.id", "$3") + `)`

	documentSelect   = documentColumns + ` FROM documents d JOIN versions v ON v.tenant_id = d.tenant_id AND v.id = d.last_version_id` + documentVisible
	documentSQL      = documentSelect + ` AND d.id = $4`
	documentNamedSQL = documentSelect + ` AND d.collection_id = $4 AND d.external_id = $5`
)

// visibleTo returns the first three parameters of documentSelect, which select the documents that p
// may see, followed by more.
func visibleTo(p schema.Principal, more ...any) []any {
	return append([]any{p.Tenant, p.Has(schema.ScopeIngest), store.GroupsOf(p)}, more...)
}

// Document returns a document with its newest version and its near-duplicates.
func (s *DocumentStore) Document(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Document, error) {
	out, err := s.oneDocument(ctx, p, documentSQL, id)
	if err != nil {
		return out, fmt.Errorf("read document: %w", store.Named(err, "document", id))
	}
	return out, nil
}

// DocumentNamed is Document by the external id in a collection.
func (s *DocumentStore) DocumentNamed(ctx context.Context, p schema.Principal, collection uuid.UUID, externalID string) (schema.Document, error) {
	if err := schema.CheckText("external_id", externalID); err != nil {
		return schema.Document{}, err
	}
	out, err := s.oneDocument(ctx, p, documentNamedSQL, collection, externalID)
	if err != nil {
		return out, fmt.Errorf("read document: %w", store.Named(err, "document", externalID))
	}
	return out, nil
}

func (s *DocumentStore) oneDocument(ctx context.Context, p schema.Principal, sql string, args ...any) (schema.Document, error) {
	var out schema.Document
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, visibleTo(p, args...)...)
		if err != nil {
			return err
		}
		if out, err = pgx.CollectExactlyOneRow(rows, scanDocument); err != nil {
			return err
		}
		return nearDuplicates(ctx, tx, p, &out)
	})
	return out, err
}

// Versions returns a document's versions, newest first, at most 500.
func (s *DocumentStore) Versions(ctx context.Context, p schema.Principal, document uuid.UUID) ([]schema.Version, error) {
	var out []schema.Version
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, documentSQL, visibleTo(p, document)...)
		if err != nil {
			return err
		}
		if _, err := pgx.CollectExactlyOneRow(rows, scanDocument); err != nil {
			return store.Named(err, "document", document)
		}
		if rows, err = tx.Query(ctx, versionsSQL, p.Tenant, document); err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scanVersion)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list versions: %w", err)
	}
	return out, nil
}

func scanDocument(row pgx.CollectableRow) (schema.Document, error) {
	var d schema.Document
	var code, reason *string
	err := row.Scan(&d.ID, &d.CollectionID, &d.ExternalID, &d.Title, &d.State, &code, &reason, &d.Live, &d.MediaType, &d.Bytes,
		&d.SHA256, &d.Version, &d.Attempt, &d.Sections, &d.Passages, &d.Labels, &d.Metadata, &d.CreatedAt, &d.UpdatedAt)
	d.Reason = store.ReasonOf(code, reason)
	return d, err
}

func scanVersion(row pgx.CollectableRow) (schema.Version, error) {
	var v schema.Version
	var code, reason *string
	err := row.Scan(&v.ID, &v.DocumentID, &v.CollectionID, &v.Number, &v.State, &code, &reason, &v.Attempt, &v.MediaType, &v.Bytes,
		&v.SHA256, &v.CreatedAt, &v.ReadyAt)
	v.Reason = store.ReasonOf(code, reason)
	return v, err
}
