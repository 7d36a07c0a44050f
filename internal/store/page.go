package store

import (
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

const (
	defaultPage = 50
	maxPage     = 500
)

// PageRequest is a validated schema.PageQuery. Lists are ordered by id; the cursor is the last id
// of the previous page.
type PageRequest struct {
	After *uuid.UUID
	Limit int
}

// PageOf validates a query for a page.
func PageOf(q schema.PageQuery) (PageRequest, error) {
	p := PageRequest{Limit: q.Limit}
	switch {
	case q.Limit < 0:
		return p, schema.Invalid("limit", "%d is negative", q.Limit)
	case q.Limit == 0:
		p.Limit = defaultPage
	case q.Limit > maxPage:
		p.Limit = maxPage
	}
	if q.Cursor != "" {
		id, err := uuid.Parse(q.Cursor)
		if err != nil {
			return p, schema.Invalid("cursor", "is not the cursor of a previous page")
		}
		p.After = &id
	}
	return p, nil
}

// Cut drops the entry that was read beyond the page, and returns the cursor of the next page if
// there was one.
func Cut[T any](p PageRequest, list []T, id func(T) uuid.UUID) ([]T, string) {
	if len(list) <= p.Limit {
		return list, ""
	}
	list = list[:p.Limit]
	return list, id(list[len(list)-1]).String()
}
