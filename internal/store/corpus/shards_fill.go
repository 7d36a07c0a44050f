package corpus

// This file moves vectors to shards, and builds their indexes.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/internal/curate/due"
	"github.com/sluice-rag/sluice/internal/store"
)

const (
	// Vectors move in chunks, each in a transaction. Moving a vector takes milliseconds into an
	// index, and microseconds without one.
	moveChunk, moveIndexedChunk = 5000, 500
	// How long one call moves vectors before it returns that there is more to do.
	moveFor = 5 * time.Second

	// The HNSW parameters m, neighbours of a node, and ef_construction, candidates when a node is
	// added.
	graphM, graphEf = 16, 128
	// maxBuildMemory bounds the memory for building an index, in MB.
	maxBuildMemory = 1024
)

const (
	countShardSQL = `
SELECT count(*) FROM (SELECT FROM %s v WHERE v.tenant_id = $1 AND v.shard = $2 LIMIT $3) AS filled`
	noteIndexSQL = `
UPDATE vector_shards SET indexed = (SELECT count(*) FROM %s v WHERE v.tenant_id = $1 AND v.shard = $2) WHERE tenant_id = $1 AND id = $2`
	noteMovedSQL = `UPDATE vector_shards SET indexed = indexed + $3 WHERE tenant_id = $1 AND id = $2 AND indexed IS NOT NULL`

	// Updating the partition key moves a row. A transaction that deletes the row at that moment
	// gets a serialization failure and is repeated (tx.go).
	moveSQL = `
UPDATE %[1]s SET shard = $4
WHERE tenant_id = $1 AND shard = ` + store.SharedShard + ` AND ctid = ANY (ARRAY(
    SELECT v.ctid FROM %[1]s v
    WHERE v.tenant_id = $1 AND v.collection_id = $2 AND v.generation = $3 AND v.shard = ` + store.SharedShard + `
      AND (v.version_id IN (SELECT d.live_version_id FROM documents d WHERE d.tenant_id = $1 AND d.collection_id = $2)) IS TRUE
    LIMIT $5 FOR UPDATE SKIP LOCKED))`

	attachSQL    = `SELECT sluice_attach_vectors($1)`
	buildSlotSQL = `SELECT pg_try_advisory_lock(hashtextextended('sluice builds an index of vectors ' || $1::int, 0))`
)

// fill does the next step for a shard without an index: it creates its partition, moves vectors
// there until it is full or none are left, and builds its index.
func (s *CorpusStore) fill(ctx context.Context, conn *pgx.Conn, v vectorSet, h shard) error {
	ready, err := prepareShard(ctx, conn, h)
	if err != nil || !ready {
		return err
	}
	exists, err := indexExists(ctx, conn, h)
	if err != nil {
		return err
	}
	if !exists {
		maxVectors := s.maxShardVectors(v.dimension)
		var have int64
		if err := s.db.AsTenant(ctx, v.tenant, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, fmt.Sprintf(countShardSQL, v.table()), v.tenant, h.id, maxVectors).Scan(&have)
		}); err != nil {
			return fmt.Errorf("count the vectors of shard %s: %w", h.id, err)
		}
		if done, err := s.move(ctx, v, h, moveChunk, maxVectors-have); err != nil || !done {
			return err
		}
		if err := s.build(ctx, conn, v, h); err != nil {
			return err
		}
	}
	return s.inSet(ctx, v, fmt.Sprintf(noteIndexSQL, h.table()), v.tenant, h.id)
}

// prepareShard creates a shard's partition if it is missing, and reports whether it existed.
func prepareShard(ctx context.Context, conn *pgx.Conn, h shard) (ready bool, err error) {
	if err := conn.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, h.partition()).Scan(&ready); err != nil {
		return false, fmt.Errorf("look for partition %s: %w", h.partition(), err)
	}
	if !ready {
		if _, err := conn.Exec(ctx, attachSQL, h.id); err != nil {
			return false, fmt.Errorf("make partition %s: %w", h.partition(), err)
		}
	}
	return ready, nil
}

// move moves at most maxVectors late vectors to a shard, for about moveFor, and reports whether it
// has moved that many or all.
func (s *CorpusStore) move(ctx context.Context, v vectorSet, h shard, chunk int, maxVectors int64) (done bool, err error) {
	for begun := time.Now(); maxVectors > 0; {
		n := min(int64(chunk), maxVectors)
		var moved int64
		err := s.db.AsTenant(ctx, v.tenant, func(ctx context.Context, tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, fmt.Sprintf(moveSQL, v.table()), v.tenant, v.collection, v.generation, h.id, n)
			if err != nil {
				return err
			}
			moved = tag.RowsAffected()
			_, err = tx.Exec(ctx, noteMovedSQL, v.tenant, h.id, moved)
			return err
		})
		if err != nil {
			return false, fmt.Errorf("move vectors: %w", err)
		}
		if maxVectors -= moved; moved < n {
			break
		}
		if time.Since(begun) > moveFor {
			return maxVectors <= 0, nil
		}
	}
	return true, nil
}

// indexExists reports whether a shard's index exists. It drops one whose building was interrupted.
func indexExists(ctx context.Context, conn *pgx.Conn, h shard) (bool, error) {
	var valid bool
	err := conn.QueryRow(ctx, `SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)`, h.index()).Scan(&valid)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for index %s: %w", h.index(), err)
	}
	if valid {
		return true, nil
	}
	return false, store.Execute(ctx, conn, `DROP INDEX CONCURRENTLY IF EXISTS `+h.index())
}

// takeBuildSlot takes one of the slots for index builds in the database, until conn is closed. The
// error is due.ErrBuildsTaken when all are taken.
func (s *CorpusStore) takeBuildSlot(ctx context.Context, conn *pgx.Conn) error {
	for i := range s.db.Options().IndexBuilds {
		var got bool
		if err := conn.QueryRow(ctx, buildSlotSQL, i).Scan(&got); err != nil {
			return fmt.Errorf("take a build slot: %w", err)
		}
		if got {
			return nil
		}
	}
	return due.ErrBuildsTaken
}

// build builds a shard's index.
func (s *CorpusStore) build(ctx context.Context, conn *pgx.Conn, v vectorSet, h shard) error {
	if err := s.takeBuildSlot(ctx, conn); err != nil {
		return err
	}
	// Building a graph that outgrows the memory is many times slower. A node has a vector of 2
	// bytes per dimension and about 3 * graphM pointers with their distances.
	var pages int64
	if err := conn.QueryRow(ctx, `SELECT pg_relation_size($1::regclass)`, h.partition()).Scan(&pages); err != nil {
		return fmt.Errorf("measure partition %s: %w", h.partition(), err)
	}
	memory := min(max(3*pages>>20, 64), maxBuildMemory)
	begun := time.Now()
	sql := `CREATE INDEX CONCURRENTLY IF NOT EXISTS ` + h.indexName() + ` ON ` + h.partition() + ` USING hnsw (embedding halfvec_ip_ops)
		WITH (m = ` + strconv.Itoa(graphM) + `, ef_construction = ` + strconv.Itoa(graphEf) + `)`
	if err := store.Execute(ctx, conn, `SET maintenance_work_mem = '`+strconv.FormatInt(memory, 10)+`MB'`); err != nil {
		return err
	}
	err := store.Execute(ctx, conn, sql)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "53100" {
		// Shared memory is too small for a parallel build, as it may be in containers.
		for _, sql := range []string{`DROP INDEX CONCURRENTLY IF EXISTS ` + h.index(), `SET max_parallel_maintenance_workers = 0`, sql} {
			if err = store.Execute(ctx, conn, sql); err != nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	slog.InfoContext(ctx, "built an index of vectors", "tenant", v.tenant, "collection", v.collection, "generation", v.generation, "took", time.Since(begun))
	return store.Execute(ctx, conn, `ANALYZE `+h.partition())
}
