// Package blobs keeps the bytes of documents: in Postgres, in chunks, or as objects outside of it.
// The row of a blob says which, so both may be in use at once.
package blobs

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
)

// BlobStore keeps the tenants' blobs.
type BlobStore struct {
	db      *store.Store
	objects store.Objects // nil: none
}

// New returns the BlobStore of a database.
func New(db *store.Store) *BlobStore { return &BlobStore{db, db.Options().Objects} }

const findBlobSQL = `
SELECT b.bytes, b.object, c.data FROM blobs b
LEFT JOIN blob_chunks c ON b.object IS NULL AND c.tenant_id = b.tenant_id AND c.sha256 = b.sha256 AND c.ordinal = 0
WHERE b.tenant_id = $1 AND b.sha256 = $2`

// find returns a blob's object, and, when Postgres has the bytes, the first chunk: the object's ID
// is uuid.Nil then.
func (s *BlobStore) find(ctx context.Context, tenant uuid.UUID, sha256 []byte) (store.Object, []byte, error) {
	o := store.Object{Tenant: tenant, SHA256: sha256}
	var first []byte
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		var id *uuid.UUID
		err := tx.QueryRow(ctx, findBlobSQL, tenant, sha256).Scan(&o.Bytes, &id, &first)
		o.ID = uuid.Nil
		if id != nil {
			o.ID = *id
		}
		return store.Named(err, "blob", hex.EncodeToString(sha256))
	})
	return o, first, err
}

// where names the location of a blob for error messages.
func (s *BlobStore) where(o store.Object) string {
	if o.ID == uuid.Nil || s.objects == nil {
		return fmt.Sprintf("blob %x of tenant %s in Postgres", o.SHA256, o.Tenant)
	}
	return s.objects.Where(o)
}

// reachable returns an error when no object store is configured.
func (s *BlobStore) reachable() error {
	if s.objects == nil {
		return &store.ObjectsUnavailableError{Problem: "bytes of documents are in S3, and this program has no settings of it (SLUICE_S3_ENDPOINT)"}
	}
	return nil
}
