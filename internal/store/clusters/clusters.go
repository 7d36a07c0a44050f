// Package clusters stores the clusterings of collections, and reads what is needed to make them.
package clusters

// This file updates the clusters of a collection when its versions change. Package cluster decides;
// this package reads the sections and their relations and writes the changes, in one transaction
// per chunk of versions. Every transaction that clusters a collection locks its clusterings, so
// there is one at a time, and epochs are committed in order.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/cluster"
	"github.com/sluice-rag/sluice/internal/curate/due"
	"github.com/sluice-rag/sluice/internal/store"
)

// ClusterStore stores the clusters of the tenants' collections.
type ClusterStore struct{ db *store.Store }

// New returns a ClusterStore of a database.
func New(db *store.Store) *ClusterStore { return &ClusterStore{db} }

const (
	clusteredCollectionSQL = `
SELECT generation, deleted_at IS NOT NULL, cluster_tokens FROM collections WHERE tenant_id = $1 AND id = $2`
	openClusteringSQL = `
INSERT INTO clusterings (tenant_id, collection_id, generation) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
	lockLiveClusteringSQL = `
SELECT FROM clusterings WHERE tenant_id = $1 AND collection_id = $2 AND generation = $3 FOR UPDATE`
	// The live generation, and one that is being built.
	lockClusteringsSQL = `
SELECT c.generation, c.epoch FROM clusterings c
WHERE c.tenant_id = $1 AND c.collection_id = $2 AND (c.generation = $3 OR EXISTS (
    SELECT FROM generations g
    WHERE g.tenant_id = $1 AND g.collection_id = $2 AND g.number = c.generation AND g.state = 'building'))
ORDER BY c.generation FOR UPDATE OF c`

	// Versions that left come first, since they make room. Those that wait for their encoder are 2.
	// The index versions_to_cluster has this order, so that a call reads only as many versions as
	// it processes, however many wait.
	clusterOrder = `(CASE WHEN state = 'superseded' THEN 0 WHEN unencoded THEN 2 ELSE 1 END)`
	uncuratedSQL = `
SELECT id, state = 'ready', section_count, relinked_at FROM versions
WHERE tenant_id = $1 AND collection_id = $2 AND NOT curated AND state IN ('ready', 'superseded') AND ` + clusterOrder + ` < 2
ORDER BY ` + clusterOrder + `, id LIMIT $3`
	// In the order of the ids in $2. Looked up row by row, as in relations.go.
	lockCuratedSQL = `
SELECT v.* FROM unnest($2::uuid[]) AS k(id)
CROSS JOIN LATERAL (SELECT id, state = 'ready', relinked_at FROM versions WHERE tenant_id = $1 AND id = k.id LIMIT 1 FOR UPDATE) v`
	// A version that left the index meanwhile stays uncurated, so that curation indexes it again.
	markCuratedSQL = `
UPDATE versions SET curated = true, relinked_at = NULL WHERE tenant_id = $1 AND ctid = ANY (ARRAY(
    SELECT v.ctid FROM unnest($2::uuid[]) AS k(id)
    CROSS JOIN LATERAL (SELECT ctid, state FROM versions WHERE tenant_id = $1 AND id = k.id LIMIT 1) v
    CROSS JOIN (SELECT generation, deleted_at FROM collections WHERE tenant_id = $1 AND id = $3) c
    WHERE v.state <> 'ready' OR c.deleted_at IS NOT NULL OR EXISTS (
        SELECT FROM lexical_entries e WHERE e.tenant_id = $1 AND e.version_id = k.id AND e.generation = c.generation AND NOT e.dead OFFSET 0)))`

	putMembersSQL = `
INSERT INTO cluster_members (tenant_id, collection_id, generation, section_id, version_id, section, cluster_id, tokens, epoch)
SELECT $1, $2, $3, m.section_id, m.version_id, m.section, m.cluster_id, m.tokens, $4
FROM unnest($5::uuid[], $6::uuid[], $7::int[], $8::uuid[], $9::int[]) AS m(section_id, version_id, section, cluster_id, tokens)
ON CONFLICT (section_id, generation, tenant_id) DO UPDATE SET cluster_id = excluded.cluster_id, epoch = excluded.epoch`
	putClustersSQL = `
INSERT INTO clusters (tenant_id, collection_id, generation, id, tokens, sections)
SELECT $1, $2, $3, c.* FROM unnest($4::uuid[], $5::int[], $6::int[]) AS c(id, tokens, sections)
ON CONFLICT (id, tenant_id) DO UPDATE SET tokens = excluded.tokens, sections = excluded.sections`
	dropClustersSQL = `DELETE FROM clusters WHERE tenant_id = $1 AND id = ANY ($2)`
	// Only for the generations that are updated: those that are no longer searched keep consistent
	// members and sums until they are dropped.
	dropMembersSQL = `
WITH gone AS (
    DELETE FROM cluster_members WHERE tenant_id = $1 AND version_id = ANY ($2) AND generation = ANY ($3) RETURNING generation
)
SELECT generation, count(*) FROM gone GROUP BY generation`
	nextEpochSQL = `
UPDATE clusterings SET epoch = $4, changed = changed + $5, members = members + $6, clustered_at = now()
WHERE tenant_id = $1 AND collection_id = $2 AND generation = $3`
)

// clustering is one generation of a collection in a transaction that holds its lock.
type clustering struct {
	tx                 pgx.Tx
	tenant, collection uuid.UUID
	generation         int
	epoch              int64 // the epoch that is being written
	limit              int   // most tokens of a cluster
}

// curated are the versions that one call processes.
type curated struct {
	added, left []uuid.UUID
	more        bool // more versions are waiting
	// When links of versions in added changed: their sections are placed again.
	relinked map[uuid.UUID]time.Time
}

func (c curated) all() []uuid.UUID { return slices.Concat(c.left, c.added) }

// lookUpSQL makes the transaction's statements look rows up by index. A collection that is being
// filled has no statistics, or those of its first documents; a plan with a scan for these was
// repeated for thousands of newer rows and took minutes. The lane's time limit bounds plans that
// are bad nevertheless.
const lookUpSQL = `
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`

// ClusterChanged updates the clusters of a collection for versions that went live or left since the
// last call, and marks these as curated. One call processes a limited number of versions, and reads
// no more than it needs for them; it returns how many it processed and whether more are left.
// Callers fill gaps of the index first: a version without an entry in it is not marked, and is
// processed again when it has one. When no version is left and a sixth of the sections have changed
// since all of them were clustered, or a recluster was requested, it clusters all of them again.
// That puts sections where they belong regardless of the order in which they came, and its cost is
// in proportion to the changes. The clusters of a deleted collection are removed. Several processes
// may call it at once; the lock serialises them.
func (s *ClusterStore) ClusterChanged(ctx context.Context, tenant, collection uuid.UUID) (done int, more bool, err error) {
	err = s.db.Curating().AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		done, more = 0, false
		if _, err := tx.Exec(ctx, lookUpSQL); err != nil {
			return fmt.Errorf("prepare the lookups: %w", err)
		}
		var live, limit int
		var deleted bool
		if err := tx.QueryRow(ctx, clusteredCollectionSQL, tenant, collection).Scan(&live, &deleted, &limit); err != nil {
			return store.Named(err, "collection", collection)
		}
		parts, err := lockClusterings(ctx, tx, tenant, collection, live)
		if err != nil {
			return err
		}
		changed, err := uncurated(ctx, tx, tenant, collection)
		if err != nil {
			return err
		}
		if deleted {
			if err := DropClusterings(ctx, tx, tenant, collection, nil); err != nil {
				return err
			}
			parts = nil
		}
		marked := 0
		if len(changed.all()) > 0 {
			if marked, err = applyChanges(ctx, parts, changed, tx, tenant, collection); err != nil {
				return err
			}
		}
		done, more = len(changed.all()), changed.more && marked > 0
		if more || deleted {
			return nil
		}
		return noteDrift(ctx, tx, tenant, collection)
	})
	if err != nil {
		return 0, false, fmt.Errorf("cluster collection %s: %w", collection, err)
	}
	// Each call adds up part of the counts, so that few are left for the last one.
	if _, err := s.db.AddUpSomeCounts(ctx, tenant, collection); err != nil {
		return 0, false, err
	}
	if !more {
		if err := s.rebuildAsked(ctx, tenant, collection); err != nil {
			return 0, false, err
		}
		if err := s.db.AddUpCounts(ctx, tenant, collection); err != nil {
			return 0, false, err
		}
	}
	if done > 0 {
		slog.DebugContext(ctx, "clustered", "tenant", tenant, "collection", collection, "versions", done, "more", more)
	}
	return done, more, nil
}

// lockClusterings locks the clusterings of a collection that are updated, including that of the
// generation live, which the caller read to be the live one. If another generation went live before
// the lock, the transaction starts again, since that generation would be left out.
//
// The live clustering is locked by a statement of its own, before the others are listed. A
// statement doesn't see rows that were committed while it waited for a lock, and a rebuild adds the
// clustering of its generation while it holds the lock of the live one.
func lockClusterings(ctx context.Context, tx pgx.Tx, tenant, collection uuid.UUID, live int) ([]clustering, error) {
	if _, err := tx.Exec(ctx, openClusteringSQL, tenant, collection, live); err != nil {
		return nil, fmt.Errorf("open the clustering of generation %d: %w", live, err)
	}
	if _, err := tx.Exec(ctx, lockLiveClusteringSQL, tenant, collection, live); err != nil {
		return nil, fmt.Errorf("lock the clustering of generation %d: %w", live, err)
	}
	rows, err := tx.Query(ctx, lockClusteringsSQL, tenant, collection, live)
	if err != nil {
		return nil, fmt.Errorf("lock clusterings: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (clustering, error) {
		c := clustering{tx: tx, tenant: tenant, collection: collection}
		err := row.Scan(&c.generation, &c.epoch)
		c.epoch++
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("lock clusterings: %w", err)
	}
	var now, limit int
	var deleted bool
	if err := tx.QueryRow(ctx, clusteredCollectionSQL, tenant, collection).Scan(&now, &deleted, &limit); err != nil {
		return nil, store.Named(err, "collection", collection)
	}
	for i := range out {
		out[i].limit = limit
	}
	if now != live {
		return nil, fmt.Errorf("generation %d is live, not %d: %w", now, live, store.ErrRepeat)
	}
	return out, nil
}

// uncurated selects the versions that one call processes.
func uncurated(ctx context.Context, tx pgx.Tx, tenant, collection uuid.UUID) (curated, error) {
	out := curated{relinked: map[uuid.UUID]time.Time{}}
	rows, err := tx.Query(ctx, uncuratedSQL, tenant, collection, due.ClusteredVersions+1)
	if err != nil {
		return out, fmt.Errorf("list changed versions: %w", err)
	}
	var id uuid.UUID
	var ready bool
	var sections, sum int
	var relinked *time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &ready, &sections, &relinked}, func() error {
		switch {
		case len(out.added)+len(out.left) == due.ClusteredVersions:
			out.more = true
		case !ready:
			out.left = append(out.left, id)
		case sum+sections <= due.ClusteredSections || len(out.added) == 0:
			sum += sections
			out.added = append(out.added, id)
			if relinked != nil {
				out.relinked[id] = *relinked
			}
		default:
			out.more = true
		}
		return nil
	})
	return out, store.Wrap(err, "list changed versions")
}

// applyChanges updates all generations for the changed versions. It returns how many versions it
// marked as curated.
func applyChanges(ctx context.Context, parts []clustering, changed curated, tx pgx.Tx, tenant, collection uuid.UUID) (marked int, err error) {
	diffs := make([]clusterDiff, len(parts))
	for i, part := range parts {
		if diffs[i], err = part.update(ctx, changed); err != nil {
			return 0, fmt.Errorf("generation %d: %w", part.generation, err)
		}
	}
	// Purge waits for this lock, and so sees the members that are written here.
	if err := lockCurated(ctx, tx, tenant, changed); err != nil {
		return 0, err
	}
	generations := make([]int, len(parts))
	for i, part := range parts {
		generations[i] = part.generation
	}
	rows, err := tx.Query(ctx, dropMembersSQL, tenant, changed.left, generations)
	if err != nil {
		return 0, fmt.Errorf("remove sections of versions that left: %w", err)
	}
	removed := map[int]int{}
	var generation, n int
	if _, err := pgx.ForEachRow(rows, []any{&generation, &n}, func() error {
		removed[generation] = n
		return nil
	}); err != nil {
		return 0, fmt.Errorf("remove sections of versions that left: %w", err)
	}
	for i, part := range parts {
		diffs[i].added -= removed[part.generation]
		if err := part.write(ctx, diffs[i]); err != nil {
			return 0, fmt.Errorf("generation %d: %w", part.generation, err)
		}
	}
	tag, err := tx.Exec(ctx, markCuratedSQL, tenant, changed.all(), collection)
	if err != nil {
		return 0, fmt.Errorf("mark versions: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// lockCurated locks the versions. If one of them has changed meanwhile, the transaction starts
// again.
func lockCurated(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, changed curated) error {
	// All transactions lock in the order of ids.
	all := changed.all()
	slices.SortFunc(all, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	rows, err := tx.Query(ctx, lockCuratedSQL, tenant, all)
	if err != nil {
		return fmt.Errorf("lock versions: %w", err)
	}
	was := map[uuid.UUID]bool{}
	for _, v := range changed.added {
		was[v] = true
	}
	var id uuid.UUID
	var ready bool
	var relinked *time.Time
	seen := 0
	_, err = pgx.ForEachRow(rows, []any{&id, &ready, &relinked}, func() error {
		at, linked := changed.relinked[id]
		if seen++; ready != was[id] || ready && (linked != (relinked != nil) || linked && !at.Equal(*relinked)) {
			return fmt.Errorf("version %s changed: %w", id, store.ErrRepeat)
		}
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, store.ErrRepeat):
		return fmt.Errorf("lock versions: %w", err)
	case err != nil:
		return err
	case seen < len(was): // only versions that left are ever removed
		return fmt.Errorf("a version was removed: %w", store.ErrRepeat)
	}
	return nil
}

// clusterDiff is the changes of an update, with the data for its members' rows.
type clusterDiff struct {
	cluster.Diff
	sections map[uuid.UUID]cluster.PositionedMember
	changed  int // sections placed and removed
	added    int // members more than before
}

// name returns an id for a new cluster that no cluster had before.
func (c clustering) name(first uuid.UUID) uuid.UUID {
	return uuid.NewSHA1(first, fmt.Appendf(nil, "%s/%d/%d", c.collection, c.generation, c.epoch))
}

func (c clustering) options() cluster.Options { return cluster.Options{Limit: c.limit, Name: c.name} }

// write writes a diff with the next epoch.
func (c clustering) write(ctx context.Context, d clusterDiff) error {
	if err := c.putMembers(ctx, d); err != nil {
		return err
	}
	if err := c.putClusters(ctx, d.Changed); err != nil {
		return err
	}
	if len(d.Gone) > 0 {
		if _, err := c.tx.Exec(ctx, dropClustersSQL, c.tenant, d.Gone); err != nil {
			return fmt.Errorf("drop clusters: %w", err)
		}
	}
	if _, err := c.tx.Exec(ctx, nextEpochSQL, c.tenant, c.collection, c.generation, c.epoch, d.changed, d.added); err != nil {
		return fmt.Errorf("note the epoch: %w", err)
	}
	return nil
}

// writeChunk is the most rows of one statement.
const writeChunk = 10_000

func (c clustering) putMembers(ctx context.Context, d clusterDiff) error {
	for moves := range slices.Chunk(d.Moved, writeChunk) {
		var sections, versions, clusters []uuid.UUID
		var ordinals, tokens []int
		for _, m := range moves {
			s := d.sections[m.Section]
			sections, versions, clusters = append(sections, m.Section), append(versions, s.Version), append(clusters, m.Cluster)
			ordinals, tokens = append(ordinals, s.Ordinal), append(tokens, s.Tokens)
		}
		if _, err := c.tx.Exec(ctx, putMembersSQL, c.tenant, c.collection, c.generation, c.epoch, sections, versions, ordinals, clusters, tokens); err != nil {
			return fmt.Errorf("write members: %w", err)
		}
	}
	return nil
}

func (c clustering) putClusters(ctx context.Context, changed []cluster.Cluster) error {
	for chunk := range slices.Chunk(changed, writeChunk) {
		var ids []uuid.UUID
		var tokens, counts []int
		for _, k := range chunk {
			ids, tokens, counts = append(ids, k.ID), append(tokens, k.Tokens), append(counts, len(k.Sections))
		}
		if _, err := c.tx.Exec(ctx, putClustersSQL, c.tenant, c.collection, c.generation, ids, tokens, counts); err != nil {
			return fmt.Errorf("write clusters: %w", err)
		}
	}
	return nil
}

const (
	dropGenerationMembersSQL = `DELETE FROM cluster_members WHERE tenant_id = $1 AND collection_id = $2 AND ($3::int IS NULL OR generation = $3)`
	dropGenerationSQL        = `DELETE FROM clusters WHERE tenant_id = $1 AND collection_id = $2 AND ($3::int IS NULL OR generation = $3)`
	dropClusteringSQL        = `DELETE FROM clusterings WHERE tenant_id = $1 AND collection_id = $2 AND ($3::int IS NULL OR generation = $3)`
)

// DropClusterings removes the clusters of a generation; nil: of all generations.
func DropClusterings(ctx context.Context, tx pgx.Tx, tenant, collection uuid.UUID, generation *int) error {
	for _, sql := range []string{dropGenerationMembersSQL, dropGenerationSQL, dropClusteringSQL} {
		if _, err := tx.Exec(ctx, sql, tenant, collection, generation); err != nil {
			return fmt.Errorf("drop clusters: %w", err)
		}
	}
	return nil
}
