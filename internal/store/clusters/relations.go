package clusters

// This file finds the relations of sections: by links in both directions, by the order in their
// document, by their folder, and, for documents that have no links and do not fill a cluster, by
// their vectors.

import (
	"context"
	"fmt"
	"slices"
	"unicode"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/cluster"
)

// The statements look up row by row, in the order in which they are written: a subquery with a
// limit or an offset cannot be joined in another order. Otherwise the planner, under row level
// security, started with all of a tenant's sections or documents, with statistics or without, and
// compared them with each key.
const (
	externalIDsSQL = `
SELECT k.id, d.external_id FROM unnest($2::uuid[]) AS k(id)
CROSS JOIN LATERAL (SELECT v.document_id FROM versions v WHERE v.tenant_id = $1 AND v.id = k.id LIMIT 1) v
CROSS JOIN LATERAL (SELECT d.external_id FROM documents d WHERE d.tenant_id = $1 AND d.id = v.document_id LIMIT 1) d`
	linksOutSQL = `SELECT version_id, section, target FROM links WHERE tenant_id = $1 AND version_id = ANY ($2)`
	// The documents that links may mean, with their first sections.
	linkedSQL = `
SELECT d.external_id, s.id FROM (
    SELECT d.external_id, d.live_version_id FROM documents d
    WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.external_id = ANY ($3) AND d.deleted_at IS NULL OFFSET 0) d
CROSS JOIN LATERAL (
    SELECT s.id FROM sections s WHERE s.tenant_id = $1 AND s.version_id = d.live_version_id AND s.ordinal = 0 LIMIT 1) s`
	// The links that may mean one of the documents, with their sections. Links of a whole document
	// are in its first section.
	linksInSQL = `
SELECT k.key, d.external_id, l.section, l.target, s.id
FROM unnest($3::bigint[]) AS k(key)
CROSS JOIN LATERAL (
    SELECT l.version_id, l.section, l.target FROM links l
    WHERE l.tenant_id = $1 AND l.key = k.key AND l.collection_id = $2 LIMIT $4) l
CROSS JOIN LATERAL (SELECT v.document_id FROM versions v WHERE v.tenant_id = $1 AND v.id = l.version_id LIMIT 1) v
CROSS JOIN LATERAL (
    SELECT d.external_id FROM documents d WHERE d.tenant_id = $1 AND d.id = v.document_id AND d.live_version_id = l.version_id LIMIT 1) d
CROSS JOIN LATERAL (
    SELECT s.id FROM sections s
    WHERE s.tenant_id = $1 AND s.version_id = l.version_id AND s.ordinal = greatest(l.section, 0) LIMIT 1) s`

	// The next documents before and after each document in the order of names that are in its
	// folder. Those of subfolders may come between; all sort before folder_end. It runs without
	// sorts, so that the planner must use the index that has the order, and reads no further than
	// the first. The bounds are parameters, because under row level security a computed bound
	// cannot be used for an index.
	neighboursSQL = `
SELECT n.external_id, b.external_id, b.id
FROM unnest($3::text[], $4::text[], $5::text[]) AS n(external_id, folder, folder_end)
CROSS JOIN LATERAL (
    (SELECT d.external_id, s.id FROM (
         SELECT d.external_id, d.live_version_id FROM documents d
         WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL AND d.external_id COLLATE "C" < n.external_id COLLATE "C"
           AND d.external_id COLLATE "C" >= n.folder COLLATE "C"
         ORDER BY d.external_id COLLATE "C" DESC LIMIT $6) d
     CROSS JOIN LATERAL (
         SELECT s.id FROM sections s WHERE s.tenant_id = $1 AND s.version_id = d.live_version_id AND s.ordinal = 0 LIMIT 1) s
     WHERE ` + folderOfSQL + ` = n.folder ORDER BY d.external_id COLLATE "C" DESC LIMIT 1)
    UNION ALL
    (SELECT d.external_id, s.id FROM (
         SELECT d.external_id, d.live_version_id FROM documents d
         WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL AND d.external_id COLLATE "C" > n.external_id COLLATE "C"
           AND d.external_id COLLATE "C" <= n.folder_end COLLATE "C"
         ORDER BY d.external_id COLLATE "C" LIMIT $6) d
     CROSS JOIN LATERAL (
         SELECT s.id FROM sections s WHERE s.tenant_id = $1 AND s.version_id = d.live_version_id AND s.ordinal = 0 LIMIT 1) s
     WHERE ` + folderOfSQL + ` = n.folder ORDER BY d.external_id COLLATE "C" LIMIT 1)) b`
	// What cluster.FolderOf returns for d.external_id.
	folderOfSQL = `regexp_replace(coalesce(substring(split_part(d.external_id, '?', 1) FROM '^(.*/)[^/]*$'), ''), '^.*://$', '')`
	sortsSQL    = `SELECT set_config('enable_sort', $1, true)`

	maxLinksIn    = 256 // links read per document
	maxNeighbours = 8   // documents read on either side to find one in the same folder
)

// relations finds the relations of sections, except those inside documents. It searches for nearest
// neighbours only of the sections in came.
func (c clustering) relations(ctx context.Context, seeds, came []cluster.PositionedMember) ([]cluster.Edge, error) {
	names, err := c.names(ctx, seeds)
	if err != nil {
		return nil, err
	}
	out, err := c.linksOut(ctx, seeds, names)
	if err != nil {
		return nil, err
	}
	in, err := c.linksIn(ctx, seeds, names)
	if err != nil {
		return nil, err
	}
	links := append(out, in...)
	folder, err := c.relateNeighbours(ctx, seeds, names)
	if err != nil {
		return nil, err
	}
	near, err := c.nearest(ctx, cluster.Unlinked(came, links, c.limit))
	if err != nil {
		return nil, err
	}
	return slices.Concat(links, folder, near), nil
}

// names reads the external ids of the sections' documents, by version.
func (c clustering) names(ctx context.Context, sections []cluster.PositionedMember) (map[uuid.UUID]string, error) {
	out := map[uuid.UUID]string{}
	for _, s := range sections {
		out[s.Version] = ""
	}
	versions := make([]uuid.UUID, 0, len(out))
	for v := range out {
		versions = append(versions, v)
	}
	rows, err := c.tx.Query(ctx, externalIDsSQL, c.tenant, versions)
	if err != nil {
		return nil, fmt.Errorf("read names of documents: %w", err)
	}
	var version uuid.UUID
	var name string
	if _, err := pgx.ForEachRow(rows, []any{&version, &name}, func() error {
		out[version] = name
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read names of documents: %w", err)
	}
	return out, nil
}

// linksOut finds the sections that sections link to.
func (c clustering) linksOut(ctx context.Context, sections []cluster.PositionedMember, names map[uuid.UUID]string) ([]cluster.Edge, error) {
	at := cluster.PositionsOf(sections)
	versions := make([]uuid.UUID, 0, len(names))
	for v := range names {
		versions = append(versions, v)
	}
	rows, err := c.tx.Query(ctx, linksOutSQL, c.tenant, versions)
	if err != nil {
		return nil, fmt.Errorf("read links: %w", err)
	}
	type link struct {
		from uuid.UUID
		to   []string
	}
	var links []link
	wanted := map[string]bool{}
	var version uuid.UUID
	var section int
	var target string
	_, err = pgx.ForEachRow(rows, []any{&version, &section, &target}, func() error {
		from, ok := at[cluster.Position{Version: version, Ordinal: max(section, 0)}]
		if !ok {
			return nil
		}
		l := link{from: from, to: cluster.TargetsIn(names[version], section, target)}
		for _, id := range l.to {
			wanted[id] = true
		}
		links = append(links, l)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read links: %w", err)
	}
	if len(links) == 0 {
		return nil, nil
	}
	list := make([]string, 0, len(wanted))
	for id := range wanted {
		list = append(list, id)
	}
	rows, err = c.tx.Query(ctx, linkedSQL, c.tenant, c.collection, list)
	if err != nil {
		return nil, fmt.Errorf("find linked documents: %w", err)
	}
	first := map[string]uuid.UUID{}
	var name string
	var id uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&name, &id}, func() error {
		first[name] = id
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find linked documents: %w", err)
	}
	var out []cluster.Edge
	for _, l := range links {
		out = append(out, cluster.Resolve(l.from, l.to, first)...)
	}
	return out, nil
}

// linksIn finds the sections that link to the documents whose first section is among sections.
func (c clustering) linksIn(ctx context.Context, sections []cluster.PositionedMember, names map[uuid.UUID]string) ([]cluster.Edge, error) {
	byKey := map[int64][]cluster.PositionedMember{}
	for _, s := range sections {
		if s.Ordinal == 0 {
			key := cluster.Key("", names[s.Version])
			byKey[key] = append(byKey[key], s)
		}
	}
	if len(byKey) == 0 {
		return nil, nil
	}
	keys := make([]int64, 0, len(byKey))
	for k := range byKey {
		keys = append(keys, k)
	}
	rows, err := c.tx.Query(ctx, linksInSQL, c.tenant, c.collection, keys, maxLinksIn)
	if err != nil {
		return nil, fmt.Errorf("find links to documents: %w", err)
	}
	var out []cluster.Edge
	var key int64
	var base, target string
	var section int
	var from uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&key, &base, &section, &target, &from}, func() error {
		to := cluster.TargetsIn(base, section, target)
		for _, s := range byKey[key] {
			if slices.Contains(to, names[s.Version]) {
				out = append(out, cluster.Edge{A: from, B: s.ID, Relation: cluster.Link})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find links to documents: %w", err)
	}
	return out, nil
}

// relateNeighbours relates the first sections of documents that follow each other in a folder. They
// form a chain, so that a folder of thousands is not a clique.
func (c clustering) relateNeighbours(ctx context.Context, sections []cluster.PositionedMember, names map[uuid.UUID]string) ([]cluster.Edge, error) {
	first := map[string]uuid.UUID{}
	var list, folders, ends []string
	for _, s := range sections {
		if s.Ordinal == 0 {
			name := names[s.Version]
			if _, known := first[name]; known {
				continue
			}
			first[name] = s.ID
			folder := cluster.FolderOf(name)
			list, folders, ends = append(list, name), append(folders, folder), append(ends, folder+string(unicode.MaxRune))
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	if _, err := c.tx.Exec(ctx, sortsSQL, "off"); err != nil {
		return nil, fmt.Errorf("find documents of a folder: %w", err)
	}
	rows, err := c.tx.Query(ctx, neighboursSQL, c.tenant, c.collection, list, folders, ends, maxNeighbours)
	if err != nil {
		return nil, fmt.Errorf("find documents of a folder: %w", err)
	}
	var out []cluster.Edge
	var name string
	var id uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&name, nil, &id}, func() error {
		out = append(out, cluster.Edge{A: first[name], B: id, Relation: cluster.Folder})
		return nil
	})
	if err == nil {
		_, err = c.tx.Exec(ctx, sortsSQL, "on")
	}
	if err != nil {
		return nil, fmt.Errorf("find documents of a folder: %w", err)
	}
	return out, nil
}
