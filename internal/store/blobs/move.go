package blobs

// This file moves blobs from Postgres to objects and back, and checks them, while documents are
// added, read and deleted. A move writes the new bytes, reads them again to verify their hash,
// changes the row, which says where the bytes are, and only then deletes the old bytes. So an
// interrupted run leaves each blob in one place, and the next run continues with the rest.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	tenantIDsSQL = `SELECT id FROM tenants ORDER BY id`
	// In the order of hashes, beginning after one.
	pageSQL = `
SELECT sha256, bytes, object FROM blobs
WHERE tenant_id = $1 AND sha256 > $2 AND ($3::boolean IS NULL OR (object IS NOT NULL) = $3) ORDER BY sha256 LIMIT $4`
	countBlobsSQL = `
SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM blobs
WHERE tenant_id = $1 AND ($2::boolean IS NULL OR (object IS NOT NULL) = $2)`

	intoObjectSQL = `UPDATE blobs SET object = $3 WHERE tenant_id = $1 AND sha256 = $2 AND object IS NULL`
	dropChunksSQL = `DELETE FROM blob_chunks WHERE tenant_id = $1 AND sha256 = $2`

	// A chunk that an earlier run wrote is kept: all chunks are checked against the hash.
	keepChunkSQL = `
INSERT INTO blob_chunks (tenant_id, sha256, ordinal, data) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant_id, sha256, ordinal) DO NOTHING`
	lockObjectSQL    = `SELECT true FROM blobs WHERE tenant_id = $1 AND sha256 = $2 AND object = $3 FOR UPDATE`
	chunksSQL        = `SELECT data FROM blob_chunks WHERE tenant_id = $1 AND sha256 = $2 ORDER BY ordinal`
	intoPostgresSQL  = `UPDATE blobs SET object = NULL WHERE tenant_id = $1 AND sha256 = $2 AND object = $3`
	leaveObjectSQL   = `INSERT INTO loose_objects (tenant_id, object, sha256, due_at) VALUES ($1, $2, $3, now())`
	noteOneObjectSQL = `INSERT INTO loose_objects (tenant_id, object, sha256, due_at) VALUES ($1, $2, $3, now() + $4::interval)`

	pageRows = 200
)

// Tally is the progress of a run over all blobs.
type Tally struct {
	Blobs, Bytes       int64 // done
	AllBlobs, AllBytes int64 // when the run began
	Damaged            int64
}

// Run is a run over the blobs of all tenants.
type Run struct {
	// Progress is called after each page; it may be nil.
	Progress func(Tally)
	// Damage is called for each blob whose bytes do not match its hash; the run continues, and
	// leaves such a blob as it is.
	Damage func(*store.DamagedError)

	mu   sync.Mutex
	seen Tally
}

// Move moves all blobs into objects, or into Postgres. It stops at the first error other than
// damage. Blobs that are added meanwhile stay where uploads put them.
func (s *BlobStore) Move(ctx context.Context, intoObjects bool, r *Run) (Tally, error) {
	if err := s.reachable(); err != nil {
		return Tally{}, err
	}
	from := !intoObjects
	return s.run(ctx, r, &from, func(ctx context.Context, o store.Object) error {
		if intoObjects {
			return s.intoObject(ctx, o)
		}
		return s.intoPostgres(ctx, o)
	})
}

// Check reads all blobs and compares them with their hashes.
func (s *BlobStore) Check(ctx context.Context, r *Run) (Tally, error) {
	return s.run(ctx, r, nil, func(ctx context.Context, o store.Object) error {
		return s.compare(ctx, o)
	})
}

// run calls do for each blob: for those that are objects, for those in Postgres, or, when objects
// is nil, for both.
func (s *BlobStore) run(ctx context.Context, r *Run, objects *bool, do func(context.Context, store.Object) error) (Tally, error) {
	tenants, err := s.tenants(ctx)
	if err != nil {
		return Tally{}, err
	}
	for _, tenant := range tenants {
		var n, size int64
		if err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, countBlobsSQL, tenant, objects).Scan(&n, &size)
		}); err != nil {
			return Tally{}, fmt.Errorf("count blobs: %w", err)
		}
		r.seen.AllBlobs += n
		r.seen.AllBytes += size
	}
	for _, tenant := range tenants {
		for after := []byte{}; ; {
			page, err := s.page(ctx, tenant, after, objects)
			if err != nil {
				return r.seen, err
			}
			if len(page) == 0 {
				break
			}
			if err := r.page(ctx, page, do); err != nil {
				return r.seen, err
			}
			after = page[len(page)-1].SHA256
			if r.Progress != nil {
				r.Progress(r.seen)
			}
		}
	}
	return r.seen, nil
}

func (s *BlobStore) tenants(ctx context.Context) ([]uuid.UUID, error) {
	var out []uuid.UUID
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		out, err = store.IDs(tx.Query(ctx, tenantIDsSQL))
		return err
	})
	return out, store.Wrap(err, "list tenants")
}

func (s *BlobStore) page(ctx context.Context, tenant uuid.UUID, after []byte, objects *bool) ([]store.Object, error) {
	var out []store.Object
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, pageSQL, tenant, after, objects, pageRows)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Object, error) {
			o := store.Object{Tenant: tenant}
			var id *uuid.UUID
			err := row.Scan(&o.SHA256, &o.Bytes, &id)
			if id != nil {
				o.ID = *id
			}
			return o, err
		})
		return err
	})
	return out, store.Wrap(err, "list blobs of tenant %s", tenant)
}

// page processes a page, several blobs at a time. After a failure the blobs in progress are
// finished and no other is begun: a blob that is interrupted in its commit may have been moved
// without being counted.
func (r *Run) page(ctx context.Context, page []store.Object, do func(context.Context, store.Object) error) error {
	var group errgroup.Group
	var failed atomic.Bool
	group.SetLimit(objectsAtOnce)
	for _, o := range page {
		group.Go(func() error {
			if failed.Load() {
				return nil
			}
			err := do(ctx, o)
			var damaged *store.DamagedError
			r.mu.Lock()
			defer r.mu.Unlock()
			switch {
			case errors.As(err, &damaged):
				r.seen.Damaged++
				if r.Damage != nil {
					r.Damage(damaged)
				}
				return nil
			case errors.Is(err, schema.ErrNotFound): // purged meanwhile
				return nil
			case err != nil:
				failed.Store(true)
				return err
			}
			r.seen.Blobs++
			r.seen.Bytes += o.Bytes
			return nil
		})
	}
	return group.Wait()
}

// compare reads a blob to its end, which verifies its hash.
func (s *BlobStore) compare(ctx context.Context, o store.Object) error {
	b := s.reader(ctx, o)
	_, err := io.Copy(io.Discard, b)
	return errors.Join(err, b.Close())
}

// compareWritten reads an object that no row names yet.
func (s *BlobStore) compareWritten(ctx context.Context, o store.Object) error {
	b := s.reader(ctx, o)
	b.fixed = true
	_, err := io.Copy(io.Discard, b)
	if err = errors.Join(err, b.Close()); errors.Is(err, schema.ErrNotFound) {
		return fmt.Errorf("%s was written, and is not there: %w", s.where(o), schema.ErrUnavailable)
	}
	return store.Wrap(err, "read what was written")
}

// intoObject moves a blob from Postgres into an object.
func (s *BlobStore) intoObject(ctx context.Context, o store.Object) error {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	to := o
	to.ID = schema.NewID()
	if err := s.db.AsTenant(ctx, o.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, noteOneObjectSQL, to.Tenant, to.ID, to.SHA256, looseTTL)
		return err
	}); err != nil {
		return fmt.Errorf("note the object of blob %x: %w", o.SHA256, err)
	}
	named := false
	defer func() {
		if !named {
			s.release(ctx, to.Tenant, []uuid.UUID{to.ID})
		}
	}()
	from := &errorReader{Blob: s.reader(ctx, o)}
	err := s.objects.Put(ctx, to, from)
	closing := from.Close()
	switch {
	case from.failed != nil: // takes precedence over Put's error
		return from.failed
	case err != nil:
		return err
	case closing != nil:
		return closing
	}
	if err := s.compareWritten(ctx, to); err != nil {
		return err
	}
	err = s.db.AsTenant(ctx, o.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, intoObjectSQL, o.Tenant, o.SHA256, to.ID)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("blob %x was purged, or moved: %w", o.SHA256, schema.ErrNotFound)
		}
		if err := name(ctx, tx, o.Tenant, []uuid.UUID{to.ID}); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, dropChunksSQL, o.Tenant, o.SHA256)
		return err
	})
	named = err == nil
	return store.Wrap(err, "move blob %x", o.SHA256)
}

// errorReader keeps the error of reading a blob, which callers might wrap.
type errorReader struct {
	*Blob
	failed error
}

func (r *errorReader) Read(p []byte) (int, error) {
	n, err := r.Blob.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.failed = err
	}
	return n, err
}

// intoPostgres moves a blob from its object into Postgres.
func (s *BlobStore) intoPostgres(ctx context.Context, o store.Object) error {
	if err := s.copyChunks(ctx, o); err != nil {
		return err
	}
	var damaged *store.DamagedError
	err := s.db.AsTenant(ctx, o.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, lockObjectSQL, o.Tenant, o.SHA256, o.ID).Scan(nil); err != nil {
			return store.Named(err, "object of blob", fmt.Sprintf("%x", o.SHA256))
		}
		sum := sha256.New()
		rows, err := tx.Query(ctx, chunksSQL, o.Tenant, o.SHA256)
		if err != nil {
			return err
		}
		var data []byte
		if _, err := pgx.ForEachRow(rows, []any{&data}, func() error {
			sum.Write(data)
			return nil
		}); err != nil {
			return err
		}
		if got := sum.Sum(nil); !bytes.Equal(got, o.SHA256) {
			damaged = &store.DamagedError{Where: s.where(o), Problem: fmt.Sprintf("could not be copied to Postgres: the SHA-256 there is %x", got)}
			_, err = tx.Exec(ctx, dropChunksSQL, o.Tenant, o.SHA256)
			return err
		}
		damaged = nil
		batch := &pgx.Batch{}
		batch.Queue(intoPostgresSQL, o.Tenant, o.SHA256, o.ID)
		batch.Queue(leaveObjectSQL, o.Tenant, o.ID, o.SHA256)
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return fmt.Errorf("move blob %x: %w", o.SHA256, err)
	}
	if damaged != nil {
		return damaged
	}
	return nil
}

// copyChunks copies an object into chunks, which nobody reads while the row names the object. It
// removes them again when the object is damaged.
func (s *BlobStore) copyChunks(ctx context.Context, o store.Object) (err error) {
	b := s.reader(ctx, o)
	b.fixed = true
	defer func() { err = errors.Join(err, b.Close()) }()
	chunk := make([]byte, documents.ChunkBytes)
	for ordinal := 0; ; ordinal++ {
		n, err := io.ReadFull(b, chunk)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var damaged *store.DamagedError
		if errors.As(err, &damaged) {
			return errors.Join(damaged, s.dropCopied(ctx, o))
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		if err := s.db.AsTenant(ctx, o.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, keepChunkSQL, o.Tenant, o.SHA256, ordinal, chunk[:n])
			return err
		}); err != nil {
			return fmt.Errorf("copy chunk %d of blob %x: %w", ordinal, o.SHA256, err)
		}
	}
}

// dropCopied removes the chunks of a blob that is still an object.
func (s *BlobStore) dropCopied(ctx context.Context, o store.Object) error {
	return s.db.AsTenant(ctx, o.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, lockObjectSQL, o.Tenant, o.SHA256, o.ID).Scan(nil); err != nil {
			return store.Named(err, "object of blob", fmt.Sprintf("%x", o.SHA256))
		}
		_, err := tx.Exec(ctx, dropChunksSQL, o.Tenant, o.SHA256)
		return err
	})
}
