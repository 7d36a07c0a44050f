package store

// This file converts rows to what the API shows.

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
)

// EmptyNotNull returns an empty list for a nil one: [] in JSON.
func EmptyNotNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// NilIsNull returns nil, NULL in SQL, for uuid.Nil. Statements take it for any id.
func NilIsNull(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

// IDs reads rows of one id each.
func IDs(rows pgx.Rows, err error) ([]uuid.UUID, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// Each queues a query, and passes its rows to fn.
func Each(b *pgx.Batch, sql string, args []any, fn func(pgx.Rows) error) {
	b.Queue(sql, args...).Query(fn)
}

// ReasonOf makes a reason from its two columns; it is nil without a code.
func ReasonOf(code, message *string) *schema.Reason {
	if code == nil {
		return nil
	}
	r := &schema.Reason{Code: *code}
	if message != nil {
		r.Message = *message
	}
	return r
}

// PageMarks pairs the first bytes of pages with their numbers.
func PageMarks(starts, pages []int) []schema.PageMark {
	var out []schema.PageMark
	for i := range min(len(starts), len(pages)) {
		out = append(out, schema.PageMark{Start: starts[i], Page: pages[i]})
	}
	return out
}
