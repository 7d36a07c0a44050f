package clusters

// This file clusters a whole collection again.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/cluster"
	"github.com/sluice-rag/sluice/internal/curate/due"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	liveDocumentsSQL = `
SELECT v.id, d.external_id FROM documents d
CROSS JOIN LATERAL (
    SELECT v.id FROM versions v WHERE v.tenant_id = $1 AND v.id = d.live_version_id AND (v.state = 'ready') IS TRUE LIMIT 1) v
WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL`
	// The sections of all live versions, without those that went live later: curation places them.
	allSectionsSQL = `
SELECT s.id, s.version_id, s.ordinal, s.tokens FROM versions v
CROSS JOIN LATERAL (
    SELECT s.id, s.version_id, s.ordinal, s.tokens FROM sections s WHERE s.tenant_id = $1 AND s.version_id = v.id OFFSET 0) s
WHERE v.tenant_id = $1 AND v.collection_id = $2 AND v.state = 'ready'
ORDER BY s.version_id, s.ordinal`
	allLinksSQL = `
SELECT l.version_id, l.section, l.target FROM versions v
CROSS JOIN LATERAL (
    SELECT l.version_id, l.section, l.target FROM links l WHERE l.tenant_id = $1 AND l.version_id = v.id OFFSET 0) l
WHERE v.tenant_id = $1 AND v.collection_id = $2 AND v.state = 'ready'`
	shareVersionsSQL = `
SELECT id FROM versions WHERE tenant_id = $1 AND id = ANY ($2) AND (state = 'ready') IS TRUE ORDER BY id FOR SHARE`
	// Between reading and writing, clusters are computed in memory. For 200,000 sections that takes
	// minutes on a busy machine, which is longer than a transaction may normally be idle.
	idleTimeoutSQL = `SELECT set_config('idle_in_transaction_session_timeout', '1h', true)`
	noteRebuildSQL = `
UPDATE clusterings SET rebuilt_at = now(), changed = 0, members = $4 WHERE tenant_id = $1 AND collection_id = $2 AND generation = $3`

	// For clusterings of an older build, which did not count.
	countMembersSQL = `
UPDATE clusterings c SET members = (
    SELECT count(*) FROM cluster_members m WHERE m.tenant_id = $1 AND m.collection_id = c.collection_id AND m.generation = c.generation)
WHERE c.tenant_id = $1 AND c.collection_id = $2 AND c.members IS NULL`
	noteDriftSQL = `
INSERT INTO reclusterings (tenant_id, collection_id)
SELECT $1, $2 FROM clusterings c
JOIN collections k ON k.tenant_id = $1 AND k.id = c.collection_id AND k.deleted_at IS NULL AND k.generation = c.generation
WHERE c.tenant_id = $1 AND c.collection_id = $2 AND c.changed > 0 AND c.changed * $3 > c.members AND c.members BETWEEN $4 AND $5
ON CONFLICT DO NOTHING`

	askedReclusterSQL = `
SELECT r.asked_at, c.generation FROM reclusterings r JOIN collections c ON c.tenant_id = $1 AND c.id = r.collection_id
WHERE r.tenant_id = $1 AND r.collection_id = $2 AND c.deleted_at IS NULL`
	// A request that arrives during the work has another time and stays.
	didReclusterSQL = `DELETE FROM reclusterings WHERE tenant_id = $1 AND collection_id = $2 AND asked_at = $3`
	sizeClustersSQL = `UPDATE collections SET cluster_tokens = $3 WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL`
	askReclusterSQL = `
INSERT INTO reclusterings (tenant_id, collection_id) VALUES ($1, $2)
ON CONFLICT (collection_id, tenant_id) DO UPDATE SET asked_at = excluded.asked_at`

	// The most sections that are related by vectors in memory, at 1 KB each; the others of a larger
	// collection are related by links, documents and folders only.
	nearestInMemory = 200_000
)

// RebuildClusters clusters all live text of a collection again, for one generation, which is live
// or being built. Queries see the old clusters until all new ones are written. It returns the
// number of clusters.
func (s *ClusterStore) RebuildClusters(ctx context.Context, tenant, collection uuid.UUID, generation int) (clusters int, err error) {
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		c, err := openRebuild(ctx, tx, tenant, collection, generation)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, idleTimeoutSQL); err != nil {
			return fmt.Errorf("allow for the time between statements: %w", err)
		}
		sections, names, err := c.allSections(ctx)
		if err != nil {
			return err
		}
		edges, err := c.allRelations(ctx, sections, names)
		if err != nil {
			return err
		}
		clusters, err = c.replace(ctx, sections, edges)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("recompute the clusters of generation %d of collection %s: %w", generation, collection, err)
	}
	return clusters, nil
}

// Recluster requests that curation cluster all sections of a collection again. tokens is the most
// tokens of a cluster, now and later; 0: unchanged.
func (s *ClusterStore) Recluster(ctx context.Context, p schema.Principal, collection uuid.UUID, tokens int) error {
	if tokens != 0 && (tokens < schema.MinClusterTokens || tokens > schema.MaxClusterTokens) {
		return schema.Invalid("cluster_tokens", "%d is not from %d to %d", tokens, schema.MinClusterTokens, schema.MaxClusterTokens)
	}
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := store.CollectionExists(ctx, tx, p.Tenant, collection); err != nil {
			return err
		}
		var details map[string]any
		if tokens != 0 {
			if _, err := tx.Exec(ctx, sizeClustersSQL, p.Tenant, collection, tokens); err != nil {
				return fmt.Errorf("note the size of clusters: %w", err)
			}
			details = map[string]any{"cluster_tokens": tokens}
		}
		if _, err := tx.Exec(ctx, askReclusterSQL, p.Tenant, collection); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "collection.recluster", collection.String(), details)
	})
	return store.Wrap(err, "cluster collection %s anew", collection)
}

// noteDrift requests that a collection be clustered again if much of it has changed.
func noteDrift(ctx context.Context, tx pgx.Tx, tenant, collection uuid.UUID) error {
	if _, err := tx.Exec(ctx, countMembersSQL, tenant, collection); err != nil {
		return fmt.Errorf("count members: %w", err)
	}
	if _, err := tx.Exec(ctx, noteDriftSQL, tenant, collection, due.DriftShare, due.MinDrifted, due.MaxDrifted); err != nil {
		return fmt.Errorf("see how much changed: %w", err)
	}
	return nil
}

// rebuildAsked clusters the live generation again if that was requested.
func (s *ClusterStore) rebuildAsked(ctx context.Context, tenant, collection uuid.UUID) error {
	var requested time.Time
	var live int
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, askedReclusterSQL, tenant, collection).Scan(&requested, &live)
	})
	if store.IsNoRows(err) {
		return nil
	}
	if err == nil {
		_, err = s.RebuildClusters(ctx, tenant, collection, live)
	}
	if errors.Is(err, schema.ErrConflict) || errors.Is(err, schema.ErrNotFound) {
		return nil // another generation went live, so the next call does it; or the collection was deleted
	}
	if err == nil {
		err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, didReclusterSQL, tenant, collection, requested)
			return err
		})
	}
	return store.Wrap(err, "cluster collection %s anew, as was asked for", collection)
}

// openRebuild locks the clusterings of the collection, always including that of the live
// generation, so that nothing is curated meanwhile.
func openRebuild(ctx context.Context, tx pgx.Tx, tenant, collection uuid.UUID, generation int) (clustering, error) {
	var live, limit int
	var deleted bool
	if err := tx.QueryRow(ctx, clusteredCollectionSQL, tenant, collection).Scan(&live, &deleted, &limit); err != nil {
		return clustering{}, store.Named(err, "collection", collection)
	}
	if deleted {
		return clustering{}, fmt.Errorf("collection %s: %w", collection, schema.ErrNotFound)
	}
	if _, err := tx.Exec(ctx, openClusteringSQL, tenant, collection, min(live, generation)); err != nil {
		return clustering{}, fmt.Errorf("open the clustering: %w", err)
	}
	if _, err := tx.Exec(ctx, openClusteringSQL, tenant, collection, max(live, generation)); err != nil {
		return clustering{}, fmt.Errorf("open the clustering: %w", err)
	}
	parts, err := lockClusterings(ctx, tx, tenant, collection, live)
	if err != nil {
		return clustering{}, err
	}
	at := slices.IndexFunc(parts, func(c clustering) bool { return c.generation == generation })
	if at < 0 {
		return clustering{}, fmt.Errorf("generation %d is neither live nor being built: %w", generation, schema.ErrConflict)
	}
	return parts[at], nil
}

// allSections reads the sections of all live versions, and the names of their documents by version.
func (c clustering) allSections(ctx context.Context) ([]cluster.PositionedMember, map[uuid.UUID]string, error) {
	rows, err := c.tx.Query(ctx, liveDocumentsSQL, c.tenant, c.collection)
	if err != nil {
		return nil, nil, fmt.Errorf("read documents: %w", err)
	}
	names := map[uuid.UUID]string{}
	var version uuid.UUID
	var name string
	if _, err := pgx.ForEachRow(rows, []any{&version, &name}, func() error {
		names[version] = name
		return nil
	}); err != nil {
		return nil, nil, fmt.Errorf("read documents: %w", err)
	}
	if rows, err = c.tx.Query(ctx, allSectionsSQL, c.tenant, c.collection); err != nil {
		return nil, nil, fmt.Errorf("read sections: %w", err)
	}
	var sections []cluster.PositionedMember
	var s cluster.PositionedMember
	if _, err := pgx.ForEachRow(rows, []any{&s.ID, &s.Version, &s.Ordinal, &s.Tokens}, func() error {
		if _, live := names[s.Version]; live {
			s.Tokens = max(s.Tokens, 1)
			sections = append(sections, s)
		}
		return nil
	}); err != nil {
		return nil, nil, fmt.Errorf("read sections: %w", err)
	}
	return sections, names, nil
}

func (c clustering) allRelations(ctx context.Context, sections []cluster.PositionedMember, names map[uuid.UUID]string) ([]cluster.Edge, error) {
	at := cluster.PositionsOf(sections)
	first := make(map[string]uuid.UUID, len(names))
	for version, name := range names {
		if id, ok := at[cluster.Position{Version: version, Ordinal: 0}]; ok {
			first[name] = id
		}
	}
	rows, err := c.tx.Query(ctx, allLinksSQL, c.tenant, c.collection)
	if err != nil {
		return nil, fmt.Errorf("read links: %w", err)
	}
	var edges []cluster.Edge
	var version uuid.UUID
	var section int
	var target string
	if _, err := pgx.ForEachRow(rows, []any{&version, &section, &target}, func() error {
		if from, ok := at[cluster.Position{Version: version, Ordinal: max(section, 0)}]; ok {
			edges = append(edges, cluster.Resolve(from, cluster.TargetsIn(names[version], section, target), first)...)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read links: %w", err)
	}
	near, err := c.nearestOfAll(ctx, cluster.Unlinked(sections, edges, c.limit))
	if err != nil {
		return nil, err
	}
	return slices.Concat(edges, cluster.NeighbourEdges(at), cluster.FolderEdges(first), near), nil
}

func (c clustering) nearestOfAll(ctx context.Context, sections []cluster.PositionedMember) ([]cluster.Edge, error) {
	sections = sections[:min(len(sections), nearestInMemory)]
	where, err := c.vectors(ctx)
	if err != nil || where == nil || len(sections) == 0 {
		return nil, err
	}
	var found []uuid.UUID
	var vectors [][]float32
	for chunk := range slices.Chunk(sections, writeChunk) {
		requested := make([]uuid.UUID, len(chunk))
		for i, s := range chunk {
			requested[i] = s.ID
		}
		more, means, err := c.means(ctx, where, requested)
		if err != nil {
			return nil, err
		}
		found, vectors = append(found, more...), append(vectors, means...)
	}
	return cluster.NearestEdges(found, vectors, nearestSections), nil
}

// replace computes clusters of the sections and replaces the old ones by them. It computes them
// before it locks the versions, because writers of the versions wait for that lock.
func (c clustering) replace(ctx context.Context, all []cluster.PositionedMember, edges []cluster.Edge) (int, error) {
	d := clusterDiff{sections: make(map[uuid.UUID]cluster.PositionedMember, len(all))}
	sections := make([]cluster.Member, len(all))
	versions := map[uuid.UUID]bool{}
	for i, s := range all {
		d.sections[s.ID] = s
		sections[i] = cluster.Member{ID: s.ID, Tokens: s.Tokens}
		versions[s.Version] = true
	}
	d.Diff = cluster.Update(sections, edges, nil, c.options())
	// Purge waits for this lock, and so sees the members that are written here.
	still, err := store.IDs(c.tx.Query(ctx, shareVersionsSQL, c.tenant, slices.Collect(maps.Keys(versions))))
	if err != nil {
		return 0, fmt.Errorf("lock versions: %w", err)
	}
	if len(still) < len(versions) {
		clear(versions)
		for _, v := range still {
			versions[v] = true
		}
		d.keep(func(section uuid.UUID) bool { return versions[d.sections[section].Version] })
	}
	for _, sql := range []string{dropGenerationMembersSQL, dropGenerationSQL} {
		if _, err := c.tx.Exec(ctx, sql, c.tenant, c.collection, &c.generation); err != nil {
			return 0, fmt.Errorf("drop old clusters: %w", err)
		}
	}
	if err := c.write(ctx, d); err != nil {
		return 0, err
	}
	if _, err := c.tx.Exec(ctx, noteRebuildSQL, c.tenant, c.collection, c.generation, len(d.Moved)); err != nil {
		return 0, fmt.Errorf("note the rebuild: %w", err)
	}
	return len(d.Changed), nil
}

// keep removes the sections that left while the new clusters were computed.
func (d *clusterDiff) keep(exists func(section uuid.UUID) bool) {
	d.Moved = slices.DeleteFunc(d.Moved, func(m cluster.Move) bool { return !exists(m.Section) })
	for i := range d.Changed {
		k := &d.Changed[i]
		k.Sections = slices.DeleteFunc(k.Sections, func(id uuid.UUID) bool { return !exists(id) })
		k.Tokens = 0
		for _, id := range k.Sections {
			k.Tokens += d.sections[id].Tokens
		}
	}
	d.Changed = slices.DeleteFunc(d.Changed, func(k cluster.Cluster) bool { return len(k.Sections) == 0 })
}
