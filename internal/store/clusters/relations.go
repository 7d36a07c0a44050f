package clusters

// This file finds what sections are related to: by links in both directions, by
// the order in their document, by their folder, and, where a document has no
// links and does not fill a cluster by itself, by their vectors.

import (
	"context"
	"fmt"
	"slices"
	"unicode"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/cluster"
)

// The statements look up row by row, in the order in which they are written: a
// subquery with a limit or an offset is not joined the other way round. Under row level
// security the planner else began with all of a tenant's sections or documents,
// with statistics or without, and went through the keys for each of them.
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
	// The links that may mean one of some documents, with the sections that they
	// are in; those of a whole document are in its first.
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

	// The documents before and after one in the order of names, of its folder and
	// of those in it, which end before a name that no document has. It is run without
	// sorts: what is left is the index that has the order. The names are given, as a
	// condition that computes one is no bound for an index under row level security.
	besideSQL = `
SELECT n.external_id, b.external_id, s.id
FROM unnest($3::text[], $4::text[], $5::text[]) AS n(external_id, folder, folder_end)
CROSS JOIN LATERAL (
    (SELECT d.external_id, d.live_version_id FROM documents d
     WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL AND d.external_id COLLATE "C" < n.external_id COLLATE "C"
       AND d.external_id COLLATE "C" >= n.folder COLLATE "C"
     ORDER BY d.external_id COLLATE "C" DESC LIMIT $6)
    UNION ALL
    (SELECT d.external_id, d.live_version_id FROM documents d
     WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL AND d.external_id COLLATE "C" > n.external_id COLLATE "C"
       AND d.external_id COLLATE "C" <= n.folder_end COLLATE "C"
     ORDER BY d.external_id COLLATE "C" LIMIT $6)) b
CROSS JOIN LATERAL (
    SELECT s.id FROM sections s WHERE s.tenant_id = $1 AND s.version_id = b.live_version_id AND s.ordinal = 0 LIMIT 1) s`
	sortsSQL = `SELECT set_config('enable_sort', $1, true)`

	maxLinksIn = 256 // to a document
	maxBeside  = 8   // documents looked at on either side for one in the same folder
)

// relations finds the relations of sections, but for those inside documents.
// Nearest neighbours are looked for from the sections in came alone.
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

// linksOut finds what sections link to.
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

// linksIn finds what links to documents that have their first section here.
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

// relateNeighbours relates the first sections of documents that follow each other in a
// folder: a chain, so that a folder of thousands is not a clique.
func (c clustering) relateNeighbours(ctx context.Context, sections []cluster.PositionedMember, names map[uuid.UUID]string) ([]cluster.Edge, error) {
	first := map[string]uuid.UUID{}
	var list, folders, ends []string
	for _, s := range sections {
		if s.Ordinal == 0 {
			name := names[s.Version]
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
	rows, err := c.tx.Query(ctx, besideSQL, c.tenant, c.collection, list, folders, ends, maxBeside)
	if err != nil {
		return nil, fmt.Errorf("find documents of a folder: %w", err)
	}
	type side struct {
		of    string
		after bool
	}
	nearest := map[side]string{}
	at := map[string]uuid.UUID{}
	var name, other string
	var id uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&name, &other, &id}, func() error {
		if cluster.FolderOf(name) != cluster.FolderOf(other) {
			return nil
		}
		k := side{name, other > name}
		if have, ok := nearest[k]; !ok || k.after == (other < have) {
			nearest[k] = other
		}
		at[other] = id
		return nil
	})
	if err == nil {
		_, err = c.tx.Exec(ctx, sortsSQL, "on")
	}
	if err != nil {
		return nil, fmt.Errorf("find documents of a folder: %w", err)
	}
	var out []cluster.Edge
	for k, other := range nearest {
		out = append(out, cluster.Edge{A: first[k.of], B: at[other], Relation: cluster.Folder})
	}
	return out, nil
}
