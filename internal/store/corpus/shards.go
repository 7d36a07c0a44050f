package corpus

// This file keeps large collections' vectors in partitions of their own, each
// with an HNSW index. Loading into such an index runs at hundreds of rows a
// second, so vectors are written to the shared partition and move later:
// first all of them into a partition without an index, which is then built
// concurrently; later ones when there are enough of them; and when more came
// than the index has, it is dropped and built anew.
//
// Every step is small, begins from what the database says, and may be cut off
// anywhere: the next call continues. Changes of tables wait for locks for a
// short time only, and none of them stops a search or a write.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// Vectors move in chunks of one transaction each. With an index a vector
	// takes milliseconds, without one microseconds.
	moveChunk, moveIndexedChunk = 5000, 500
	// How long one call moves before it says that there is more.
	moveFor = 5 * time.Second
	// Late vectors move when they are this share of the bound, as searches
	// compare all of them.
	lateShare = 4

	// The graph: neighbours of a node, and candidates when one is added.
	graphM, graphEf = 16, 128

	// The schema of partitions.
	vectorSchema = "sluice_vectors."
)

const (
	// The generations that are to be searchable: the live one and the one that
	// is being built.
	tendedSQL = `
SELECT g.generation, s.dimension, h.id, h.indexed
FROM (SELECT c.generation, c.space_id FROM collections c WHERE c.tenant_id = $1 AND c.id = $2 AND c.deleted_at IS NULL
      UNION
      SELECT b.number, b.space_id FROM generations b JOIN collections c ON c.tenant_id = b.tenant_id AND c.id = b.collection_id
      WHERE b.tenant_id = $1 AND b.collection_id = $2 AND b.state = 'building' AND c.deleted_at IS NULL) g
JOIN spaces s ON s.id = g.space_id
LEFT JOIN vector_shards h ON h.tenant_id = $1 AND h.collection_id = $2 AND h.generation = g.generation
     AND h.dimension = s.dimension AND h.retired_at IS NULL
ORDER BY g.generation`

	retireShardsSQL = `
UPDATE vector_shards h SET retired_at = now()
WHERE h.tenant_id = $1 AND h.collection_id = $2 AND h.retired_at IS NULL AND NOT EXISTS (
    SELECT FROM collections c WHERE c.tenant_id = $1 AND c.id = $2 AND c.deleted_at IS NULL AND (
        c.generation = h.generation OR EXISTS (
            SELECT FROM generations b WHERE b.tenant_id = $1 AND b.collection_id = $2 AND b.number = h.generation AND b.state = 'building')))`

	insertShardSQL = `
INSERT INTO vector_shards (tenant_id, id, collection_id, generation, dimension) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (collection_id, generation, tenant_id) WHERE retired_at IS NULL DO NOTHING`
	noteIndexSQL = `
UPDATE vector_shards SET indexed = (SELECT count(*) FROM %s v WHERE v.tenant_id = $1 AND v.shard = $2) WHERE tenant_id = $1 AND id = $2`
	forgetIndexSQL = `UPDATE vector_shards SET indexed = NULL WHERE tenant_id = $1 AND id = $2`

	// The vectors in the shared partition that belong to live versions, up to a
	// number; the others wait for purge where they are.
	lateSQL = `
SELECT count(*) FROM (
    SELECT FROM %s v
    WHERE v.tenant_id = $1 AND v.collection_id = $2 AND v.generation = $3 AND v.shard = ` + store.SharedShard + `
      AND (v.version_id IN (SELECT d.live_version_id FROM documents d WHERE d.tenant_id = $1 AND d.collection_id = $2)) IS TRUE
    LIMIT $4) AS late`
	// An update of the partition key moves a row. Whoever deletes one at that
	// moment gets a serialization failure and comes again (tx.go).
	moveSQL = `
UPDATE %[1]s SET shard = $4
WHERE tenant_id = $1 AND shard = ` + store.SharedShard + ` AND ctid = ANY (ARRAY(
    SELECT v.ctid FROM %[1]s v
    WHERE v.tenant_id = $1 AND v.collection_id = $2 AND v.generation = $3 AND v.shard = ` + store.SharedShard + `
      AND (v.version_id IN (SELECT d.live_version_id FROM documents d WHERE d.tenant_id = $1 AND d.collection_id = $2)) IS TRUE
    LIMIT $5 FOR UPDATE SKIP LOCKED))`

	deleteShardSQL   = `DELETE FROM vector_shards WHERE tenant_id = $1 AND id = $2`
	attachSQL        = `SELECT sluice_attach_vectors($1)`
	dropSQL          = `SELECT sluice_drop_vectors($1)`
	retiredShardsSQL = `SELECT tenant_id, id, dimension FROM vector_shards WHERE retired_at < now() - $1::interval`
)

// shard is a generation of a collection and its partition, if it has one.
type shard struct {
	tenant, collection    uuid.UUID
	generation, dimension int
	id                    *uuid.UUID
	indexed               *int64
}

func (h shard) table() string { return store.VectorTable(h.dimension) }

// partition names the partition; it needs no quotes.
func (h shard) partition() string { return vectorSchema + h.relation() }

func (h shard) relation() string { return h.table() + "_" + strings.ReplaceAll(h.id.String(), "-", "") }

func (h shard) index() string { return vectorSchema + h.indexName() }

// indexName is the index's name as CREATE INDEX wants it.
func (h shard) indexName() string { return h.relation() + "_hnsw" }

func (h shard) String() string {
	return fmt.Sprintf("the vectors of generation %d of collection %s", h.generation, h.collection)
}

// TendVectors does the next step for a collection's vectors: gives a large
// collection a partition of its own, moves vectors to it, builds its index. It
// reports whether there is more to do; a step may take as long as an index is
// built. Without a login for it it does nothing, and searches stay exact.
func (s *CorpusStore) TendVectors(ctx context.Context, tenant, collection uuid.UUID) (more bool, err error) {
	shards, err := s.tended(ctx, tenant, collection)
	if err != nil {
		return false, fmt.Errorf("tend the vectors of collection %s: %w", collection, err)
	}
	for _, h := range shards {
		late, err := s.late(ctx, h)
		if err != nil {
			return false, fmt.Errorf("tend %s: %w", h, err)
		}
		if !s.due(h, late) {
			continue
		}
		err = s.db.AsVectors(ctx, collection, func(ctx context.Context, conn *pgx.Conn) error { return s.tend(ctx, conn, h, late) })
		switch {
		case errors.Is(err, store.ErrBusy):
			return false, nil
		case errors.Is(err, store.ErrNoVectorLogin):
			slog.WarnContext(ctx, "a large collection is searched without an index", "tenant", tenant, "collection", collection, "error", err)
			return false, nil
		case err != nil:
			return false, fmt.Errorf("tend %s: %w", h, store.Translate(err))
		}
		return true, nil
	}
	return false, nil
}

// due reports whether a shard with so many late vectors needs anything.
func (s *CorpusStore) due(h shard, late int64) bool {
	switch bound := int64(s.db.Options().OwnVectorsAbove); {
	case h.id == nil:
		return late > bound
	case h.indexed == nil:
		return true
	default:
		return late > max(bound/lateShare, 1)
	}
}

// tended retires the shards that nothing will search, and lists the others and
// the generations that have none.
func (s *CorpusStore) tended(ctx context.Context, tenant, collection uuid.UUID) ([]shard, error) {
	var out []shard
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, retireShardsSQL, tenant, collection); err != nil {
			return fmt.Errorf("retire shards: %w", err)
		}
		rows, err := tx.Query(ctx, tendedSQL, tenant, collection)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (shard, error) {
			h := shard{tenant: tenant, collection: collection}
			err := row.Scan(&h.generation, &h.dimension, &h.id, &h.indexed)
			return h, err
		})
		return err
	})
	return out, err
}

// late counts a shard's vectors in the shared partition, as far as it matters.
func (s *CorpusStore) late(ctx context.Context, h shard) (n int64, err error) {
	enough := int64(max(s.db.Options().OwnVectorsAbove, moveChunk))
	if h.indexed != nil {
		enough = max(enough, *h.indexed)
	}
	err = s.db.AsTenant(ctx, h.tenant, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, fmt.Sprintf(lateSQL, h.table()), h.tenant, h.collection, h.generation, enough+1).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count late vectors: %w", err)
	}
	return n, nil
}

// tend does a shard's next step; conn is that of the owner of partitions.
func (s *CorpusStore) tend(ctx context.Context, conn *pgx.Conn, h shard, late int64) error {
	if h.id == nil {
		return s.inShard(ctx, h, insertShardSQL, h.tenant, schema.NewID(), h.collection, h.generation, h.dimension)
	}
	var attached bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, h.partition()).Scan(&attached); err != nil {
		return fmt.Errorf("look for partition %s: %w", h.partition(), err)
	}
	if !attached {
		return attach(ctx, conn, h)
	}
	if h.indexed != nil {
		if late <= *h.indexed {
			_, err := s.move(ctx, h, moveIndexedChunk)
			return err
		}
		// From here on searches compare all, until the index is there again.
		if err := s.inShard(ctx, h, forgetIndexSQL, h.tenant, *h.id); err != nil {
			return err
		}
	}
	there, valid, err := indexState(ctx, conn, h)
	if err != nil {
		return err
	}
	if there && (!valid || late > moveChunk) {
		if err := store.Execute(ctx, conn, `DROP INDEX CONCURRENTLY IF EXISTS `+h.index()); err != nil {
			return err
		}
	}
	done, err := s.move(ctx, h, moveChunk)
	if err != nil || !done {
		return err
	}
	if err := build(ctx, conn, h); err != nil {
		return err
	}
	return s.inShard(ctx, h, fmt.Sprintf(noteIndexSQL, h.table()), h.tenant, *h.id)
}

// inShard runs a statement as the shard's tenant.
func (s *CorpusStore) inShard(ctx context.Context, h shard, sql string, args ...any) error {
	return s.db.AsTenant(ctx, h.tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
}

// move moves vectors for a while and reports whether all have moved.
func (s *CorpusStore) move(ctx context.Context, h shard, chunk int) (done bool, err error) {
	for begun := time.Now(); ; {
		var moved int64
		err := s.db.AsTenant(ctx, h.tenant, func(ctx context.Context, tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, fmt.Sprintf(moveSQL, h.table()), h.tenant, h.collection, h.generation, *h.id, chunk)
			moved = tag.RowsAffected()
			return err
		})
		if err != nil {
			return false, fmt.Errorf("move vectors: %w", err)
		}
		if moved < int64(chunk) {
			return true, nil
		}
		if time.Since(begun) > moveFor {
			return false, nil
		}
	}
}

// attach makes a shard's partition, empty.
func attach(ctx context.Context, conn *pgx.Conn, h shard) error {
	if _, err := conn.Exec(ctx, attachSQL, h.id); err != nil {
		return fmt.Errorf("make partition %s: %w", h.partition(), err)
	}
	return nil
}

func indexState(ctx context.Context, conn *pgx.Conn, h shard) (there, valid bool, err error) {
	err = conn.QueryRow(ctx, `SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)`, h.index()).Scan(&valid)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("look for index %s: %w", h.index(), err)
	}
	return true, valid, nil
}

// build makes a shard's index, if it is not there.
func build(ctx context.Context, conn *pgx.Conn, h shard) error {
	// A graph that outgrows the memory is built many times slower. A node has a
	// vector of 2 bytes a dimension and about 3 * graphM pointers with their
	// distances.
	var pages int64
	if err := conn.QueryRow(ctx, `SELECT pg_relation_size($1::regclass)`, h.partition()).Scan(&pages); err != nil {
		return fmt.Errorf("measure partition %s: %w", h.partition(), err)
	}
	memory := min(max(2*pages>>20, 64), 1024)
	begun := time.Now()
	sql := `CREATE INDEX CONCURRENTLY IF NOT EXISTS ` + h.indexName() + ` ON ` + h.partition() + ` USING hnsw (embedding halfvec_ip_ops)
		WITH (m = ` + strconv.Itoa(graphM) + `, ef_construction = ` + strconv.Itoa(graphEf) + `)`
	if err := store.Execute(ctx, conn, `SET maintenance_work_mem = '`+strconv.FormatInt(memory, 10)+`MB'`); err != nil {
		return err
	}
	err := store.Execute(ctx, conn, sql)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "53100" {
		// Shared memory is too small for building in parallel, as in containers.
		for _, sql := range []string{`DROP INDEX CONCURRENTLY IF EXISTS ` + h.index(), `SET max_parallel_maintenance_workers = 0`, sql} {
			if err = store.Execute(ctx, conn, sql); err != nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	slog.InfoContext(ctx, "built an index of vectors", "tenant", h.tenant, "collection", h.collection, "generation", h.generation, "took", time.Since(begun))
	return store.Execute(ctx, conn, `ANALYZE `+h.partition())
}

// dropShards drops the partitions of shards that were retired some time ago,
// when no search that began before uses them.
func (s *CorpusStore) dropShards(ctx context.Context) (int, error) {
	var retired []shard
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, retiredShardsSQL, max(s.db.Options().KeepSuperseded, 0))
		if err != nil {
			return err
		}
		retired, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (shard, error) {
			var h shard
			err := row.Scan(&h.tenant, &h.id, &h.dimension)
			return h, err
		})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("list retired shards: %w", err)
	}
	done := 0
	for _, h := range retired {
		err := s.db.AsVectors(ctx, *h.id, func(ctx context.Context, conn *pgx.Conn) error {
			if err := drop(ctx, conn, h); err != nil {
				return err
			}
			return s.inShard(ctx, h, deleteShardSQL, h.tenant, *h.id)
		})
		if errors.Is(err, store.ErrBusy) {
			continue
		}
		if errors.Is(err, store.ErrNoVectorLogin) {
			// Another process may have one; the rest of purge does not need it.
			s.noVectors.Do(func() {
				slog.WarnContext(ctx, "partitions that are out of use stay", "shards", len(retired), "error", err)
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

// drop removes a shard's partition. While searches keep their parent from being
// locked even for a moment, it is busy, and the next round comes back to it.
func drop(ctx context.Context, conn *pgx.Conn, h shard) error {
	_, err := conn.Exec(ctx, dropSQL, h.id)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55P03" {
		return store.ErrBusy
	}
	return store.Wrap(err, "drop partition %s", h.partition())
}
