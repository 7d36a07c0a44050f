package store

import (
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

const (
	defaultPage = 50
	maxPage     = 500
)

// page is a validated schema.PageQuery. Lists are ordered by id; the cursor is
// the last id of the page before.
type page struct {
	after *uuid.UUID
	limit int
}

func pageOf(q schema.PageQuery) (page, error) {
	p := page{limit: q.Limit}
	switch {
	case q.Limit < 0:
		return p, schema.Invalid("limit", "%d is negative", q.Limit)
	case q.Limit == 0:
		p.limit = defaultPage
	case q.Limit > maxPage:
		p.limit = maxPage
	}
	if q.Cursor != "" {
		id, err := uuid.Parse(q.Cursor)
		if err != nil {
			return p, schema.Invalid("cursor", "is not one that a page before gave")
		}
		p.after = &id
	}
	return p, nil
}

// cut drops the entry that was read beyond the page, and tells the cursor of
// the next page when there was one.
func cut[T any](p page, list []T, id func(T) uuid.UUID) ([]T, string) {
	if len(list) <= p.limit {
		return list, ""
	}
	list = list[:p.limit]
	return list, id(list[len(list)-1]).String()
}
