package search

// This file reads the lexical index for searches: it implements lexicalsearch.Storage.

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sluice-rag/sluice/internal/lexical"
	lexicalsearch "github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/schema"
)

// Kinds of rows of loadSQL.
const (
	rowCollection = iota // a: live generation, b: revision, text: language
	rowSegment           // id, data: header unless it is known; no rows if the list is known
	rowPage              // id, a: number, data
	rowDead              // a: count, b: XOR
	rowEntry             // id of a dead entry
	rowEpoch             // a: newest epoch
	rowMember            // id: version, a: section, other: cluster
	rowList              // a: count, b: XOR
	rowDeaths            // a: number of the newest death, b: 1 if only entries are sent that died after those known
)

// loadSQL reads everything in one snapshot, as rows of several kinds; some parts only if they are
// asked for. Dead entries have an index of their own. A fingerprint decides whether they must be
// sent, all or those that died since, and another one whether the list of segments must. Pages of a
// segment that is not known are found by their first and last terms; those of its directory have
// none. The statement has one plan for all arguments (askSQL): OFFSET forces the join with pages to
// look up page by page.
func loadSQL(l lexicalsearch.Load) (string, []any) {
	known, wanted, terms := l.Known, l.Wanted, make([][]byte, len(l.Terms))
	if known == nil {
		known = []uuid.UUID{}
	}
	if wanted == nil {
		wanted = []uuid.UUID{}
	}
	for i, t := range l.Terms {
		terms[i] = []byte(t)
	}
	args := []any{l.Tenant, l.Collection, known, l.Eager, wanted, terms, l.Dead.Generation, l.Dead.Count, l.Dead.XOR,
		l.Live.Generation, l.Live.Count, l.Live.XOR, l.Dead.Newest}
	var sql strings.Builder
	sql.WriteString(loadStateSQL)
	if len(l.Pages) > 0 {
		segments, pages := make([]uuid.UUID, len(l.Pages)), make([]int, len(l.Pages))
		for i, p := range l.Pages {
			segments[i], pages[i] = p.Segment, p.Page
		}
		args = append(args, segments, pages)
		fmt.Fprintf(&sql, loadPagesSQL, len(args)-1, len(args))
	}
	if l.Clusters {
		args = append(args, l.Epoch.Generation, l.Epoch.Epoch)
		fmt.Fprintf(&sql, loadClustersSQL, len(args)-1, len(args))
	}
	return sql.String(), args
}

const (
	loadStateSQL = `
WITH c AS MATERIALIZED (
    SELECT generation, language FROM collections WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL
), live AS MATERIALIZED (
    SELECT s.id, s.header, s.id = ANY ($3::uuid[]) AS known, s.bytes <= $4::bigint OR s.id = ANY ($5::uuid[]) AS wanted
    FROM lexical_segments s
    WHERE s.tenant_id = $1 AND s.collection_id = $2 AND s.generation = (SELECT generation FROM c) AND s.merged_at IS NULL
), list AS MATERIALIZED (
    SELECT count(*) AS n, coalesce(bit_xor(uuid_hash_extended(id, 0)), 0) AS x FROM live
), dead AS MATERIALIZED (
    SELECT count(*) AS n, coalesce(bit_xor(uuid_hash_extended(e.id, 0)), 0) AS x, coalesce(max(e.died), 0) AS newest,
           -- What the caller knows is there and complete: no entry of it is gone, and none
           -- died before and was committed after.
           (count(*) FILTER (WHERE coalesce(e.died, 0) <= $13::bigint), coalesce(bit_xor(uuid_hash_extended(e.id, 0)) FILTER (WHERE coalesce(e.died, 0) <= $13::bigint), 0))
               = ($8::bigint, $9::bigint) AND (SELECT generation FROM c) IS NOT DISTINCT FROM $7::int AS known
    FROM lexical_entries e
    WHERE e.tenant_id = $1 AND e.collection_id = $2 AND e.generation = (SELECT generation FROM c) AND e.dead
)
SELECT 0, NULL::uuid, generation::bigint,
       (SELECT coalesce(sum(revision), 0)::bigint FROM lexical_revisions WHERE tenant_id = $1 AND collection_id = $2), NULL::uuid, NULL::bytea, language
FROM c
UNION ALL
SELECT 1, id, 0, 0, NULL, CASE WHEN wanted AND NOT known THEN header END, NULL FROM live
WHERE (SELECT (generation, n, x) IS DISTINCT FROM ($10::int, $11::bigint, $12::bigint) FROM c, list) OR wanted AND NOT known
UNION ALL
SELECT 2, p.segment_id, p.page, 0, NULL, p.data, NULL
FROM live l, LATERAL (SELECT * FROM lexical_pages WHERE tenant_id = $1 AND segment_id = l.id OFFSET 0) p
WHERE l.wanted AND NOT l.known
  AND (p.first_term IS NULL OR EXISTS (SELECT FROM unnest($6::bytea[]) t WHERE t BETWEEN p.first_term AND p.last_term))
UNION ALL
SELECT 3, NULL, n, x, NULL, NULL, NULL FROM dead
UNION ALL
SELECT 8, NULL, newest, known::int, NULL, NULL, NULL FROM dead
UNION ALL
SELECT 7, NULL, n, x, NULL, NULL, NULL FROM list
UNION ALL
SELECT 4, e.id, 0, 0, NULL, NULL, NULL
FROM lexical_entries e
WHERE e.tenant_id = $1 AND e.collection_id = $2 AND e.generation = (SELECT generation FROM c) AND e.dead
  AND (SELECT (generation, n, x) IS DISTINCT FROM ($7::int, $8::bigint, $9::bigint) AND (NOT known OR coalesce(e.died, 0) > $13::bigint) FROM c, dead)
UNION ALL
SELECT 5, NULL, k.epoch, 0, NULL, NULL, NULL
FROM clusterings k
WHERE k.tenant_id = $1 AND k.collection_id = $2 AND k.generation = (SELECT generation FROM c)`

	loadPagesSQL = `
UNION ALL
SELECT 2, p.segment_id, p.page, 0, NULL, p.data, NULL
FROM unnest($%d::uuid[], $%d::int[]) AS q (segment, page),
    LATERAL (SELECT * FROM lexical_pages WHERE tenant_id = $1 AND segment_id = q.segment AND lexical_pages.page = q.page OFFSET 0) p`

	loadClustersSQL = `
UNION ALL
SELECT 6, m.version_id, m.section, 0, m.cluster_id, NULL, NULL
FROM cluster_members m
WHERE m.tenant_id = $1 AND m.collection_id = $2 AND m.generation = (SELECT generation FROM c)
  AND m.epoch > (SELECT CASE WHEN generation = $%d::int THEN $%d::bigint ELSE -1 END FROM c)`
)

// LexicalRevision implements lexicalsearch.Storage.
func (s *SearchStore) LexicalRevision(ctx context.Context, tenant, collection uuid.UUID) (wait func() (int64, error)) {
	return s.db.AskRevision(ctx, tenant, collection)
}

// LoadLexical implements lexicalsearch.Storage.
func (s *SearchStore) LoadLexical(ctx context.Context, l lexicalsearch.Load) (lexicalsearch.Loaded, error) {
	sql, args := loadSQL(l)
	var out lexicalsearch.Loaded
	take := func(rows pgx.Rows) error {
		out = lexicalsearch.Loaded{Headers: map[uuid.UUID][]byte{}, Pages: map[lexicalsearch.PageKey][]byte{}}
		var kind int
		var id, other pgtype.UUID
		var a, b int64
		var data []byte
		var text pgtype.Text
		_, err := pgx.ForEachRow(rows, []any{&kind, &id, &a, &b, &other, &data, &text}, func() error {
			switch kind {
			case rowCollection:
				out.Generation, out.Revision, out.Language = int(a), b, text.String
			case rowSegment:
				out.Live = append(out.Live, id.Bytes)
				if data != nil {
					out.Headers[id.Bytes] = data
				}
			case rowPage:
				out.Pages[lexicalsearch.PageKey{Segment: id.Bytes, Page: int(a)}] = data
			case rowList:
				out.Mark = lexicalsearch.ListMark{Count: a, XOR: b}
			case rowDead:
				out.Dead.Count, out.Dead.XOR = a, b
			case rowDeaths:
				out.Dead.Newest, out.After = a, b == 1
			case rowEntry:
				out.Entries = append(out.Entries, id.Bytes)
			case rowEpoch:
				out.Epoch.Epoch = a
			case rowMember:
				out.Changes = append(out.Changes, lexical.ClusterChange{Version: id.Bytes, Section: int(a), Cluster: other.Bytes})
			}
			return nil
		})
		if err == nil && out.Generation == 0 {
			err = fmt.Errorf("collection %s: %w", l.Collection, schema.ErrNotFound)
		}
		return err
	}
	if err := s.ask(ctx, l.Tenant, l.Collection, func(b *pgx.Batch) { b.Queue(sql, args...).Query(take) }); err != nil {
		return out, fmt.Errorf("load the lexical index: %w", err)
	}
	slices.SortFunc(out.Live, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	out.Mark.Generation, out.Dead.Generation, out.Epoch.Generation = out.Generation, out.Generation, out.Generation
	if out.Mark == l.Live {
		out.Live = nil // the segments with headers are not the whole list
	}
	return out, nil
}
