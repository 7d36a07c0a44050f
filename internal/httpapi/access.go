package httpapi

// The permissions of sources are looked up for each request, and again after long operations. A
// request that began before its caller lost a permission shows nothing that the permission allowed.

import (
	"context"

	"github.com/sluice-rag/sluice/schema"
)

// Permissions resolves what the permissions of sources give to principals.
type Permissions interface {
	// Permit returns p with its own groups and the labels that permissions give it now.
	Permit(ctx context.Context, p schema.Principal) (schema.Principal, error)
}

// permit returns p with its current permissions.
func (s *server) permit(ctx context.Context, p schema.Principal) (schema.Principal, error) {
	if s.Permissions == nil {
		return p, nil
	}
	return s.Permissions.Permit(ctx, p)
}

// recheck returns before with its current permissions, and reports whether it may see less than
// before.
func (s *server) recheck(ctx context.Context, before schema.Principal) (schema.Principal, bool, error) {
	now, err := s.permit(ctx, before)
	return now, !now.Covers(before), err
}

// search searches, and searches again if p lost a permission meanwhile.
func (s *server) search(ctx context.Context, p schema.Principal, q schema.Query) (schema.SearchResult, error) {
	for {
		found, err := s.Questions.Search(ctx, p, q)
		if err != nil {
			return found, err
		}
		now, less, err := s.recheck(ctx, p)
		if err != nil {
			return schema.SearchResult{}, err
		}
		if !less {
			return found, nil
		}
		p = now
	}
}

// askNow asks, and withholds the answer if p lost the permission to see its sources meanwhile.
func (s *server) askNow(ctx context.Context, p schema.Principal, q schema.Query, progress func(Progress)) (schema.Answer, error) {
	answer, err := s.Questions.Ask(ctx, p, q, progress)
	if err != nil {
		return answer, err
	}
	now, less, err := s.recheck(ctx, p)
	switch {
	case err != nil:
		return schema.Answer{}, err
	case !less:
		return answer, nil
	}
	hidden, err := s.Questions.SourcesHidden(ctx, now, answer.ID)
	switch {
	case err != nil:
		return schema.Answer{}, err
	case hidden:
		return answer.Withhold(), nil
	}
	return answer, nil
}
