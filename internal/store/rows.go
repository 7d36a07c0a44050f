package store

// This file reads rows and makes of them what the API shows.

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
)

// emptyNotNull makes a nil list an empty one, which is [] in JSON.
func emptyNotNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func ids(rows pgx.Rows, err error) ([]uuid.UUID, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// each queues a query whose rows go to fn.
func each(b *pgx.Batch, sql string, args []any, fn func(pgx.Rows) error) {
	b.Queue(sql, args...).Query(fn)
}

func reasonOf(code, message *string) *schema.Reason {
	if code == nil {
		return nil
	}
	r := &schema.Reason{Code: *code}
	if message != nil {
		r.Message = *message
	}
	return r
}

func pageMarks(starts, pages []int) []schema.PageMark {
	var out []schema.PageMark
	for i := range min(len(starts), len(pages)) {
		out = append(out, schema.PageMark{Start: starts[i], Page: pages[i]})
	}
	return out
}
