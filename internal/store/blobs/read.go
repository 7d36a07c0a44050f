package blobs

// This file reads stored bytes. A hash alone grants no access: callers name the tenant, and
// row-level security confines them to it.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const chunkSQL = `SELECT data FROM blob_chunks WHERE tenant_id = $1 AND sha256 = $2 AND ordinal = $3`

// Blob reads one blob. It holds no connection to Postgres between chunks. It returns the last bytes
// only after verifying the blob's SHA-256; a mismatch is a store.DamagedError. It is not safe for
// concurrent use.
type Blob struct {
	ctx    context.Context //nolint:containedctx // io.Reader takes none
	blobs  *BlobStore
	object store.Object
	fixed  bool // do not follow the blob when it is moved

	read  int64
	sum   hash.Hash
	chunk []byte        // the unread rest of a chunk in Postgres
	body  io.ReadCloser // of an object
}

// OpenBlob opens tenant's blob with a SHA-256 (32 bytes). ctx also bounds the reading.
func (s *BlobStore) OpenBlob(ctx context.Context, tenant uuid.UUID, hash []byte) (*Blob, error) {
	o, first, err := s.find(ctx, tenant, hash)
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	b := s.reader(ctx, o)
	b.chunk = first
	if o.Bytes > 0 && len(first) == 0 { // report missing bytes before anything is sent
		if err := b.next(); err != nil {
			return nil, fmt.Errorf("open blob: %w", err)
		}
	}
	return b, nil
}

func (s *BlobStore) reader(ctx context.Context, o store.Object) *Blob {
	return &Blob{ctx: ctx, blobs: s, object: o, sum: sha256.New()}
}

// Size returns the blob's length in bytes.
func (b *Blob) Size() int64 { return b.object.Bytes }

// Read implements io.Reader. When the blob is purged meanwhile the error is schema.ErrNotFound;
// when it is moved, Read continues at its new location.
func (b *Blob) Read(p []byte) (int, error) {
	if b.read == b.object.Bytes {
		return 0, b.end()
	}
	if len(p) == 0 {
		return 0, nil
	}
	if len(b.chunk) == 0 && b.body == nil {
		if err := b.next(); err != nil {
			return 0, fmt.Errorf("read blob %x: %w", b.object.SHA256, err)
		}
	}
	p = p[:min(int64(len(p)), b.object.Bytes-b.read)]
	var n int
	if b.body != nil {
		var err error
		if n, err = b.body.Read(p); err != nil && n == 0 {
			return 0, b.broken(err)
		}
	} else {
		n = copy(p, b.chunk)
		b.chunk = b.chunk[n:]
	}
	b.sum.Write(p[:n])
	b.read += int64(n)
	if b.read == b.object.Bytes {
		if err := b.verify(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// end returns the result of reading past the last byte.
func (b *Blob) end() error {
	if b.read == 0 { // an empty blob's hash was not verified yet
		if err := b.verify(); err != nil {
			return err
		}
	}
	return io.EOF
}

func (b *Blob) verify() error {
	if len(b.chunk) > 0 {
		return b.damaged("is longer than the %d bytes that it should have", b.object.Bytes)
	}
	if got := b.sum.Sum(nil); !bytes.Equal(got, b.object.SHA256) {
		return b.damaged("is damaged: the SHA-256 of its %d bytes is %x", b.object.Bytes, got)
	}
	return nil
}

func (b *Blob) damaged(format string, args ...any) error {
	return &store.DamagedError{Where: b.blobs.where(b.object), Problem: fmt.Sprintf(format, args...)}
}

// broken returns the error for an object that ended early.
func (b *Blob) broken(err error) error {
	if b.ctx.Err() != nil {
		return b.ctx.Err()
	}
	return &store.ObjectsUnavailableError{Problem: fmt.Sprintf("%s broke off after %d of %d bytes: %v", b.blobs.where(b.object), b.read, b.object.Bytes, err)}
}

// Close implements io.Closer.
func (b *Blob) Close() error {
	if b.body == nil {
		return nil
	}
	return b.body.Close()
}

// next gets the next chunk, or opens the object, wherever the blob is by now.
func (b *Blob) next() error {
	for {
		err := b.get()
		if !errors.Is(err, schema.ErrNotFound) {
			return err
		}
		now, _, finding := b.blobs.find(b.ctx, b.object.Tenant, b.object.SHA256)
		if finding != nil {
			return finding // purged, say
		}
		if now.ID == b.object.ID {
			return b.damaged("is gone, or a part of it")
		}
		if b.fixed {
			return err
		}
		b.object = now // moved
	}
}

func (b *Blob) get() error {
	if b.object.ID != uuid.Nil {
		if err := b.blobs.reachable(); err != nil {
			return err
		}
		body, err := b.blobs.objects.Open(b.ctx, b.object, b.read)
		if err == nil {
			b.body = body
		}
		return err
	}
	err := b.blobs.db.AsTenant(b.ctx, b.object.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		ordinal := b.read / documents.ChunkBytes
		err := tx.QueryRow(ctx, chunkSQL, b.object.Tenant, b.object.SHA256, ordinal).Scan(&b.chunk)
		return store.Named(err, "chunk", ordinal)
	})
	if err != nil {
		return err
	}
	// All chunks but the last are full, so an offset in the blob determines one in a chunk.
	within := b.read % documents.ChunkBytes
	if int64(len(b.chunk)) <= within {
		b.chunk = nil
		return b.damaged("has a chunk that is too short")
	}
	b.chunk = b.chunk[within:]
	return nil
}

// Bytes are the bytes of one blob, or the damage that makes them unreadable for good.
type Bytes struct {
	Data   []byte
	Damage *store.DamagedError
}

const readAllSQL = `
SELECT b.sha256, b.bytes, b.object, coalesce(c.data, '') FROM (SELECT DISTINCT sha256 FROM unnest($1::bytea[]) AS w(sha256)) w
CROSS JOIN LATERAL (SELECT * FROM blobs WHERE sha256 = w.sha256 LIMIT 1) b
LEFT JOIN LATERAL (SELECT ordinal, data FROM blob_chunks WHERE tenant_id = b.tenant_id AND sha256 = b.sha256 OFFSET 0) c ON b.object IS NULL
ORDER BY b.sha256, c.ordinal`

// ReadAll reads blobs into memory, by their hashes. The map has no entry for a missing blob.
func (s *BlobStore) ReadAll(ctx context.Context, tenant uuid.UUID, hashes [][]byte) (map[string]Bytes, error) {
	var out map[string]Bytes
	var elsewhere []store.Object
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		out, elsewhere = map[string]Bytes{}, nil
		rows, err := tx.Query(ctx, readAllSQL, hashes)
		if err != nil {
			return err
		}
		parts := map[string]*bytes.Buffer{}
		var hash, data []byte
		var size int64
		var object *uuid.UUID
		if _, err = pgx.ForEachRow(rows, []any{&hash, &size, &object, &data}, func() error {
			if object != nil {
				elsewhere = append(elsewhere, store.Object{Tenant: tenant, SHA256: bytes.Clone(hash), ID: *object, Bytes: size})
				return nil
			}
			b := parts[string(hash)]
			if b == nil {
				b = bytes.NewBuffer(make([]byte, 0, size))
				parts[string(hash)] = b
			}
			b.Write(data)
			return nil
		}); err != nil {
			return err
		}
		for hash, b := range parts {
			out[hash] = s.checked(store.Object{Tenant: tenant, SHA256: []byte(hash)}, b.Bytes())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(elsewhere) > 0 {
		return out, s.readObjects(ctx, elsewhere, out)
	}
	return out, nil
}

func (s *BlobStore) checked(o store.Object, data []byte) Bytes {
	if got := sha256.Sum256(data); !bytes.Equal(got[:], o.SHA256) {
		return Bytes{Damage: &store.DamagedError{Where: s.where(o), Problem: fmt.Sprintf("is damaged: the SHA-256 of its %d bytes is %x", len(data), got)}}
	}
	return Bytes{Data: data}
}

// readObjects reads objects into out.
func (s *BlobStore) readObjects(ctx context.Context, list []store.Object, out map[string]Bytes) error {
	read := make([]*Bytes, len(list))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(objectsAtOnce)
	for i, o := range list {
		group.Go(func() (err error) {
			read[i], err = s.readObject(ctx, o)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, o := range list {
		if read[i] != nil {
			out[string(o.SHA256)] = *read[i]
		}
	}
	return nil
}

// readObject reads an object. It returns nil when its blob was purged.
func (s *BlobStore) readObject(ctx context.Context, o store.Object) (*Bytes, error) {
	b := s.reader(ctx, o)
	data := bytes.NewBuffer(make([]byte, 0, o.Bytes+bytes.MinRead))
	_, err := data.ReadFrom(b)
	closing := b.Close()
	var damaged *store.DamagedError
	switch {
	case errors.As(err, &damaged):
		return &Bytes{Damage: damaged}, nil
	case errors.Is(err, schema.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &Bytes{Data: data.Bytes()}, closing
}
