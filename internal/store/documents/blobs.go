package documents

// This file reads stored bytes. A hash alone grants none: callers name the
// tenant, and row-level security holds them to it.

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	openBlobSQL = `
SELECT b.bytes, c.data FROM blobs b
LEFT JOIN blob_chunks c ON c.tenant_id = b.tenant_id AND c.sha256 = b.sha256 AND c.ordinal = 0
WHERE b.tenant_id = $1 AND b.sha256 = $2`
	blobChunkSQL = `SELECT data FROM blob_chunks WHERE tenant_id = $1 AND sha256 = $2 AND ordinal = $3`
)

// $1 tenant, $2 document, $3 groups, $4 version: none is the newest one.
var contentSQL = `
SELECT v.sha256, v.media_type, v.purged_at IS NOT NULL, ` + store.ReadableNow("v.id", "$3") + `
FROM documents d
JOIN versions v ON v.tenant_id = d.tenant_id AND v.document_id = d.id AND v.id = coalesce($4::uuid, d.last_version_id)
WHERE d.tenant_id = $1 AND d.id = $2 AND d.deleted_at IS NULL AND ` + store.OfLiving

// Blob reads one blob, a chunk at a time; between chunks it holds no
// connection. It is not safe for concurrent use.
type Blob struct {
	ctx     context.Context //nolint:containedctx // io.Reader takes none
	db      *store.Store
	tenant  uuid.UUID
	sha256  []byte
	size    int64
	read    int64
	ordinal int
	chunk   []byte
}

// OpenBlob opens tenant's blob with a SHA-256 (32 bytes). ctx bounds the
// reading too.
func (s *DocumentStore) OpenBlob(ctx context.Context, tenant uuid.UUID, sha256 []byte) (*Blob, error) {
	b := &Blob{ctx: ctx, db: s.db, tenant: tenant, sha256: sha256}
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, openBlobSQL, tenant, sha256).Scan(&b.size, &b.chunk)
		return store.Named(err, "blob", hex.EncodeToString(sha256))
	})
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	return b, nil
}

// OpenContent opens the bytes of a document's version, or of its newest one for
// uuid.Nil, and tells their media type. Its labels hold for every key, whatever its
// scopes: schema.ErrForbidden is for one that lists the document but has none of its
// groups. schema.ErrNotFound: no such document, or none that p sees, or no such
// version of it, or its bytes were not kept.
func (s *DocumentStore) OpenContent(ctx context.Context, p schema.Principal, document, version uuid.UUID) (*Blob, string, error) {
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
			return fmt.Errorf("document %s has labels, and the key none of them as a group: %w", document, schema.ErrForbidden)
		case purged:
			return fmt.Errorf("version %s of document %s is not stored any more: %w", version, document, schema.ErrNotFound)
		}
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("open content: %w", err)
	}
	b, err := s.OpenBlob(ctx, p.Tenant, hash)
	return b, mediaType, err
}

// Size is the blob's length in bytes.
func (b *Blob) Size() int64 { return b.size }

// Read implements io.Reader. A blob that is purged meanwhile gives
// schema.ErrNotFound.
func (b *Blob) Read(p []byte) (int, error) {
	if b.read == b.size {
		return 0, io.EOF
	}
	if len(b.chunk) == 0 {
		if err := b.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.chunk)
	b.chunk = b.chunk[n:]
	b.read += int64(n)
	return n, nil
}

// Close implements io.Closer. There is nothing to give back.
func (b *Blob) Close() error { return nil }

func (b *Blob) next() error {
	b.ordinal++
	err := b.db.AsTenant(b.ctx, b.tenant, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, blobChunkSQL, b.tenant, b.sha256, b.ordinal).Scan(&b.chunk)
		return store.Named(err, "chunk", b.ordinal)
	})
	if err == nil && len(b.chunk) == 0 {
		err = fmt.Errorf("chunk %d is empty: %w", b.ordinal, schema.ErrNotFound)
	}
	return store.Wrap(err, "read blob %x", b.sha256)
}
