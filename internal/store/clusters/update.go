package clusters

// This file reads what an update of clusters needs: the new sections, the clusters that lost
// sections, and everything related to these.

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/cluster"
	"github.com/sluice-rag/sluice/internal/store"
)

const (
	// Sections that an earlier call has placed are left out.
	newSectionsSQL = `
SELECT s.id, s.version_id, s.ordinal, s.tokens FROM unnest($2::uuid[]) AS k(id)
CROSS JOIN LATERAL (
    SELECT s.id, s.version_id, s.ordinal, s.tokens FROM sections s WHERE s.tenant_id = $1 AND s.version_id = k.id OFFSET 0) s
WHERE NOT EXISTS (
    SELECT FROM cluster_members m WHERE m.tenant_id = $1 AND m.section_id = s.id AND m.generation = $3 OFFSET 0)
ORDER BY s.version_id, s.ordinal`
	clustersOfVersionsSQL = `
SELECT DISTINCT cluster_id FROM cluster_members WHERE tenant_id = $1 AND generation = $2 AND version_id = ANY ($3)`
	clustersOfSectionsSQL = `
SELECT DISTINCT cluster_id FROM cluster_members WHERE tenant_id = $1 AND generation = $2 AND section_id = ANY ($3)`
	clusterMembersSQL = `
SELECT section_id, version_id, section, tokens, cluster_id FROM cluster_members WHERE tenant_id = $1 AND cluster_id = ANY ($2)`
)

// update computes the changes of the clusters.
func (c clustering) update(ctx context.Context, changed curated) (clusterDiff, error) {
	out := clusterDiff{sections: map[uuid.UUID]cluster.PositionedMember{}}
	came, err := c.newSections(ctx, changed.added)
	if err != nil {
		return out, err
	}
	out.added = len(came) // before adding those that are members already and are placed again
	moved := slices.Collect(maps.Keys(changed.relinked))
	shrunk, err := store.IDs(c.tx.Query(ctx, clustersOfVersionsSQL, c.tenant, c.generation, slices.Concat(changed.left, moved)))
	if err != nil {
		return out, fmt.Errorf("find clusters that lose sections: %w", err)
	}
	if err := c.members(ctx, shrunk, out.sections); err != nil {
		return out, err
	}
	leaves := map[uuid.UUID]bool{}
	for _, v := range changed.left {
		leaves[v] = true
	}
	var removed []uuid.UUID
	var seeds []cluster.PositionedMember
	var sections []cluster.Member
	for _, s := range out.sections {
		_, again := changed.relinked[s.Version]
		switch {
		case leaves[s.Version]:
			removed = append(removed, s.ID)
		case again:
			// It is removed from its cluster, where a section without an id stands for it, and is
			// placed again.
			sections = append(sections, cluster.Member{ID: uuid.Nil, Tokens: s.Tokens, Cluster: s.Cluster})
			s.Cluster = uuid.Nil
			came = append(came, s)
		default:
			seeds = append(seeds, s)
		}
	}
	seeds = append(seeds, came...)
	if len(sections) > 0 {
		removed = append(removed, uuid.Nil)
	}
	for _, s := range came {
		out.sections[s.ID] = s
	}
	if len(seeds)+len(removed) == 0 {
		return out, nil
	}
	edges, err := c.relations(ctx, seeds, came)
	if err != nil {
		return out, err
	}
	if err := c.related(ctx, edges, out.sections); err != nil {
		return out, err
	}
	for _, s := range out.sections {
		sections = append(sections, s.Member)
	}
	edges = append(edges, cluster.NeighbourEdges(cluster.PositionsOf(slices.Collect(maps.Values(out.sections))))...)
	out.Diff = cluster.Update(sections, edges, removed, c.options())
	out.changed = len(came) + len(removed)
	return out, nil
}

// newSections reads the sections of versions that are in no cluster yet.
func (c clustering) newSections(ctx context.Context, versions []uuid.UUID) ([]cluster.PositionedMember, error) {
	rows, err := c.tx.Query(ctx, newSectionsSQL, c.tenant, versions, c.generation)
	if err != nil {
		return nil, fmt.Errorf("read new sections: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s cluster.PositionedMember, err error) {
		err = row.Scan(&s.ID, &s.Version, &s.Ordinal, &s.Tokens)
		s.Tokens = max(s.Tokens, 1)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("read new sections: %w", err)
	}
	return out, nil
}

// members adds all sections of clusters to a map.
func (c clustering) members(ctx context.Context, clusters []uuid.UUID, to map[uuid.UUID]cluster.PositionedMember) error {
	if len(clusters) == 0 {
		return nil
	}
	rows, err := c.tx.Query(ctx, clusterMembersSQL, c.tenant, clusters)
	if err != nil {
		return fmt.Errorf("read members: %w", err)
	}
	var s cluster.PositionedMember
	_, err = pgx.ForEachRow(rows, []any{&s.ID, &s.Version, &s.Ordinal, &s.Tokens, &s.Cluster}, func() error {
		to[s.ID] = s
		return nil
	})
	return store.Wrap(err, "read members")
}

// related adds to a map the sections of all clusters at the ends of edges.
func (c clustering) related(ctx context.Context, edges []cluster.Edge, to map[uuid.UUID]cluster.PositionedMember) error {
	var unknown []uuid.UUID
	for _, e := range edges {
		for _, end := range []uuid.UUID{e.A, e.B} {
			if _, ok := to[end]; !ok {
				unknown = append(unknown, end)
			}
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	clusters, err := store.IDs(c.tx.Query(ctx, clustersOfSectionsSQL, c.tenant, c.generation, unknown))
	if err != nil {
		return fmt.Errorf("find clusters of related sections: %w", err)
	}
	return c.members(ctx, clusters, to)
}
