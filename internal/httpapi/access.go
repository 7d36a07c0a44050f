package httpapi

// Who may see what in sources is looked up for each request, and again for what takes long: a
// request that began before somebody lost a permission shows nothing by it.

import (
	"context"
	"slices"

	"github.com/sluice-rag/sluice/schema"
)

// Permissions gives principals what permissions of sources say.
type Permissions interface {
	// Permit returns p with its own groups and the labels that permissions give it now.
	Permit(ctx context.Context, p schema.Principal) (schema.Principal, error)
}

// permit returns p as it is now.
func (s *server) permit(ctx context.Context, p schema.Principal) (schema.Principal, error) {
	if s.Permissions == nil {
		return p, nil
	}
	return s.Permissions.Permit(ctx, p)
}

// lost returns p as it is now, and whether it may see less than before.
func (s *server) lost(ctx context.Context, before schema.Principal) (schema.Principal, bool, error) {
	now, err := s.permit(ctx, before)
	return now, slices.ContainsFunc(before.Groups, func(g string) bool { return !slices.Contains(now.Groups, g) }), err
}

// search searches, again where p may see less by the time that something was found.
func (s *server) search(ctx context.Context, p schema.Principal, q schema.Query) (schema.SearchResult, error) {
	for {
		found, err := s.Questions.Search(ctx, p, q)
		if err != nil {
			return found, err
		}
		now, less, err := s.lost(ctx, p)
		if err != nil {
			return schema.SearchResult{}, err
		}
		if !less {
			return found, nil
		}
		p = now
	}
}

// askNow asks, and withholds an answer of whose sources p may see less by the time that it is
// there.
func (s *server) askNow(ctx context.Context, p schema.Principal, q schema.Query, tell func(Progress)) (schema.Answer, error) {
	answer, err := s.Questions.Ask(ctx, p, q, tell)
	if err != nil {
		return answer, err
	}
	now, less, err := s.lost(ctx, p)
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
