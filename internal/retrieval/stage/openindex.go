package stage

// This file opens the lexical index for a run.

import (
	"context"
	"slices"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/schema"
)

// searchIndex searches the snapshot of the index that the run opened first: all stages of a run see
// one state, and the storage is asked at most once.
func (t *Task) searchIndex(ctx context.Context, q lexical.TermQuery) (lexical.Result, error) {
	if err := t.openIndex(ctx, q.Unit == schema.UnitCluster || q.Within != nil && q.Within.Clusters != nil); err != nil {
		return lexical.Result{}, err
	}
	return t.index.Search(q)
}

// openIndex opens the index, if it is not open.
func (t *Task) openIndex(ctx context.Context, clusters bool) error {
	if t.index != nil && (t.clusters || !clusters) {
		return nil
	}
	open := t.narrowed(lexical.TermQuery{Unit: schema.UnitPassage, Terms: append(slices.Clone(t.terms), t.names...)})
	if clusters {
		open.Unit = schema.UnitCluster
	}
	var err error
	t.index, err = t.open(ctx, open)
	t.clusters = clusters
	return err
}

// view returns the index's view of the collection if the run has it, or if it is cached; nil
// otherwise.
func (t *Task) view() *search.View {
	switch {
	case t.index != nil:
		return t.index.View()
	case t.assumedCurrent:
		open := t.narrowed(lexical.TermQuery{Unit: schema.UnitPassage})
		if s, ok := t.Lexical.OpenCached(t.query.Principal.Tenant, t.query.Collection, open); ok && s.Revision() == t.state.Revision {
			return s.View()
		}
	}
	return nil
}

// narrowed restricts a query to what the principal may see and the filter matches.
func (t *Task) narrowed(q lexical.TermQuery) lexical.TermQuery {
	q.Groups, q.Filter = t.query.Principal.Groups, t.query.Filter
	return q
}

// open opens the index for q, in the state of the collection that the run uses.
func (t *Task) open(ctx context.Context, q lexical.TermQuery) (search.Searcher, error) {
	if t.assumedCurrent {
		if s, ok := t.Lexical.OpenCached(t.query.Principal.Tenant, t.query.Collection, q); ok {
			if s.Revision() != t.state.Revision {
				return nil, &retrieval.ChangedError{Collection: t.query.Collection}
			}
			return s, nil
		}
	}
	s, err := t.Lexical.Open(ctx, t.query.Principal.Tenant, t.query.Collection, q)
	switch {
	case err != nil:
		return nil, err
	case t.assumedCurrent && s.Revision() != t.state.Revision:
		return nil, &retrieval.ChangedError{Collection: t.query.Collection}
	case s.Generation() != t.state.Generation:
		return nil, &retrieval.GenerationError{Collection: t.query.Collection, Asked: t.state.Generation, Live: s.Generation()}
	}
	t.assumedCurrent = false
	return s, nil
}
