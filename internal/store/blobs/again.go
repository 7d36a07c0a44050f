package blobs

// This file stores the objects of a restored database again. The objects that its rows name belong
// to the installation that was backed up, which may still use and delete them.

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const otherObjectSQL = `UPDATE blobs SET object = $4 WHERE tenant_id = $1 AND sha256 = $2 AND object = $3`

// PutAgain stores the bytes of all blobs that are objects, as read by open, where new blobs are
// stored: in other objects, or in Postgres.
func (s *BlobStore) PutAgain(ctx context.Context, r *Run, open func(store.Object) (io.ReadCloser, error)) (Tally, error) {
	objects := true
	return s.run(ctx, r, &objects, func(ctx context.Context, o store.Object) error {
		if s.InObjects() {
			return s.putObject(ctx, o, open)
		}
		return s.putChunks(ctx, o, open)
	})
}

func (s *BlobStore) putObject(ctx context.Context, o store.Object, open func(store.Object) (io.ReadCloser, error)) error {
	to := o
	to.ID = schema.NewID()
	if err := s.db.AsTenant(ctx, o.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, noteOneObjectSQL, to.Tenant, to.ID, to.SHA256, looseTTL)
		return err
	}); err != nil {
		return fmt.Errorf("note the object of blob %x: %w", o.SHA256, err)
	}
	from, err := open(o)
	if err != nil {
		return err
	}
	if err := errors.Join(s.objects.Put(ctx, to, from), from.Close()); err != nil {
		return err
	}
	err = s.db.AsTenant(ctx, o.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, otherObjectSQL, o.Tenant, o.SHA256, o.ID, to.ID)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("blob %x was purged, or moved: %w", o.SHA256, schema.ErrNotFound)
		}
		return name(ctx, tx, o.Tenant, []uuid.UUID{to.ID})
	})
	return store.Wrap(err, "store blob %x", o.SHA256)
}

func (s *BlobStore) putChunks(ctx context.Context, o store.Object, open func(store.Object) (io.ReadCloser, error)) error {
	err := s.db.AsTenant(ctx, o.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		from, err := open(o)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, from.Close()) }()
		if _, err := tx.Exec(ctx, dropChunksSQL, o.Tenant, o.SHA256); err != nil {
			return err
		}
		if err := WriteChunks(ctx, tx, o.Tenant, o.SHA256, from); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, intoPostgresSQL, o.Tenant, o.SHA256, o.ID)
		return err
	})
	return store.Wrap(err, "store blob %x", o.SHA256)
}

// WriteChunks writes the bytes of a blob as its chunks. The error is schema.ErrConflict when their
// SHA-256 is not sha.
func WriteChunks(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, sha []byte, from io.Reader) error {
	sum := sha256.New()
	chunk := make([]byte, documents.ChunkBytes)
	for ordinal := 0; ; ordinal++ {
		n, err := io.ReadFull(from, chunk)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		sum.Write(chunk[:n])
		if _, err := tx.Exec(ctx, keepChunkSQL, tenant, sha, ordinal, chunk[:n]); err != nil {
			return err
		}
	}
	if got := sum.Sum(nil); string(got) != string(sha) {
		return fmt.Errorf("its SHA-256 is %x: %w", got, schema.ErrConflict)
	}
	return nil
}
