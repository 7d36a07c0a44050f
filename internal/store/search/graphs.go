package search

// This file searches the vectors that are in graphs.

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/store"
)

const (
	// The graph is walked with a list of efPerHit candidates per requested hit, within bounds;
	// pgvector allows 1000.
	efPerHit, minEf, maxEf = 4, 200, 1000
	// Labels and filters hide vectors, so that the walk has to continue. A step costs about as much
	// as ten comparisons of a scan; after walkShare of the graph a scan is cheaper.
	walkShare        = 10
	minWalk, maxWalk = 2000, 20_000
	// A walk that does not check what it finds returns this share more than the requested hits, for
	// those that are not live.
	spareShare = 2
)

// walkSQL limits the walk over the graph, and makes it the only way to read the partition, because
// the planner does not know how few steps it takes.
const walkSQL = `
SELECT set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', $1::text, true),
       set_config('hnsw.max_scan_tuples', $2::text, true), set_config('hnsw.scan_mem_multiplier', '8', true),
       set_config('enable_seqscan', 'off', true)`

const endWalkSQL = `SELECT set_config('enable_seqscan', 'on', true)`

// walkSteps returns after how many vectors the walk over each graph ends.
func (p *vectorLocation) walkSteps() int64 {
	var maxWalked int64
	for _, g := range p.graphs {
		maxWalked = max(maxWalked, g.indexed)
	}
	return min(max(maxWalked/walkShare, minWalk), maxWalk)
}

// walkLimits returns the parameters of walkSQL for k hits.
func (p *vectorLocation) walkLimits(k int) []any {
	return []any{strconv.Itoa(p.efSearch(k)), strconv.FormatInt(p.walkSteps(), 10)}
}

// efSearch returns how many candidates the walk over each graph keeps for k hits. If there are
// several graphs, each has only some of the k nearest vectors. How many is unknown, since similar
// vectors may have been written together, into one graph. So the number falls with the root of the
// number of graphs, and not with the number itself.
func (p *vectorLocation) efSearch(k int) int {
	each := float64(efPerHit*k) / math.Sqrt(float64(max(1, len(p.graphs))))
	return min(max(int(math.Ceil(each)), minEf), maxEf)
}

// approximate returns the best hits of the graphs and of the vectors that are in no graph, and how
// many hits the graphs found. If some graphs are too large to be walked completely, that is the
// lowest number of one of these; else it is the sum over all graphs.
func (q *search) approximate(ctx context.Context, tx pgx.Tx) ([]dense.Hit, int, error) {
	if len(q.Filter) == 0 {
		found, walked, err := q.walk(ctx, tx, q.uncheckedSQL)
		if err != nil || walked >= q.K {
			return found, walked, err
		}
	}
	return q.walk(ctx, tx, q.checkedSQL)
}

// walk runs a statement that walks the graphs.
func (q *search) walk(ctx context.Context, tx pgx.Tx, statement func() (string, []any, error)) ([]dense.Hit, int, error) {
	sql, args, err := statement()
	if err != nil {
		return nil, 0, err
	}
	batch := &pgx.Batch{}
	batch.Queue(walkSQL, q.walkLimits(q.K)...)
	var found []dense.Hit
	var walked int
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		found, walked, err = collectNeighbours(rows, nil)
		return err
	})
	batch.Queue(endWalkSQL)
	err = tx.SendBatch(ctx, batch).Close()
	return found, walked, err
}

// beginWalk sets the parameters of a walk, and returns those of the graphs and of the shards
// without one.
func (q *search) beginWalk() (graphs []string, bare string) {
	q.begin()
	graphs = make([]string, len(q.graphs))
	for i, g := range q.graphs {
		graphs[i] = q.param(g.shard)
	}
	return graphs, q.param(q.exact())
}

// walkOf returns the query, named ownI, of the limit nearest vectors of the i-th graph that satisfy
// a condition.
func (q *search) walkOf(i int, shard, condition, limit string) string {
	return `own` + strconv.Itoa(i) + ` AS MATERIALIZED (
    SELECT v.passage_id, v.version_id, -(v.embedding <#> $5::halfvec(` + strconv.Itoa(q.dimension) + `)) AS similarity
    FROM ` + q.table() + ` v
    WHERE v.tenant_id = $1 AND v.shard = ` + shard + ` AND (v.generation = $7) IS TRUE` + condition + `
    ORDER BY v.embedding <#> $5::halfvec(` + strconv.Itoa(q.dimension) + `)
    LIMIT ` + limit + `
), `
}

// bareSQL returns the queries of the nearest visible vectors in no graph, named shared.
func (q *search) bareSQL(bare, visible, filter string) string {
	return `fresh AS MATERIALIZED (
    SELECT v.version_id FROM (
        SELECT DISTINCT version_id FROM ` + q.table() + `
        WHERE tenant_id = $1 AND collection_id = $2 AND generation = $7 AND shard = ANY (` + bare + `::uuid[])) v
    WHERE ` + fmt.Sprintf(isLiveSQL, "v.version_id", visible, filter) + `
), shared AS MATERIALIZED (
    SELECT v.passage_id, v.version_id, ` + q.similarity() + ` AS similarity
    FROM ` + q.table() + ` v
    WHERE v.tenant_id = $1 AND v.collection_id = $2 AND v.generation = $7 AND v.space_id = $4 AND v.shard = ANY (` + bare + `::uuid[])
      AND (v.version_id IN (SELECT version_id FROM fresh)) IS TRUE
    ORDER BY similarity DESC, v.passage_id
    LIMIT $6
)`
}

// checkedSQL returns the statement that checks each vector that a walk finds, so that each graph
// has k visible ones.
func (q *search) checkedSQL() (string, []any, error) {
	graphs, bare := q.beginWalk()
	filter, err := q.conditions()
	if err != nil {
		return "", nil, err
	}
	visible := fmt.Sprintf(store.VisibleSQL, "d.live_version_id", "$3")
	var walks, found strings.Builder
	var all, large []string
	for i, shard := range graphs {
		walks.WriteString(q.walkOf(i, shard, ` AND `+fmt.Sprintf(isLiveSQL, "v.version_id", visible, filter), "$6"))
		found.WriteString(`SELECT * FROM own` + strconv.Itoa(i) + ` UNION ALL `)
		count := `(SELECT count(*) FROM own` + strconv.Itoa(i) + `)`
		if all = append(all, count); q.graphs[i].indexed > q.walkSteps() {
			large = append(large, count)
		}
	}
	walked := strings.Join(all, " + ")
	if len(large) > 0 {
		walked = `least(` + strings.Join(large, ", ") + `)`
	}
	return `WITH ` + walks.String() + q.bareSQL(bare, visible, filter) + `, nearest AS MATERIALIZED (
    SELECT * FROM (` + found.String() + `SELECT * FROM shared) either ORDER BY similarity DESC, passage_id LIMIT $6
)` + fmt.Sprintf(foundSQL, walked), q.args, nil
}

// uncheckedSQL returns the statement for a search without a filter, for which most vectors are
// visible: those of all graphs are merged before they are checked, in order, until k are visible.
// With ten graphs these are a tenth of the checks. The number of hits is that of visible ones: with
// fewer than k, there may be others behind those that were merged.
func (q *search) uncheckedSQL() (string, []any, error) {
	graphs, bare := q.beginWalk()
	limit := q.param(q.K + q.K/spareShare)
	visible := fmt.Sprintf(store.VisibleSQL, "d.live_version_id", "$3")
	var walks strings.Builder
	var found []string
	for i, shard := range graphs {
		walks.WriteString(q.walkOf(i, shard, "", limit))
		found = append(found, `SELECT * FROM own`+strconv.Itoa(i))
	}
	return `WITH ` + walks.String() + `live AS MATERIALIZED (
    SELECT * FROM (
        SELECT * FROM (` + strings.Join(found, " UNION ALL ") + `) every ORDER BY similarity DESC, passage_id LIMIT ` + limit + `) merged
    WHERE ` + fmt.Sprintf(isLiveSQL, "merged.version_id", visible, "") + `
    ORDER BY similarity DESC, passage_id
    LIMIT $6
), ` + q.bareSQL(bare, visible, "") + `, nearest AS MATERIALIZED (
    SELECT * FROM (SELECT * FROM live UNION ALL SELECT * FROM shared) either ORDER BY similarity DESC, passage_id LIMIT $6
)` + fmt.Sprintf(foundSQL, `(SELECT count(*) FROM live)`), q.args, nil
}
