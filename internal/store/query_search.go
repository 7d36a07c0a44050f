package store

// This file searches: the passages nearest to a vector, exactly, among those
// that the asker may see and the filter leaves. Labels, metadata and liveness
// narrow the versions first; distances are taken of what is left.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"

	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/schema"
)

const spaceSQL = `
SELECT c.space_id, coalesce(s.name, ''), coalesce(s.dimension, 0)
FROM collections c LEFT JOIN spaces s ON s.id = c.space_id
WHERE c.tenant_id = $1 AND c.id = $2 AND c.deleted_at IS NULL`

// visibleSQL is the condition under which version %s is open to the groups in
// parameter %s.
const visibleSQL = `(NOT EXISTS (SELECT FROM version_labels l WHERE l.tenant_id = $1 AND l.version_id = %[1]s)
      OR EXISTS (SELECT FROM version_labels l WHERE l.tenant_id = $1 AND l.version_id = %[1]s AND l.label = ANY(%[2]s::text[])))`

// nearestSQL is the search per dimension: before and after the filter's
// conditions. Vectors lie in the order of their passages, which is no order by
// distance: every visible one is compared. "(... IN (...)) IS TRUE" is always a
// lookup in a hash table; a join's method would hang on statistics, which a
// collection that was just filled does not have (a nested loop over 20,000
// passages of 800 documents took 1.4 s).
var nearestSQL = func() map[int][2]string {
	out := map[int][2]string{}
	for _, d := range []int{256, 384, 512, 768, 1024} {
		out[d] = [2]string{
			`
WITH visible AS MATERIALIZED (
    SELECT d.live_version_id
    FROM documents d
    WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL AND d.live_version_id IS NOT NULL
      AND ` + fmt.Sprintf(visibleSQL, "d.live_version_id", "$3"),
			fmt.Sprintf(`
), nearest AS MATERIALIZED (
    SELECT v.passage_id, v.version_id, -(v.embedding <#> $5::halfvec(%[1]d)) AS similarity
    FROM vectors_%[1]d v
    WHERE v.tenant_id = $1 AND v.collection_id = $2 AND v.space_id = $4
      AND (v.version_id IN (SELECT live_version_id FROM visible)) IS TRUE
    ORDER BY v.embedding <#> $5::halfvec(%[1]d), v.passage_id
    LIMIT $6
)
SELECT n.passage_id, n.version_id, d.id, d.external_id, n.similarity, r.title,
       p.ordinal, p.start_byte, p.end_byte, p.tokens,
       s.id, s.ordinal, s.heading_path, s.body, s.tokens, s.page_starts, s.page_numbers
FROM nearest n
JOIN passages p ON p.tenant_id = $1 AND p.id = n.passage_id
JOIN sections s ON s.tenant_id = $1 AND s.id = p.section_id
JOIN versions r ON r.tenant_id = $1 AND r.id = n.version_id
JOIN documents d ON d.tenant_id = $1 AND d.id = r.document_id
ORDER BY n.similarity DESC, n.passage_id`, d),
		}
	}
	return out
}()

// Nearest implements retrieval.Index.
func (s *Store) Nearest(ctx context.Context, q retrieval.NearestQuery) ([]retrieval.Hit, error) {
	var hits []retrieval.Hit
	err := s.AsTenant(ctx, q.Principal.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		hits = nil
		var space *int
		var name string
		var dimension int
		err := tx.QueryRow(ctx, spaceSQL, q.Principal.Tenant, q.Collection).Scan(&space, &name, &dimension)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return fmt.Errorf("collection %s: %w", q.Collection, schema.ErrNotFound)
		case err != nil:
			return fmt.Errorf("read the space of collection %s: %w", q.Collection, err)
		case space == nil:
			return nil // nothing in it is ready yet
		case name != q.Space || dimension != len(q.Vector):
			return &retrieval.SpaceError{Collection: q.Collection, Stored: name, Served: q.Space}
		}
		text, args, err := nearestQuery(q, *space, dimension)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, text, args...)
		if err != nil {
			return err
		}
		hits, err = pgx.CollectRows(rows, scanHit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	return hits, nil
}

func nearestQuery(q retrieval.NearestQuery, space, dimension int) (string, []any, error) {
	parts, ok := nearestSQL[dimension]
	if !ok {
		return "", nil, fmt.Errorf("space %s has dimension %d; the store searches %v", q.Space, dimension, slices.Sorted(maps.Keys(nearestSQL)))
	}
	groups := q.Principal.Groups
	if groups == nil {
		groups = []string{}
	}
	args := []any{q.Principal.Tenant, q.Collection, groups, space, pgvector.NewHalfVector(q.Vector), q.K}
	conditions, args, err := filterSQL(q.Filter, args)
	if err != nil {
		return "", nil, err
	}
	return parts[0] + conditions + parts[1], args, nil
}

func scanHit(row pgx.CollectableRow) (retrieval.Hit, error) {
	var h retrieval.Hit
	var starts, pages []int
	err := row.Scan(&h.Passage.ID, &h.Version, &h.Document, &h.ExternalID, &h.Similarity, &h.Title,
		&h.Passage.Ordinal, &h.Passage.Start, &h.Passage.End, &h.Passage.Tokens,
		&h.Section.ID, &h.Section.Ordinal, &h.Section.HeadingPath, &h.Section.Text, &h.Section.Tokens, &starts, &pages)
	h.Passage.SectionID = h.Section.ID
	h.Section.Pages = pageMarks(starts, pages)
	return h, err
}

func pageMarks(starts, pages []int) []schema.PageMark {
	var out []schema.PageMark
	for i := range min(len(starts), len(pages)) {
		out = append(out, schema.PageMark{Start: starts[i], Page: pages[i]})
	}
	return out
}

var (
	wholeNumber = regexp.MustCompile(`^[+-]?[0-9]+$`)
	fraction    = regexp.MustCompile(`^[+-]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
	rangeOps    = map[schema.Op]string{schema.OpLt: "<", schema.OpLe: "<=", schema.OpGt: ">", schema.OpGe: ">="}
)

// filterSQL turns a filter into conditions on documents d; the values become
// parameters after args. A condition holds when one of the document's values
// under the key satisfies it. Equality is of the text, or of the number or time
// that both are. A range compares whole numbers if its bound is one, times if
// it is one, else text by bytes.
func filterSQL(f schema.Filter, args []any) (string, []any, error) {
	var b strings.Builder
	param := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	for i, c := range f {
		b.WriteString("\n      AND (d.live_version_id IN (SELECT m.version_id FROM version_metadata m WHERE m.tenant_id = $1 AND m.key = " + param(c.Key) + " AND (")
		if op, ok := rangeOps[c.Op]; ok {
			value := c.Values[0]
			if n, ok := wholeOf(value); ok {
				b.WriteString("m.int_value " + op + " " + param(n) + "::bigint")
			} else if t, ok := schema.ParseTime(value); ok {
				b.WriteString("m.time_value " + op + " " + param(t) + "::timestamptz")
			} else if fraction.MatchString(value) || wholeNumber.MatchString(value) {
				return "", nil, schema.Invalid(fmt.Sprintf("filter[%d]", i), "%s is no bound: ranges take whole numbers of 64 bits, times (2024-05-01) and text", value)
			} else {
				b.WriteString(`m.text_value COLLATE "C" ` + op + " " + param(value) + "::text")
			}
		} else {
			var numbers []int64
			var times []time.Time
			for _, value := range c.Values {
				if n, ok := wholeOf(value); ok {
					numbers = append(numbers, n)
				} else if t, ok := schema.ParseTime(value); ok {
					times = append(times, t)
				}
			}
			b.WriteString("m.text_value = ANY(" + param(c.Values) + "::text[])")
			if len(numbers) > 0 {
				b.WriteString(" OR m.int_value = ANY(" + param(numbers) + "::bigint[])")
			}
			if len(times) > 0 {
				b.WriteString(" OR m.time_value = ANY(" + param(times) + "::timestamptz[])")
			}
		}
		b.WriteString("))) IS TRUE")
	}
	return b.String(), args, nil
}

func wholeOf(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && wholeNumber.MatchString(text)
}

var sectionsSQL = `
SELECT s.id, s.ordinal, s.heading_path, s.body, s.tokens, s.page_starts, s.page_numbers
FROM sections s
JOIN documents d ON d.tenant_id = $1 AND d.id = s.document_id AND d.deleted_at IS NULL
JOIN collections c ON c.tenant_id = $1 AND c.id = s.collection_id AND c.deleted_at IS NULL
WHERE s.tenant_id = $1 AND s.id = ANY($2) AND ` + fmt.Sprintf(visibleSQL, "s.version_id", "$3")

// Sections returns, of these sections, those that p may see and whose document
// is not deleted, by id.
func (s *Store) Sections(ctx context.Context, p schema.Principal, ids []uuid.UUID) (map[uuid.UUID]schema.Section, error) {
	groups := p.Groups
	if groups == nil {
		groups = []string{}
	}
	var out map[uuid.UUID]schema.Section
	err := s.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		out = map[uuid.UUID]schema.Section{}
		rows, err := tx.Query(ctx, sectionsSQL, p.Tenant, ids, groups)
		if err != nil {
			return err
		}
		var sec schema.Section
		var starts, pages []int
		_, err = pgx.ForEachRow(rows, []any{&sec.ID, &sec.Ordinal, &sec.HeadingPath, &sec.Text, &sec.Tokens, &starts, &pages}, func() error {
			one := sec
			one.HeadingPath = slices.Clone(sec.HeadingPath)
			one.Pages = pageMarks(starts, pages)
			out[one.ID] = one
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load sections: %w", err)
	}
	return out, nil
}
