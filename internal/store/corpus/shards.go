package corpus

// This file keeps the vectors of large collections in partitions of their own, the shards, each
// with an HNSW index of a bounded size. Inserting into such an index runs at hundreds of rows a
// second, so vectors are written to the shared partition and move later: the first ones into shards
// without an index, which is then built concurrently; later ones into the newest shard's index
// while they are fewer than it has and it has room, and otherwise into another shard. When there
// are many small shards, or most of a shard is gone, one new shard is filled with copies, and
// replaces them once its index exists (shards_replace.go): an index that is searched is never
// dropped before.
//
// Every step is small, starts from the state in the database, and may be interrupted anywhere: the
// next call continues. Changes of tables wait for locks only briefly, and none of them blocks a
// search or a write.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/curate/due"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// Late vectors move when there are bound/lateShare of them, because searches compare with all
	// of them.
	lateShare = 4
	// As many shards that fit into one are merged into one.
	minMergedShards = 4

	// The schema of partitions.
	vectorSchema = "sluice_vectors."
)

const (
	// The generations that must be searchable, the live one and one that is being built, with their
	// shards, oldest first, and the estimated number of rows of each.
	tendedSQL = `
SELECT g.generation, s.dimension, h.id, h.indexed, h.replaces, (
    SELECT c.reltuples::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'sluice_vectors' AND c.relname = 'vectors_' || s.dimension || '_' || replace(h.id::text, '-', ''))
FROM (SELECT c.generation, c.space_id FROM collections c WHERE c.tenant_id = $1 AND c.id = $2 AND c.deleted_at IS NULL
      UNION
      SELECT b.number, b.space_id FROM generations b JOIN collections c ON c.tenant_id = b.tenant_id AND c.id = b.collection_id
      WHERE b.tenant_id = $1 AND b.collection_id = $2 AND b.state = 'building' AND c.deleted_at IS NULL) g
JOIN spaces s ON s.id = g.space_id
LEFT JOIN vector_shards h ON h.tenant_id = $1 AND h.collection_id = $2 AND h.generation = g.generation
     AND h.dimension = s.dimension AND h.retired_at IS NULL
ORDER BY g.generation, h.created_at, h.id`

	retireShardsSQL = `UPDATE vector_shards h SET retired_at = now() ` + outOfUse
	anyOutOfUseSQL  = `SELECT EXISTS (SELECT FROM vector_shards h ` + outOfUse + `)`
	outOfUse        = `
WHERE h.tenant_id = $1 AND h.collection_id = $2 AND h.retired_at IS NULL AND NOT EXISTS (
    SELECT FROM collections c WHERE c.tenant_id = $1 AND c.id = $2 AND c.deleted_at IS NULL AND (
        c.generation = h.generation OR EXISTS (
            SELECT FROM generations b WHERE b.tenant_id = $1 AND b.collection_id = $2 AND b.number = h.generation AND b.state = 'building')))`

	insertShardSQL = `
INSERT INTO vector_shards (tenant_id, id, collection_id, generation, dimension, replaces) VALUES ($1, $2, $3, $4, $5, $6)`

	// Counts the vectors of live versions in the shared partition, up to a number; the others stay
	// there until they are purged.
	lateSQL = `
SELECT count(*) FROM (
    SELECT FROM %s v
    WHERE v.tenant_id = $1 AND v.collection_id = $2 AND v.generation = $3 AND v.shard = ` + store.SharedShard + `
      AND (v.version_id IN (SELECT d.live_version_id FROM documents d WHERE d.tenant_id = $1 AND d.collection_id = $2)) IS TRUE
    LIMIT $4) AS late`
	// Counts the vectors of all versions.
	sharedSQL = `
SELECT count(*) FROM (
    SELECT FROM %s v
    WHERE v.tenant_id = $1 AND v.collection_id = $2 AND v.generation = $3 AND v.shard = ` + store.SharedShard + ` LIMIT $4) AS shared`
)

// vectorSet describes where the vectors of a generation are, other than in the shared partition.
type vectorSet struct {
	tenant, collection    uuid.UUID
	generation, dimension int
	shards                []shard // oldest first
}

// shard is a partition, or the row of one that is still to be created.
type shard struct {
	dimension int
	id        uuid.UUID
	indexed   *int64 // number of vectors that its index was built with or that moved to it since; nil: it has no index
	rows      *int64 // estimated number of rows; nil: unknown
	replaces  []uuid.UUID
}

func (v vectorSet) table() string { return store.VectorTable(v.dimension) }

func (v vectorSet) String() string {
	return fmt.Sprintf("the vectors of generation %d of collection %s", v.generation, v.collection)
}

func (h shard) table() string { return store.VectorTable(h.dimension) }

// partition returns the name of the partition, which needs no quotes.
func (h shard) partition() string { return vectorSchema + h.relation() }

func (h shard) relation() string { return h.table() + "_" + strings.ReplaceAll(h.id.String(), "-", "") }

func (h shard) index() string { return vectorSchema + h.indexName() }

// indexName returns the index's name in the form that CREATE INDEX takes.
func (h shard) indexName() string { return h.relation() + "_hnsw" }

// size estimates the number of vectors.
func (h shard) size() int64 {
	if h.rows != nil && *h.rows >= 0 {
		return *h.rows
	}
	return *h.indexed
}

// sparse reports whether most of the vectors in the index are gone.
func (h shard) sparse(minVectors int64) bool {
	return *h.indexed > minVectors && h.size() < *h.indexed/2
}

// threshold returns the number of late vectors above which they move.
func (v vectorSet) threshold(bound int64) int64 {
	if len(v.shards) == 0 {
		return bound
	}
	return max(bound/lateShare, 1)
}

// replacement returns the shard that is being made to replace others, if there is one.
func (v vectorSet) replacement() (shard, bool) {
	at := slices.IndexFunc(v.shards, func(h shard) bool { return len(h.replaces) > 0 })
	if at < 0 {
		return shard{}, false
	}
	return v.shards[at], true
}

// unindexed returns the shard that has no index yet, if there is one.
func (v vectorSet) unindexed() (shard, bool) {
	at := slices.IndexFunc(v.shards, func(h shard) bool { return h.indexed == nil && len(h.replaces) == 0 })
	if at < 0 {
		return shard{}, false
	}
	return v.shards[at], true
}

// newest returns the newest shard that has an index, and how many vectors may move to it.
func (v vectorSet) newest(maxVectors int64) (h shard, room int64) {
	for _, s := range slices.Backward(v.shards) {
		if s.indexed != nil {
			return s, min(maxVectors-*s.indexed, *s.indexed)
		}
	}
	return shard{}, 0
}

// shardsToMerge chooses shards to be replaced by one: many small ones, or those of which most is
// gone.
func (v vectorSet) shardsToMerge(maxVectors, minVectors int64) []uuid.UUID {
	var small, sparse []uuid.UUID
	var sum, left int64
	sorted := slices.SortedFunc(slices.Values(v.shards), func(a, b shard) int { return cmp.Compare(a.size(), b.size()) })
	for _, h := range sorted {
		if sum += h.size(); sum <= maxVectors {
			small = append(small, h.id)
		}
		if h.sparse(minVectors) && left+h.size() <= maxVectors {
			left += h.size()
			sparse = append(sparse, h.id)
		}
	}
	if len(small) >= minMergedShards {
		return small
	}
	return sparse
}

// maxShardVectors returns the largest number of vectors of a shard: the setting, bounded so that
// the graph is built in maxBuildMemory. A node takes its vector, and about 700 bytes for itself,
// the levels above, and 2 * graphM neighbours of 16 bytes each.
func (s *CorpusStore) maxShardVectors(dimension int) int64 {
	return min(int64(s.db.Options().ShardVectors), (maxBuildMemory<<20)/int64(2*dimension+700))
}

// VectorsDue reports whether TendVectors may have something to do. It counts no more vectors than
// it needs to decide.
func (s *CorpusStore) VectorsDue(ctx context.Context, tenant, collection uuid.UUID) (bool, error) {
	over := false
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, anyOutOfUseSQL, tenant, collection).Scan(&over)
	})
	if err != nil || over {
		return over, store.Wrap(err, "look for shards of collection %s that are out of use", collection)
	}
	sets, err := s.tended(ctx, tenant, collection)
	if err != nil {
		return false, fmt.Errorf("look at the vectors of collection %s: %w", collection, err)
	}
	bound := int64(s.db.Options().OwnVectorsAbove)
	for _, v := range sets {
		is := false
		err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
			is, err = s.mayBeDue(ctx, tx, v, bound)
			return err
		})
		if is || err != nil {
			return is, store.Wrap(err, "look at %s", v)
		}
	}
	return false, nil
}

func (s *CorpusStore) mayBeDue(ctx context.Context, tx pgx.Tx, v vectorSet, bound int64) (bool, error) {
	if len(v.shards) == 0 {
		passages, err := store.LivePassages(ctx, tx, v.tenant, v.collection)
		return passages > bound, err
	}
	_, replaced := v.replacement()
	_, bare := v.unindexed()
	if replaced || bare {
		return true, nil
	}
	threshold := v.threshold(bound)
	if v.shardsToMerge(s.maxShardVectors(v.dimension), threshold) != nil {
		return true, nil
	}
	var n int64
	err := tx.QueryRow(ctx, fmt.Sprintf(sharedSQL, v.table()), v.tenant, v.collection, v.generation, threshold+1).Scan(&n)
	return n > threshold, store.Wrap(err, "count late vectors")
}

// TendVectors does the next step for a collection's vectors: it gives a large collection a
// partition of its own, moves vectors to it, or builds its index. It first retires shards that no
// search will use. It reports whether there is more to do. A step may take as long as building an
// index. The error is due.ErrBuildsTaken when as many indexes are being built as are allowed.
// Without a login for the partitions it does nothing, and searches stay exact.
func (s *CorpusStore) TendVectors(ctx context.Context, tenant, collection uuid.UUID) (more bool, err error) {
	if err := s.inSet(ctx, vectorSet{tenant: tenant}, retireShardsSQL, tenant, collection); err != nil {
		return false, fmt.Errorf("retire shards of collection %s: %w", collection, err)
	}
	sets, err := s.tended(ctx, tenant, collection)
	if err != nil {
		return false, fmt.Errorf("tend the vectors of collection %s: %w", collection, err)
	}
	for _, v := range sets {
		step, err := s.next(ctx, v)
		if err != nil {
			return false, fmt.Errorf("tend %s: %w", v, err)
		}
		if step == nil {
			continue
		}
		err = s.db.AsVectors(ctx, collection, func(ctx context.Context, conn *pgx.Conn) error {
			// Another process may have done the step before this one got the lock.
			sets, err := s.tended(ctx, tenant, collection)
			if err != nil {
				return err
			}
			for _, now := range sets {
				if now.generation != v.generation {
					continue
				}
				step, err := s.next(ctx, now)
				if err != nil || step == nil {
					return err
				}
				return step(ctx, conn)
			}
			return nil
		})
		switch {
		case errors.Is(err, store.ErrBusy):
			return false, nil
		case errors.Is(err, store.ErrNoVectorLogin):
			slog.WarnContext(ctx, "a large collection is searched without an index", "tenant", tenant, "collection", collection, "error", err)
			return false, nil
		case errors.Is(err, due.ErrBuildsTaken):
			return false, fmt.Errorf("tend %s: %w", v, err)
		case err != nil:
			return false, fmt.Errorf("tend %s: %w", v, store.Translate(err))
		}
		return true, nil
	}
	return false, nil
}

// next chooses the next step; it is nil when there is nothing to do. The step's conn is a
// connection of the partitions' owner.
func (s *CorpusStore) next(ctx context.Context, v vectorSet) (step func(ctx context.Context, conn *pgx.Conn) error, err error) {
	if r, ok := v.replacement(); ok {
		return func(ctx context.Context, conn *pgx.Conn) error { return s.replace(ctx, conn, v, r) }, nil
	}
	if h, ok := v.unindexed(); ok {
		return func(ctx context.Context, conn *pgx.Conn) error { return s.fill(ctx, conn, v, h) }, nil
	}
	maxVectors := s.maxShardVectors(v.dimension)
	threshold := v.threshold(int64(s.db.Options().OwnVectorsAbove))
	newest, room := v.newest(maxVectors)
	late, err := s.countLate(ctx, v, max(threshold, room))
	if err != nil {
		return nil, err
	}
	open := func(replaces []uuid.UUID) func(ctx context.Context, conn *pgx.Conn) error {
		return func(ctx context.Context, _ *pgx.Conn) error {
			return s.inSet(ctx, v, insertShardSQL, v.tenant, schema.NewID(), v.collection, v.generation, v.dimension, replaces)
		}
	}
	switch {
	case late > threshold && late <= room:
		return func(ctx context.Context, _ *pgx.Conn) error {
			_, err := s.move(ctx, v, newest, moveIndexedChunk, room)
			return err
		}, nil
	case late > threshold:
		return open([]uuid.UUID{}), nil
	}
	if replaced := v.shardsToMerge(maxVectors, threshold); replaced != nil {
		return open(replaced), nil
	}
	return nil, nil
}

// tended lists the shards that searches use or will use, by generation.
func (s *CorpusStore) tended(ctx context.Context, tenant, collection uuid.UUID) ([]vectorSet, error) {
	var out []vectorSet
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		out = nil
		rows, err := tx.Query(ctx, tendedSQL, tenant, collection)
		if err != nil {
			return err
		}
		var generation, dimension int
		var id *uuid.UUID
		var indexed, tuples *int64
		var replaces []uuid.UUID
		_, err = pgx.ForEachRow(rows, []any{&generation, &dimension, &id, &indexed, &replaces, &tuples}, func() error {
			if n := len(out); n == 0 || out[n-1].generation != generation {
				out = append(out, vectorSet{tenant: tenant, collection: collection, generation: generation, dimension: dimension})
			}
			if id != nil {
				v := &out[len(out)-1]
				v.shards = append(v.shards, shard{dimension: dimension, id: *id, indexed: indexed, rows: tuples, replaces: replaces})
			}
			id, indexed, tuples, replaces = nil, nil, nil, nil // the next row gets its own
			return nil
		})
		return err
	})
	return out, err
}

// countLate counts the vectors of live versions in the shared partition, up to enough + 1.
func (s *CorpusStore) countLate(ctx context.Context, v vectorSet, enough int64) (n int64, err error) {
	err = s.db.AsTenant(ctx, v.tenant, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, fmt.Sprintf(lateSQL, v.table()), v.tenant, v.collection, v.generation, enough+1).Scan(&n)
	})
	return n, store.Wrap(err, "count late vectors")
}

// inSet runs a statement as the vector set's tenant.
func (s *CorpusStore) inSet(ctx context.Context, v vectorSet, sql string, args ...any) error {
	return s.db.AsTenant(ctx, v.tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
}
