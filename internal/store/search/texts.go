// Package search reads what plans need: pages of the lexical index, vectors, texts, links, members
// of clusters, and what is known of earlier questions.
package search

// This file reads the texts and places of what retrieval found, in their current state: a version
// that is no longer live, or that the principal may not see, is left out.

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// SearchStore reads what plans need. It implements retrieval.Texts, retrieval.Links,
// retrieval.History, retrieval.NearDuplicates, retrieval.Vectors and lexicalsearch.Storage.
type SearchStore struct {
	db      *store.Store
	replica *store.Replica // nil: there is none
}

// New returns a SearchStore of a database.
func New(db *store.Store) *SearchStore { return &SearchStore{db: db} }

// OnReplica returns a SearchStore that reads from a replica of the database; nil: none.
func (s *SearchStore) OnReplica(from *store.Replica) *SearchStore { return &SearchStore{s.db, from} }

// ask runs statements about one collection, on the replica if there is one.
func (s *SearchStore) ask(ctx context.Context, tenant, collection uuid.UUID, queue func(b *pgx.Batch)) error {
	if s.replica != nil {
		return s.replica.AskTenantAll(ctx, tenant, collection, queue)
	}
	return s.db.AskTenantAll(ctx, tenant, queue)
}

// read reads about one collection, from the replica if there is one. It uses one snapshot.
func (s *SearchStore) read(ctx context.Context, tenant, collection uuid.UUID, fn func(ctx context.Context, tx pgx.Tx) error) error {
	if s.replica != nil {
		return s.replica.ReadTenant(ctx, tenant, collection, fn)
	}
	return s.db.ReadTenant(ctx, tenant, fn)
}

var _ retrieval.Texts = (*SearchStore)(nil)

// maxUnindexed is the most versions that CollectionState counts as not indexed.
const maxUnindexed = 1000

// Except after an upgrade or during a bulk load, few versions are not indexed yet; the limit bounds
// what counting them costs each query.
var placeSQL = `
SELECT c.language, c.generation, ` + revisionSQL + `, coalesce(s.name, ''), c.encoder = 'second', c.segmentation,
    EXISTS (SELECT FROM document_signatures g WHERE g.tenant_id = $1 AND g.collection_id = c.id AND g.paired), (SELECT count(*) FROM (
    SELECT v.id, v.document_id FROM versions v WHERE v.collection_id = c.id AND v.tenant_id = $1 AND NOT v.curated AND v.state = 'ready'
    LIMIT $4) AS recent
    WHERE NOT EXISTS (SELECT FROM lexical_entries e WHERE e.version_id = recent.id AND e.generation = c.generation AND NOT e.dead)
      AND EXISTS (SELECT FROM documents d WHERE d.tenant_id = $1 AND d.id = recent.document_id AND d.live_version_id = recent.id AND d.deleted_at IS NULL)
      AND ` + fmt.Sprintf(store.VisibleSQL, "recent.id", "$3") + `)
FROM collections c LEFT JOIN spaces s ON s.id = c.space_id WHERE c.tenant_id = $1 AND c.id = $2 AND c.deleted_at IS NULL`

// revisionSQL is the revision of everything that a search reads of collection $2.
const revisionSQL = `(SELECT coalesce(sum(revision), 0)::bigint FROM lexical_revisions WHERE tenant_id = $1 AND collection_id = $2)`

// CollectionState implements retrieval.Texts. It counts at most 1,000 versions that are not
// indexed.
func (s *SearchStore) CollectionState(ctx context.Context, p schema.Principal, collection uuid.UUID) (retrieval.CollectionState, error) {
	var out retrieval.CollectionState
	err := s.db.AskTenantAll(ctx, p.Tenant, func(b *pgx.Batch) {
		b.Queue(placeSQL, p.Tenant, collection, store.GroupsOf(p), maxUnindexed).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&out.Language, &out.Generation, &out.Revision, &out.Space, &out.Second, &out.Segmentation, &out.Paired, &out.Unindexed)
			if errors.Is(err, pgx.ErrNoRows) {
				return schema.ErrNotFound
			}
			return err
		})
	})
	return out, store.Wrap(err, "read collection %s", collection)
}

// liveSQL selects those of the versions in $4 that are live and visible. It looks each up by its
// id, whatever the statistics are, so that no plan reads all versions of the collection or all
// labels of the tenant.
const liveSQL = liveColumnsSQL + `unnest($4::uuid[]) AS asked (id)` + isLiveOfSQL

// The parts of liveSQL before and after the rows whose ids are looked up.
const (
	liveColumnsSQL = `
SELECT v.id AS version_id, d.id AS document_id, d.external_id, v.title
FROM (SELECT DISTINCT id FROM `
	isLiveOfSQL = `) asked
CROSS JOIN LATERAL (SELECT * FROM versions WHERE tenant_id = $1 AND id = asked.id AND (collection_id = $2) IS TRUE LIMIT 1) v
CROSS JOIN LATERAL (SELECT * FROM documents WHERE tenant_id = $1 AND id = v.document_id AND (live_version_id = v.id AND deleted_at IS NULL) IS TRUE LIMIT 1) d
WHERE NOT EXISTS (SELECT FROM version_labels l WHERE l.tenant_id = $1 AND l.version_id = v.id OFFSET 0)
   OR EXISTS (SELECT FROM version_labels l WHERE l.tenant_id = $1 AND l.version_id = v.id AND l.label = ANY($3::text[]) OFFSET 0)`
)

// ExternalIDs implements retrieval.Texts.
func (s *SearchStore) ExternalIDs(ctx context.Context, p schema.Principal, collection uuid.UUID, versions []uuid.UUID) (map[uuid.UUID]string, error) {
	found, err := collect(ctx, s, p, collection, `SELECT version_id, external_id FROM (`+liveSQL+`) live`, []any{p.Tenant, collection, store.GroupsOf(p), versions},
		func(row pgx.CollectableRow) (x pair[uuid.UUID, string], err error) {
			err = row.Scan(&x.key, &x.value)
			return x, err
		})
	return byKey(found), store.Wrap(err, "name the documents of collection %s", collection)
}

// refColumns are refs as columns, and their different versions.
type refColumns struct {
	versions           []uuid.UUID
	sections, passages []int
}

func columns(refs []lexical.Ref) refColumns {
	out := refColumns{versions: make([]uuid.UUID, len(refs)), sections: make([]int, len(refs)), passages: make([]int, len(refs))}
	for i, r := range refs {
		out.versions[i], out.sections[i], out.passages[i] = r.Version, r.Section, r.Passage
	}
	return out
}

// args returns the parameters of liveSQL and, from $5 on, the refs' ordinals and the generation.
func (c refColumns) args(p schema.Principal, collection uuid.UUID, generation int) []any {
	return []any{p.Tenant, collection, store.GroupsOf(p), c.versions, c.sections, c.passages, generation}
}

const liveGenerationSQL = `SELECT generation, ` + revisionSQL + ` FROM collections WHERE tenant_id = $1 AND id = $2`

// A ref of a section or of a whole version means its first passage.
var textsSQL = `
WITH live AS MATERIALIZED (` + liveSQL + `)
SELECT a.version_id, a.section, a.passage, l.document_id, l.external_id, l.title,
       p.id, p.ordinal, p.start_byte, p.end_byte, p.tokens,
       s.id, s.ordinal, s.heading_path, s.body, s.tokens, s.page_starts, s.page_numbers
FROM unnest($4::uuid[], $5::int[], $6::int[]) AS a(version_id, section, passage)
JOIN live l ON l.version_id = a.version_id
CROSS JOIN LATERAL (
    SELECT * FROM sections WHERE tenant_id = $1 AND version_id = a.version_id AND ordinal = greatest(a.section, 0) LIMIT 1) s
CROSS JOIN LATERAL (
    SELECT * FROM passages WHERE tenant_id = $1 AND section_id = s.id AND generation = $7 AND ordinal = greatest(a.passage, 0) LIMIT 1) p`

// Texts implements retrieval.Texts.
func (s *SearchStore) Texts(ctx context.Context, p schema.Principal, collection uuid.UUID, at retrieval.At, refs []lexical.Ref) (map[lexical.Ref]retrieval.Text, error) {
	found, err := collectOf(ctx, s, p, collection, at, textsSQL, columns(refs).args(p, collection, at.Generation), func(row pgx.CollectableRow) (x pair[lexical.Ref, retrieval.Text], err error) {
		ref, t := &x.key, &x.value
		var starts, pages []int
		err = row.Scan(&ref.Version, &ref.Section, &ref.Passage, &t.Document, &t.ExternalID, &t.Title,
			&t.Passage.ID, &t.Passage.Ordinal, &t.Passage.Start, &t.Passage.End, &t.Passage.Tokens,
			&t.Section.ID, &t.Section.Ordinal, &t.Section.HeadingPath, &t.Section.Text, &t.Section.Tokens, &starts, &pages)
		t.Passage.SectionID, t.Section.Pages = t.Section.ID, store.PageMarks(starts, pages)
		return x, err
	})
	return byKey(found), store.Wrap(err, "load passages of collection %s", collection)
}

var sectionRefsSQL = `
WITH live AS MATERIALIZED (` + liveSQL + `)
SELECT s.version_id, s.ordinal, -1 FROM live l
CROSS JOIN LATERAL (SELECT version_id, ordinal FROM sections WHERE tenant_id = $1 AND version_id = l.version_id OFFSET 0) s
ORDER BY 1, 2`

// SectionRefs implements retrieval.Texts.
func (s *SearchStore) SectionRefs(ctx context.Context, p schema.Principal, collection uuid.UUID, versions []uuid.UUID) ([]lexical.Ref, error) {
	out, err := collect(ctx, s, p, collection, sectionRefsSQL, []any{p.Tenant, collection, store.GroupsOf(p), versions}, scanRef)
	return out, store.Wrap(err, "list sections of collection %s", collection)
}

var passageRefsSQL = `
WITH live AS MATERIALIZED (` + liveSQL + `)
SELECT DISTINCT s.version_id, s.ordinal, p.ordinal
FROM unnest($4::uuid[], $5::int[], $6::int[]) AS a(version_id, section, passage)
JOIN live l ON l.version_id = a.version_id
CROSS JOIN LATERAL (
    SELECT id, version_id, ordinal FROM sections
    WHERE tenant_id = $1 AND version_id = a.version_id AND (ordinal = a.section OR a.section < 0) OFFSET 0) s
CROSS JOIN LATERAL (
    SELECT ordinal FROM passages
    WHERE tenant_id = $1 AND section_id = s.id AND generation = $7 AND (ordinal = a.passage OR a.passage < 0) OFFSET 0) p
ORDER BY 1, 2, 3`

// PassageRefs implements retrieval.Texts.
func (s *SearchStore) PassageRefs(ctx context.Context, p schema.Principal, collection uuid.UUID, at retrieval.At, places []lexical.Ref) ([]lexical.Ref, error) {
	out, err := collectOf(ctx, s, p, collection, at, passageRefsSQL, columns(places).args(p, collection, at.Generation), scanRef)
	return out, store.Wrap(err, "list passages of collection %s", collection)
}

var membersSQL = `
SELECT m.cluster_id, m.version_id, m.section FROM cluster_members m
CROSS JOIN LATERAL (SELECT id, document_id FROM versions WHERE tenant_id = $1 AND id = m.version_id LIMIT 1) v
CROSS JOIN LATERAL (
    SELECT FROM documents WHERE tenant_id = $1 AND id = v.document_id AND (live_version_id = v.id AND deleted_at IS NULL) IS TRUE LIMIT 1) d
WHERE m.tenant_id = $1 AND m.collection_id = $2 AND m.cluster_id = ANY($4::uuid[]) AND m.generation = $5
  AND ` + fmt.Sprintf(store.VisibleSQL, "m.version_id", "$3") + `
ORDER BY 1, 2, 3`

// Members implements retrieval.Texts.
func (s *SearchStore) Members(ctx context.Context, p schema.Principal, collection uuid.UUID, at retrieval.At, clusters []uuid.UUID) (map[uuid.UUID][]lexical.Ref, error) {
	out := map[uuid.UUID][]lexical.Ref{}
	found, err := collectOf(ctx, s, p, collection, at, membersSQL, []any{p.Tenant, collection, store.GroupsOf(p), clusters, at.Generation}, func(row pgx.CollectableRow) (x pair[uuid.UUID, lexical.Ref], err error) {
		x.value.Passage = -1
		err = row.Scan(&x.key, &x.value.Version, &x.value.Section)
		return x, err
	})
	for _, x := range found {
		out[x.key] = append(out[x.key], x.value)
	}
	return out, store.Wrap(err, "list clusters of collection %s", collection)
}

// A cluster's id says nothing about text, so this statement does not check what the principal may
// see.
const clustersOfSQL = `
SELECT m.version_id, m.section, m.cluster_id
FROM unnest($3::uuid[], $4::int[]) AS a(version_id, section)
CROSS JOIN LATERAL (
    SELECT version_id, section, cluster_id FROM cluster_members
    WHERE tenant_id = $1 AND version_id = a.version_id AND section = a.section
      AND (collection_id = $2 AND generation = $5) IS TRUE OFFSET 0) m`

// ClustersOf implements retrieval.Texts.
func (s *SearchStore) ClustersOf(ctx context.Context, p schema.Principal, collection uuid.UUID, at retrieval.At, sections []lexical.Ref) (map[lexical.Ref]uuid.UUID, error) {
	c := columns(sections)
	found, err := collectOf(ctx, s, p, collection, at, clustersOfSQL, []any{p.Tenant, collection, c.versions, c.sections, at.Generation}, func(row pgx.CollectableRow) (x pair[lexical.Ref, uuid.UUID], err error) {
		x.key.Passage = -1
		err = row.Scan(&x.key.Version, &x.key.Section, &x.value)
		return x, err
	})
	return byKey(found), store.Wrap(err, "find clusters of collection %s", collection)
}

const vectorsOfSQL = `
WITH live AS MATERIALIZED (%[1]s)
SELECT a.version_id, a.section, a.passage, v.embedding::vector(%[2]d)
FROM unnest($4::uuid[], $5::int[], $6::int[]) AS a(version_id, section, passage)
JOIN live l ON l.version_id = a.version_id
CROSS JOIN LATERAL (SELECT id FROM sections WHERE tenant_id = $1 AND version_id = a.version_id AND ordinal = a.section LIMIT 1) s
CROSS JOIN LATERAL (
    SELECT id FROM passages WHERE tenant_id = $1 AND section_id = s.id AND generation = $7 AND ordinal = a.passage LIMIT 1) p
CROSS JOIN LATERAL (
    SELECT embedding FROM %[3]s
    WHERE tenant_id = $1 AND passage_id = p.id AND shard = ANY ($9::uuid[]) AND (collection_id = $2 AND space_id = $8) IS TRUE OFFSET 0) v`

// VectorsOf implements retrieval.Vectors.
func (s *SearchStore) VectorsOf(ctx context.Context, q dense.PassagesQuery) (map[lexical.Ref][]float32, error) {
	tenant, collection := q.Principal.Tenant, q.Collection
	var out map[lexical.Ref][]float32
	err := s.read(ctx, tenant, collection, func(ctx context.Context, tx pgx.Tx) error {
		out = map[lexical.Ref][]float32{}
		place, _, err := locateVectors(ctx, tx, tenant, collection)
		if err != nil || place == nil {
			return err
		}
		if place.generation != q.Generation {
			return &retrieval.GenerationError{Collection: collection, Asked: q.Generation, Live: place.generation}
		}
		rows, err := tx.Query(ctx, fmt.Sprintf(vectorsOfSQL, liveSQL, place.dimension, store.VectorTable(place.dimension)),
			append(columns(q.Passages).args(q.Principal, collection, q.Generation), place.spaceID, place.shards())...)
		if err != nil {
			return err
		}
		var ref lexical.Ref
		var v pgvector.Vector
		_, err = pgx.ForEachRow(rows, []any{&ref.Version, &ref.Section, &ref.Passage, &v}, func() error {
			out[ref] = v.Slice()
			v = pgvector.Vector{}
			return nil
		})
		return err
	})
	return out, store.Wrap(err, "load vectors of collection %s", collection)
}

func scanRef(row pgx.CollectableRow) (ref lexical.Ref, err error) {
	err = row.Scan(&ref.Version, &ref.Section, &ref.Passage)
	return ref, err
}

// collect runs a query about a collection as the tenant.
func collect[T any](ctx context.Context, s *SearchStore, p schema.Principal, collection uuid.UUID, sql string, args []any, scan pgx.RowToFunc[T]) (out []T, err error) {
	err = s.ask(ctx, p.Tenant, collection, func(b *pgx.Batch) {
		b.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
			out, err = pgx.CollectRows(rows, scan)
			return err
		})
	})
	return out, err
}

// collectOf is collect for rows that belong to a generation. It checks after the query that the
// collection is still in the state at, so that the query saw all of it.
func collectOf[T any](ctx context.Context, s *SearchStore, p schema.Principal, collection uuid.UUID, at retrieval.At,
	sql string, args []any, scan pgx.RowToFunc[T]) (out []T, err error) {
	var live retrieval.At
	err = s.ask(ctx, p.Tenant, collection, func(b *pgx.Batch) {
		b.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
			out, err = pgx.CollectRows(rows, scan)
			return err
		})
		b.Queue(liveGenerationSQL, p.Tenant, collection).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&live.Generation, &live.Revision)
			if errors.Is(err, pgx.ErrNoRows) {
				return schema.ErrNotFound
			}
			return err
		})
	})
	switch {
	case err != nil:
		return nil, err
	case live.Generation != at.Generation:
		return nil, &retrieval.GenerationError{Collection: collection, Asked: at.Generation, Live: live.Generation}
	case at.Revision != 0 && live.Revision != at.Revision:
		return nil, &retrieval.ChangedError{Collection: collection}
	}
	return out, nil
}

// pair is a key and its value in a row.
type pair[K comparable, V any] struct {
	key   K
	value V
}

func byKey[K comparable, V any](pairs []pair[K, V]) map[K]V {
	out := make(map[K]V, len(pairs))
	for _, p := range pairs {
		out[p.key] = p.value
	}
	return out
}
