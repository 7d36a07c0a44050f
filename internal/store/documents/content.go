package documents

// This file reads the bytes of documents, for those who may see them.

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/blobs"
	"github.com/sluice-rag/sluice/schema"
)

// $1 tenant, $2 document, $3 groups, $4 version; null means the newest one.
var contentSQL = `
SELECT v.sha256, v.media_type, v.purged_at IS NOT NULL, ` + store.ReadableNow("v.id", "$3") + `
FROM documents d
JOIN versions v ON v.tenant_id = d.tenant_id AND v.document_id = d.id AND v.id = coalesce($4::uuid, d.last_version_id)
WHERE d.tenant_id = $1 AND d.id = $2 AND d.deleted_at IS NULL AND ` + store.OfLiving

// OpenContent opens the bytes of a document's version, or of its newest one for uuid.Nil, and
// returns their media type. Labels apply to every key, whatever its scopes: the error is
// schema.ErrForbidden when p may list the document but has none of its groups. It is
// schema.ErrNotFound when there is no such document or version, p does not see the document, or the
// bytes are not stored.
func (s *DocumentStore) OpenContent(ctx context.Context, p schema.Principal, document, version uuid.UUID) (*blobs.Blob, string, error) {
	var wanted *uuid.UUID
	if version != uuid.Nil {
		wanted = &version
	}
	var hash []byte
	var mediaType string
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, documentSQL, visibleTo(p, document)...)
		if err != nil {
			return err
		}
		if _, err := pgx.CollectExactlyOneRow(rows, scanDocument); err != nil {
			return store.Named(err, "document", document)
		}
		var purged, readable bool
		err = tx.QueryRow(ctx, contentSQL, p.Tenant, document, store.GroupsOf(p), wanted).Scan(&hash, &mediaType, &purged, &readable)
		switch {
		case err != nil:
			return store.Named(err, "version", fmt.Sprintf("%s of document %s", version, document))
		case !readable:
			return fmt.Errorf("document %s has labels, and the key has none of them as a group: %w", document, schema.ErrForbidden)
		case purged:
			return fmt.Errorf("version %s of document %s is not stored any more: %w", version, document, schema.ErrNotFound)
		}
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("open content: %w", err)
	}
	b, err := s.bytes.OpenBlob(ctx, p.Tenant, hash)
	return b, mediaType, err
}
