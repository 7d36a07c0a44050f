package store

// This file reads stored bytes. A hash alone grants none: callers name the
// tenant, and row-level security holds them to it.

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
)

const (
	openBlobSQL = `
SELECT b.bytes, c.data FROM blobs b
LEFT JOIN blob_chunks c ON c.tenant_id = b.tenant_id AND c.sha256 = b.sha256 AND c.ordinal = 0
WHERE b.tenant_id = $1 AND b.sha256 = $2`
	blobChunkSQL = `SELECT data FROM blob_chunks WHERE tenant_id = $1 AND sha256 = $2 AND ordinal = $3`
)

// Blob reads one blob, a chunk at a time; between chunks it holds no
// connection. It is not safe for concurrent use.
type Blob struct {
	ctx     context.Context //nolint:containedctx // io.Reader takes none
	store   *Store
	tenant  uuid.UUID
	sha256  []byte
	size    int64
	read    int64
	ordinal int
	chunk   []byte
}

// OpenBlob opens tenant's blob with a SHA-256 (32 bytes). ctx bounds the
// reading too.
func (s *Store) OpenBlob(ctx context.Context, tenant uuid.UUID, sha256 []byte) (*Blob, error) {
	b := &Blob{ctx: ctx, store: s, tenant: tenant, sha256: sha256}
	err := s.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, openBlobSQL, tenant, sha256).Scan(&b.size, &b.chunk)
		return named(err, "blob", hex.EncodeToString(sha256))
	})
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	return b, nil
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

func (b *Blob) next() error {
	b.ordinal++
	err := b.store.AsTenant(b.ctx, b.tenant, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, blobChunkSQL, b.tenant, b.sha256, b.ordinal).Scan(&b.chunk)
		return named(err, "chunk", b.ordinal)
	})
	if err == nil && len(b.chunk) == 0 {
		err = fmt.Errorf("chunk %d is empty: %w", b.ordinal, schema.ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("read blob %x: %w", b.sha256, err)
	}
	return nil
}
