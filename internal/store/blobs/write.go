package blobs

// This file writes objects. An object is listed as loose before it is written, and removed from the
// list by the transaction whose row names it; what stays on the list is purged. So a crash leaves
// no object that is unknown, and no row that names an object that is not stored.

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	noteLooseSQL = `
INSERT INTO loose_objects (tenant_id, object, sha256, due_at)
SELECT $1, n.object, n.sha256, now() + $4::interval FROM unnest($2::uuid[], $3::bytea[]) AS n (object, sha256)`
	nameLooseSQL = `DELETE FROM loose_objects WHERE tenant_id = $1 AND object = ANY ($2) AND NOT doomed`
	// Objects that a row names are not on the list.
	releaseLooseSQL = `UPDATE loose_objects SET due_at = now() WHERE tenant_id = $1 AND object = ANY ($2) AND due_at > now()`

	haveBlobsSQL = `
SELECT w.sha256 FROM unnest($2::bytea[]) AS w(sha256)
WHERE EXISTS (SELECT FROM blobs WHERE tenant_id = $1 AND sha256 = w.sha256 OFFSET 0)`

	// looseTTL is how long an object may stay without a row that names it; writeLimit bounds the
	// time for writing it, and is shorter.
	looseTTL   = time.Hour
	writeLimit = 30 * time.Minute

	releaseLimit  = 10 * time.Second
	writesAtOnce  = 8
	objectsAtOnce = 4 // that are read, or moved
)

// ErrUnwritten means that bytes must be written again, because the stored ones were purged
// meanwhile.
var ErrUnwritten = fmt.Errorf("bytes are not stored any more: %w", schema.ErrConflict)

// Unwritten are bytes to be stored.
type Unwritten struct {
	SHA256 []byte
	Bytes  int64
	Open   func() io.Reader
}

// Written are objects that no row names yet, by the hashes of their bytes.
type Written struct {
	blobs  *BlobStore
	tenant uuid.UUID
	ids    map[string]uuid.UUID
	named  map[uuid.UUID]bool
}

// InObjects reports whether new bytes become objects.
func (s *BlobStore) InObjects() bool { return s.objects != nil && s.db.Options().NewInObjects }

// Write stores those of contents, each with a different hash, that the tenant does not have yet, as
// objects. The caller must Name them in a transaction, and Release them after it, whether it
// succeeded or not.
func (s *BlobStore) Write(ctx context.Context, tenant uuid.UUID, contents []Unwritten) (*Written, error) {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	hashes := make([][]byte, len(contents))
	for i, c := range contents {
		hashes[i] = c.SHA256
	}
	w := &Written{blobs: s, tenant: tenant}
	var missing []Unwritten
	err := s.db.Independent().AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, haveBlobsSQL, tenant, hashes)
		if err != nil {
			return err
		}
		list, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
		if err != nil {
			return err
		}
		have := make(map[string]bool, len(list))
		for _, h := range list {
			have[string(h)] = true
		}
		w.ids, missing = make(map[string]uuid.UUID, len(contents)), nil
		var ids []uuid.UUID
		var of [][]byte
		for _, c := range contents {
			if have[string(c.SHA256)] {
				continue
			}
			id := schema.NewID()
			w.ids[string(c.SHA256)] = id
			missing, ids, of = append(missing, c), append(ids, id), append(of, c.SHA256)
		}
		_, err = tx.Exec(ctx, noteLooseSQL, tenant, ids, of, looseTTL)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("note objects that are to be written: %w", err)
	}
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(writesAtOnce)
	for _, c := range missing {
		group.Go(func() error {
			return s.objects.Put(writing, store.Object{Tenant: tenant, SHA256: c.SHA256, ID: w.ids[string(c.SHA256)], Bytes: c.Bytes}, c.Open())
		})
	}
	if err := group.Wait(); err != nil {
		w.Release(ctx, true)
		return nil, err
	}
	return w, nil
}

// ID returns the object with a hash, uuid.Nil when none was written.
func (w *Written) ID(hash []byte) uuid.UUID {
	if w == nil {
		return uuid.Nil
	}
	return w.ids[string(hash)]
}

// Name removes objects from the list of loose ones, for rows that tx writes with their ids. The
// error is ErrUnwritten when one was purged meanwhile, because writing took too long.
func (w *Written) Name(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error {
	w.named = make(map[uuid.UUID]bool, len(ids)) // by the last attempt of the transaction
	if len(ids) == 0 {
		return nil
	}
	if err := name(ctx, tx, w.tenant, ids); err != nil {
		return err
	}
	for _, id := range ids {
		w.named[id] = true
	}
	return nil
}

func name(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, ids []uuid.UUID) error {
	tag, err := tx.Exec(ctx, nameLooseSQL, tenant, ids)
	if err != nil {
		return fmt.Errorf("name objects: %w", err)
	}
	if n := int(tag.RowsAffected()); n != len(ids) {
		return fmt.Errorf("%d objects were purged before their row was written: %w", len(ids)-n, ErrUnwritten)
	}
	return nil
}

// Release has the objects purged that no row names: all of them when the transaction failed. When
// it succeeded Release leaves the named ones alone, since their rows may still be locked by an
// outer transaction (store.Once).
func (w *Written) Release(ctx context.Context, failed bool) {
	if w == nil {
		return
	}
	var ids []uuid.UUID
	for _, id := range w.ids {
		if failed || !w.named[id] {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		w.blobs.release(ctx, w.tenant, ids)
	}
}

// release works even when ctx has ended. What it fails to do is left to the purge.
func (s *BlobStore) release(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	err := s.db.Independent().AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, releaseLooseSQL, tenant, ids)
		return err
	})
	if err != nil {
		slog.WarnContext(ctx, "cannot release objects that no document uses; they are deleted in an hour", "tenant", tenant, "objects", len(ids), "error", err)
	}
}
