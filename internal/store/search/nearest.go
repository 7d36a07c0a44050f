package search

// This file searches vectors. A collection's vectors are in the shared partition, which is searched
// exactly, and, where curation has moved them (corpus/shards.go), in partitions of the collection,
// each with an HNSW index or none yet. All statements of a search use one snapshot, so a vector
// that is moved meanwhile is found once.
//
// A search uses one of four methods:
//
//	within        the asker named places: exactly the vectors of those
//	versions      a filter leaves few versions: exactly the vectors of those
//	approximate   graphs are there: from each, and exactly what is in none
//	scan          no graph, or the graphs gave too few: exactly all vectors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// A filter that matches at most fewVersions versions, with at most fewPassages passages, is
	// answered by comparing these exactly.
	fewVersions = 1000
	fewPassages = 20_000
)

// vectorLocation is where a collection's vectors are.
type vectorLocation struct {
	spaceID, dimension, generation int
	graphs                         []graph
	bare                           []uuid.UUID // shards without a graph, besides the shared one
}

// graph is a shard with an HNSW index.
type graph struct {
	shard   uuid.UUID
	indexed int64 // approximate number of vectors in the graph
}

// shardsSQL selects the shards of generation h that searches use; it excludes those that are being
// built to replace others.
const shardsSQL = `FROM vector_shards h WHERE h.tenant_id = $1 AND h.collection_id = c.id AND h.generation = c.generation
     AND h.dimension = s.dimension AND h.retired_at IS NULL AND h.replaces = '{}' AND h.indexed IS `

const vectorPlaceSQL = `
SELECT c.space_id, coalesce(s.name, ''), coalesce(s.dimension, 0), c.generation,
       ARRAY(SELECT h.id ` + shardsSQL + `NOT NULL ORDER BY h.created_at, h.id), ARRAY(SELECT h.indexed ` + shardsSQL + `NOT NULL ORDER BY h.created_at, h.id),
       ARRAY(SELECT h.id ` + shardsSQL + `NULL)
FROM collections c
LEFT JOIN spaces s ON s.id = c.space_id
WHERE c.tenant_id = $1 AND c.id = $2 AND c.deleted_at IS NULL`

// liveVersionsSQL selects the versions that are live, visible to the groups in $3 and matched by
// the filter's conditions, which follow it.
const liveVersionsSQL = `
    SELECT d.live_version_id FROM documents d
    WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL AND d.live_version_id IS NOT NULL
      AND `

// isLiveSQL checks the same for one version %[1]s, by lookups. Comparing a value with IS TRUE keeps
// it a check per row; a join in its place would read all of the collection's documents.
const isLiveSQL = `(SELECT true FROM versions r
        JOIN documents d ON d.tenant_id = $1 AND d.id = r.document_id AND d.live_version_id = r.id AND d.deleted_at IS NULL
        WHERE r.tenant_id = $1 AND r.id = %[1]s AND %[2]s%[3]s) IS TRUE`

// foundSQL ends the statement of every method but within: it adds the places in the text to what
// was found. $6 is the number of hits; the other parts use it to limit "nearest".
const foundSQL = `
SELECT n.passage_id, n.version_id, s.ordinal, p.ordinal, n.similarity, %s
FROM nearest n
CROSS JOIN LATERAL (SELECT ordinal, section_id FROM passages WHERE tenant_id = $1 AND id = n.passage_id LIMIT 1) p
CROSS JOIN LATERAL (SELECT ordinal FROM sections WHERE tenant_id = $1 AND id = p.section_id LIMIT 1) s
ORDER BY n.similarity DESC, n.passage_id`

// similaritySQL is the inner product. Sorting by it, and not by the operator that an HNSW index
// supports, makes a search exact.
const similaritySQL = `-(v.embedding <#> $5::halfvec(%[1]d))`

// search is the statement of one of the methods while it is built.
type search struct {
	dense.NearestQuery
	vectorLocation
	args []any
}

// Nearest implements retrieval.Vectors. It returns the q.K passages nearest to q.Vector, best first
// and ties by passage id, among those that are live, visible to the principal, matched by the
// filter and inside q.Within. It returns fewer only if there are no more.
func (s *SearchStore) Nearest(ctx context.Context, q dense.NearestQuery) ([]dense.Hit, error) {
	var found []dense.Hit
	err := s.read(ctx, q.Principal.Tenant, q.Collection, func(ctx context.Context, tx pgx.Tx) error {
		found = nil
		place, name, err := locateVectors(ctx, tx, q.Principal.Tenant, q.Collection)
		if err != nil || place == nil || q.K <= 0 {
			return err
		}
		if q.Generation != 0 && q.Generation != place.generation {
			return &retrieval.GenerationError{Collection: q.Collection, Asked: q.Generation, Live: place.generation}
		}
		if name != q.Space || place.dimension != len(q.Vector) {
			return &retrieval.SpaceError{Collection: q.Collection, Stored: name, Served: q.Space}
		}
		found, err = (&search{NearestQuery: q, vectorLocation: *place}).run(ctx, tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	return found, nil
}

// locateVectors returns where a collection's vectors are and the name of their space; nil if it has
// none yet.
func locateVectors(ctx context.Context, tx pgx.Tx, tenant, collection uuid.UUID) (*vectorLocation, string, error) {
	var p vectorLocation
	var space *int
	var name string
	var shards, bare []uuid.UUID
	var indexed []int64
	err := tx.QueryRow(ctx, vectorPlaceSQL, tenant, collection).Scan(&space, &name, &p.dimension, &p.generation, &shards, &indexed, &bare)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, "", fmt.Errorf("collection %s: %w", collection, schema.ErrNotFound)
	case err != nil:
		return nil, "", fmt.Errorf("read where the vectors of collection %s are: %w", collection, err)
	case space == nil:
		return nil, "", nil
	case !slices.Contains(schema.VectorDimensions, p.dimension):
		return nil, "", fmt.Errorf("space %s has dimension %d; the store searches %v", name, p.dimension, schema.VectorDimensions)
	}
	p.spaceID, p.bare = *space, bare
	for i, id := range shards {
		p.graphs = append(p.graphs, graph{id, indexed[i]})
	}
	return &p, name, nil
}

func (q *search) run(ctx context.Context, tx pgx.Tx) ([]dense.Hit, error) {
	if q.Within != nil {
		sql, args, err := q.withinSQL()
		if err != nil {
			return nil, err
		}
		found, _, err := collectNeighbours(tx.Query(ctx, sql, args...))
		return found, err
	}
	if len(q.graphs) == 0 {
		return q.scan(ctx, tx)
	}
	if len(q.Filter) > 0 {
		few, ok, err := q.fewVersions(ctx, tx)
		if err != nil {
			return nil, err
		}
		if ok {
			sql, args := q.versionsSQL(few)
			found, _, err := collectNeighbours(tx.Query(ctx, sql, args...))
			return found, err
		}
	}
	found, walked, err := q.approximate(ctx, tx)
	if err != nil || walked >= q.K {
		return found, err
	}
	// A walk ended before it found k hits: there may be more beyond its bounds.
	return q.scan(ctx, tx)
}

func (q *search) scan(ctx context.Context, tx pgx.Tx) ([]dense.Hit, error) {
	sql, args, err := q.scanSQL()
	if err != nil {
		return nil, err
	}
	found, _, err := collectNeighbours(tx.Query(ctx, sql, args...))
	return found, err
}

// begin sets the parameters that all methods have: $1 to $7.
func (q *search) begin() {
	groups := q.Principal.Groups
	if groups == nil {
		groups = []string{}
	}
	q.args = []any{q.Principal.Tenant, q.Collection, groups, q.spaceID, pgvector.NewHalfVector(q.Vector), q.K, q.generation}
}

func (q *search) param(v any) string {
	q.args = append(q.args, v)
	return "$" + strconv.Itoa(len(q.args))
}

// exact returns the shards without a graph.
func (p *vectorLocation) exact() []uuid.UUID { return append([]uuid.UUID{uuid.Nil}, p.bare...) }

// shards returns all shards that searches use.
func (p *vectorLocation) shards() []uuid.UUID {
	out := p.exact()
	for _, g := range p.graphs {
		out = append(out, g.shard)
	}
	return out
}

func (q *search) conditions() (filter string, err error) {
	filter, q.args, err = filterSQL(q.Filter, q.args)
	return filter, err
}

func (q *search) similarity() string { return fmt.Sprintf(similaritySQL, q.dimension) }

// scanSQL compares all visible vectors. Vectors are stored in the order of writing, and the
// collection's are read by an index. "(... IN (...)) IS TRUE" is always a lookup in a hash table.
// The method of a join would depend on statistics, which a collection that was just filled does not
// have (a nested loop over 20,000 passages of 800 documents took 1.4 s).
func (q *search) scanSQL() (string, []any, error) {
	q.begin()
	shards := q.param(q.shards())
	filter, err := q.conditions()
	if err != nil {
		return "", nil, err
	}
	sql := `WITH visible AS MATERIALIZED (` + liveVersionsSQL + fmt.Sprintf(store.VisibleSQL, "d.live_version_id", "$3") + filter + `
), nearest AS MATERIALIZED (
    SELECT v.passage_id, v.version_id, ` + q.similarity() + ` AS similarity
    FROM ` + q.table() + ` v
    WHERE v.tenant_id = $1 AND v.collection_id = $2 AND v.generation = $7 AND v.space_id = $4 AND v.shard = ANY(` + shards + `::uuid[])
      AND (v.version_id IN (SELECT live_version_id FROM visible)) IS TRUE
    ORDER BY similarity DESC, v.passage_id
    LIMIT $6
)` + fmt.Sprintf(foundSQL, "0")
	return sql, q.args, nil
}

// versionsSQL compares all vectors of given visible versions.
func (q *search) versionsSQL(versions []uuid.UUID) (string, []any) {
	q.begin()
	q.args[2] = q.shards() // the versions are known to be visible
	list := q.param(versions)
	sql := `WITH nearest AS MATERIALIZED (
    SELECT v.passage_id, v.version_id, ` + q.similarity() + ` AS similarity
    FROM ` + q.table() + ` v
    WHERE v.tenant_id = $1 AND v.version_id = ANY(` + list + `::uuid[]) AND v.shard = ANY($3::uuid[])
      AND (v.collection_id = $2 AND v.generation = $7 AND v.space_id = $4) IS TRUE
    ORDER BY similarity DESC, v.passage_id
    LIMIT $6
)` + fmt.Sprintf(foundSQL, "0")
	return sql, q.args
}

// withinSQL compares all visible vectors in given places. It does not use foundSQL: the places in
// the text are known already, and to look up thousands of them again took as long as the rest of
// the search.
func (q *search) withinSQL() (string, []any, error) {
	q.begin()
	versions, sections, passages := make([]uuid.UUID, len(q.Within)), make([]int32, len(q.Within)), make([]int32, len(q.Within))
	for i, r := range q.Within {
		versions[i], sections[i], passages[i] = r.Version, int32(r.Section), int32(r.Passage)
	}
	places := `unnest(` + q.param(versions) + `::uuid[], ` + q.param(sections) + `::int[], ` + q.param(passages) + `::int[])`
	shards := q.param(q.shards())
	filter, err := q.conditions()
	if err != nil {
		return "", nil, err
	}
	sql := `WITH places AS MATERIALIZED (
    SELECT * FROM ` + places + ` AS w(version_id, section, passage)
), visible AS MATERIALIZED (
    SELECT w.version_id FROM (SELECT DISTINCT version_id FROM places) w
    WHERE ` + fmt.Sprintf(isLiveSQL, "w.version_id", fmt.Sprintf(store.VisibleSQL, "d.live_version_id", "$3"), filter) + `
), cut AS MATERIALIZED (
    SELECT s.id, w.version_id, s.ordinal, w.passage FROM places w
    CROSS JOIN LATERAL (
        SELECT id, ordinal FROM sections WHERE tenant_id = $1 AND version_id = w.version_id AND ordinal = w.section LIMIT 1) s
    WHERE w.section >= 0 AND w.version_id IN (SELECT version_id FROM visible)
    UNION ALL
    SELECT s.id, w.version_id, s.ordinal, -1 FROM places w
    CROSS JOIN LATERAL (SELECT id, ordinal FROM sections WHERE tenant_id = $1 AND version_id = w.version_id OFFSET 0) s
    WHERE w.section < 0 AND w.version_id IN (SELECT version_id FROM visible)
), inside AS MATERIALIZED (
    SELECT DISTINCT p.id, cut.version_id, cut.ordinal AS section, p.ordinal AS passage
    FROM cut CROSS JOIN LATERAL (
        SELECT id, ordinal FROM passages WHERE tenant_id = $1 AND section_id = cut.id AND generation = $7 OFFSET 0) p
    WHERE cut.passage < 0 OR p.ordinal = cut.passage
)
SELECT inside.id, inside.version_id, inside.section, inside.passage, ` + q.similarity() + ` AS similarity, 0
FROM inside CROSS JOIN LATERAL (
    SELECT embedding FROM ` + q.table() + `
    WHERE passage_id = inside.id AND tenant_id = $1 AND shard = ANY(` + shards + `::uuid[])
      AND (collection_id = $2 AND generation = $7 AND space_id = $4) IS TRUE
    OFFSET 0) v
ORDER BY similarity DESC, inside.id
LIMIT $6`
	return sql, q.args, nil
}

// fewVersions returns the versions that the filter matches, if they are few.
func (q *search) fewVersions(ctx context.Context, tx pgx.Tx) ([]uuid.UUID, bool, error) {
	groups := q.Principal.Groups
	if groups == nil {
		groups = []string{}
	}
	filter, args, err := filterSQL(q.Filter, []any{q.Principal.Tenant, q.Collection, groups})
	if err != nil {
		return nil, false, err
	}
	rows, err := tx.Query(ctx, `
SELECT r.id, r.passage_count FROM (`+liveVersionsSQL+fmt.Sprintf(store.VisibleSQL, "d.live_version_id", "$3")+filter+`
    LIMIT `+strconv.Itoa(fewVersions+1)+`) AS few
CROSS JOIN LATERAL (SELECT id, passage_count FROM versions WHERE tenant_id = $1 AND id = few.live_version_id LIMIT 1) r`, args...)
	if err != nil {
		return nil, false, err
	}
	versions := []uuid.UUID{}
	var id uuid.UUID
	var passages, total int
	if _, err := pgx.ForEachRow(rows, []any{&id, &passages}, func() error {
		versions = append(versions, id)
		total += passages
		return nil
	}); err != nil {
		return nil, false, fmt.Errorf("count what the filter leaves: %w", err)
	}
	return versions, len(versions) <= fewVersions && total <= fewPassages, nil
}

func (q *search) table() string { return store.VectorTable(q.dimension) }

// collectNeighbours reads the rows of foundSQL, and the number in its last column.
func collectNeighbours(rows pgx.Rows, err error) ([]dense.Hit, int, error) {
	if err != nil {
		return nil, 0, err
	}
	var out []dense.Hit
	var n dense.Hit
	var extra int
	_, err = pgx.ForEachRow(rows, []any{&n.Passage, &n.Ref.Version, &n.Ref.Section, &n.Ref.Passage, &n.Similarity, &extra}, func() error {
		out = append(out, n)
		return nil
	})
	return out, extra, err
}
