package corpus

// This file merges several shards into one. The new shard gets copies of their vectors and an index
// while they are still searched, and one commit replaces them by it. This file also drops shards
// that are out of use.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/internal/store"
)

const (
	lastCopySQL = `SELECT v.passage_id FROM %s v WHERE v.tenant_id = $1 AND v.shard = $2 ORDER BY v.passage_id DESC LIMIT 1`
	// Meanwhile no vectors are added to the shards, but some may be deleted.
	copySQL = `
WITH put AS (
    INSERT INTO %[1]s (tenant_id, collection_id, space_id, passage_id, version_id, embedding, shard, generation)
    SELECT v.tenant_id, v.collection_id, v.space_id, v.passage_id, v.version_id, v.embedding, $3, v.generation
    FROM %[1]s v
    WHERE v.tenant_id = $1 AND v.shard = ANY ($2) AND v.passage_id > $4
      AND (v.version_id IN (SELECT d.live_version_id FROM documents d WHERE d.tenant_id = $1 AND d.collection_id = $6)) IS TRUE
    ORDER BY v.passage_id LIMIT $5
    ON CONFLICT DO NOTHING RETURNING passage_id
)
SELECT count(*), (SELECT passage_id FROM put ORDER BY passage_id DESC LIMIT 1) FROM put`

	lockShardsSQL = `
SELECT id FROM vector_shards WHERE tenant_id = $1 AND id = ANY ($2) AND retired_at IS NULL ORDER BY id FOR UPDATE`
	// Vectors that were deleted while they were copied.
	dropGoneSQL = `
DELETE FROM %[1]s c WHERE c.tenant_id = $1 AND c.shard = $2 AND NOT EXISTS (
    SELECT FROM %[1]s v WHERE v.tenant_id = $1 AND v.shard = ANY ($3) AND v.passage_id = c.passage_id)`
	retireSQL = `UPDATE vector_shards SET retired_at = now() WHERE tenant_id = $1 AND id = ANY ($2)`
	swapInSQL = `
UPDATE vector_shards SET replaces = '{}', indexed = (SELECT count(*) FROM %s v WHERE v.tenant_id = $1 AND v.shard = $2) WHERE tenant_id = $1 AND id = $2`

	deleteShardSQL   = `DELETE FROM vector_shards WHERE tenant_id = $1 AND id = $2`
	dropSQL          = `SELECT sluice_drop_vectors($1)`
	retiredShardsSQL = `SELECT tenant_id, id, dimension FROM vector_shards WHERE retired_at < now() - $1::interval`
)

// replace does the next step for a shard that will replace others.
func (s *CorpusStore) replace(ctx context.Context, conn *pgx.Conn, v vectorSet, r shard) error {
	for _, id := range r.replaces {
		if !slices.ContainsFunc(v.shards, func(h shard) bool { return h.id == id }) {
			return s.inSet(ctx, v, retireSQL, v.tenant, []uuid.UUID{r.id}) // one that it copies is out of use
		}
	}
	ready, err := prepareShard(ctx, conn, r)
	if err != nil || !ready {
		return err
	}
	exists, err := indexExists(ctx, conn, r)
	if err != nil {
		return err
	}
	if !exists {
		if done, err := s.copy(ctx, v, r); err != nil || !done {
			return err
		}
		if err := s.build(ctx, conn, v, r); err != nil {
			return err
		}
	}
	return s.swap(ctx, v, r)
}

// copy copies vectors for about moveFor, in the order of passages, and reports whether all are
// copied.
func (s *CorpusStore) copy(ctx context.Context, v vectorSet, r shard) (done bool, err error) {
	var last uuid.UUID
	if err := s.db.AsTenant(ctx, v.tenant, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, fmt.Sprintf(lastCopySQL, v.table()), v.tenant, r.id).Scan(&last)
		if store.IsNoRows(err) {
			return nil
		}
		return err
	}); err != nil {
		return false, fmt.Errorf("see how much was copied: %w", err)
	}
	for begun := time.Now(); ; {
		copied, next := 0, new(uuid.UUID)
		err := s.db.AsTenant(ctx, v.tenant, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, fmt.Sprintf(copySQL, v.table()), v.tenant, r.replaces, r.id, last, moveChunk, v.collection).Scan(&copied, &next)
		})
		if err != nil {
			return false, fmt.Errorf("copy vectors: %w", err)
		}
		if copied < moveChunk {
			return true, nil
		}
		if last = *next; time.Since(begun) > moveFor {
			return false, nil
		}
	}
}

// swap replaces shards by the one that was made from them.
func (s *CorpusStore) swap(ctx context.Context, v vectorSet, r shard) error {
	return store.Wrap(s.db.AsTenant(ctx, v.tenant, func(ctx context.Context, tx pgx.Tx) error {
		locked, err := store.IDs(tx.Query(ctx, lockShardsSQL, v.tenant, append(slices.Clone(r.replaces), r.id)))
		if err != nil || len(locked) != len(r.replaces)+1 {
			return err // one is out of use meanwhile
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf(dropGoneSQL, v.table()), v.tenant, r.id, r.replaces); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, retireSQL, v.tenant, r.replaces); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, fmt.Sprintf(swapInSQL, v.table()), v.tenant, r.id)
		return err
	}), "put shard %s in the place of %d others", r.id, len(r.replaces))
}

// dropShards drops the partitions of shards that were retired so long ago that no search still uses
// them.
func (s *CorpusStore) dropShards(ctx context.Context) (int, error) {
	type retired struct {
		tenant uuid.UUID
		shard
	}
	var list []retired
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, retiredShardsSQL, max(s.db.Options().KeepSuperseded, 0))
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (retired, error) {
			var h retired
			err := row.Scan(&h.tenant, &h.id, &h.dimension)
			return h, err
		})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("list retired shards: %w", err)
	}
	done := 0
	for _, h := range list {
		err := s.db.AsVectors(ctx, h.id, func(ctx context.Context, conn *pgx.Conn) error {
			if err := drop(ctx, conn, h.shard); err != nil {
				return err
			}
			return s.inSet(ctx, vectorSet{tenant: h.tenant}, deleteShardSQL, h.tenant, h.id)
		})
		if errors.Is(err, store.ErrBusy) {
			continue
		}
		if errors.Is(err, store.ErrNoVectorLogin) {
			// Another process may have a login; the rest of purge does not need it.
			s.noVectors.Do(func() {
				slog.WarnContext(ctx, "cannot drop partitions that are no longer used", "shards", len(list), "error", err)
			})
			return done, nil
		}
		if err != nil {
			return done, fmt.Errorf("drop shard %s of tenant %s: %w", h.id, h.tenant, store.Translate(err))
		}
		done++
	}
	return done, nil
}

// drop drops a shard's partition. It returns store.ErrBusy while searches prevent a lock on the
// parent table; the next round tries again.
func drop(ctx context.Context, conn *pgx.Conn, h shard) error {
	_, err := conn.Exec(ctx, dropSQL, h.id)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55P03" {
		return store.ErrBusy
	}
	return store.Wrap(err, "drop partition %s", h.partition())
}
