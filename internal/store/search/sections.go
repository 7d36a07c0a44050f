package search

// This file has the conditions on what a search may see: the principal's groups and the filter on
// metadata. nearest.go searches the vectors.

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

var (
	wholeNumber = regexp.MustCompile(`^[+-]?[0-9]+$`)
	fraction    = regexp.MustCompile(`^[+-]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
	rangeOps    = map[schema.Op]string{schema.OpLt: "<", schema.OpLe: "<=", schema.OpGt: ">", schema.OpGe: ">="}
)

// filterSQL turns a filter into conditions on documents d; the values become parameters after args.
// A condition holds if one of the document's values under the key satisfies it. Values are equal as
// text, or as numbers or times if both are. A range compares whole numbers if its bound is one,
// times if it is one, else text by bytes.
func filterSQL(f schema.Filter, args []any) (string, []any, error) {
	var b strings.Builder
	for i, c := range f {
		condition, next, err := conditionSQL(i, c, args)
		if err != nil {
			return "", nil, err
		}
		args = next
		b.WriteString("\n      AND " + fmt.Sprintf(satisfiesSQL, condition))
	}
	return b.String(), args, nil
}

// conditionSQL turns a condition into one on rows m of version_metadata. number is its index in the
// filter, for errors.
func conditionSQL(number int, c schema.Condition, args []any) (string, []any, error) {
	param := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	var b strings.Builder
	b.WriteString("m.key = " + param(c.Key) + " AND (")
	if op, ok := rangeOps[c.Op]; ok {
		value := c.Values[0]
		if n, ok := parseWhole(value); ok {
			b.WriteString("m.int_value " + op + " " + param(n) + "::bigint")
		} else if t, ok := schema.ParseTime(value); ok {
			b.WriteString("m.time_value " + op + " " + param(t) + "::timestamptz")
		} else if fraction.MatchString(value) || wholeNumber.MatchString(value) {
			return "", nil, schema.Invalid(fmt.Sprintf("filter[%d]", number), "%s is not a bound: ranges take whole numbers of 64 bits, times (2024-05-01) and text", value)
		} else {
			b.WriteString(`m.text_value COLLATE "C" ` + op + " " + param(value) + "::text")
		}
	} else {
		var numbers []int64
		var times []time.Time
		for _, value := range c.Values {
			if n, ok := parseWhole(value); ok {
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
	b.WriteString(")")
	return b.String(), args, nil
}

func parseWhole(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && wholeNumber.MatchString(text)
}

var sectionsSQL = `
SELECT s.id, s.ordinal, s.heading_path, s.body, s.tokens, s.page_starts, s.page_numbers, s.layout
FROM (SELECT DISTINCT id FROM unnest($2::uuid[]) AS w(id)) w
CROSS JOIN LATERAL (SELECT * FROM sections WHERE tenant_id = $1 AND id = w.id LIMIT 1) s
CROSS JOIN LATERAL (SELECT live_version_id FROM documents WHERE tenant_id = $1 AND id = s.document_id AND deleted_at IS NULL LIMIT 1) d
CROSS JOIN LATERAL (SELECT FROM collections WHERE tenant_id = $1 AND id = s.collection_id AND deleted_at IS NULL LIMIT 1) c
WHERE ` + store.ReadableNow("s.version_id", "$3")

// Sections returns, by id, those of the sections that p may see and whose document is not deleted.
func (s *SearchStore) Sections(ctx context.Context, p schema.Principal, ids []uuid.UUID) (map[uuid.UUID]schema.Section, error) {
	groups := p.Groups
	if groups == nil {
		groups = []string{}
	}
	var out map[uuid.UUID]schema.Section
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		out = map[uuid.UUID]schema.Section{}
		rows, err := tx.Query(ctx, sectionsSQL, p.Tenant, ids, groups)
		if err != nil {
			return err
		}
		var sec schema.Section
		var starts, pages []int
		_, err = pgx.ForEachRow(rows, []any{&sec.ID, &sec.Ordinal, &sec.HeadingPath, &sec.Text, &sec.Tokens, &starts, &pages, &sec.Layout}, func() error {
			one := sec
			one.HeadingPath = slices.Clone(sec.HeadingPath)
			one.Pages, one.Layout = store.PageMarks(starts, pages), slices.Clone(sec.Layout)
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
