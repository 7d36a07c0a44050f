package ingest

// Part of the second stage: everything of a version is written in one commit. Also the failure of
// versions.

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// write makes the documents of one collection ready, in one transaction per space: the model server
// may change its pack between two requests.
func (a *Activities) write(ctx context.Context, tenant uuid.UUID, c batch.Cut) ([]wire.Outcome, error) {
	defer timed(ctx, "index", "transaction")()
	bySpace := map[string][]batch.Document{}
	for _, d := range c.Documents {
		bySpace[d.Vectors.Space] = append(bySpace[d.Vectors.Space], d)
	}
	var outcomes []wire.Outcome
	for _, some := range bySpace {
		out, err := a.store.WriteCut(ctx, tenant, c.Collection, c.Recipe, some)
		if err != nil {
			return nil, fmt.Errorf("write %d versions of collection %s: %w", len(some), c.Collection, err)
		}
		outcomes = append(outcomes, out...)
	}
	a.wrote(ctx, tenant, c, outcomes)
	return outcomes, nil
}

// wrote counts the outcomes of documents, and notifies curation of them. outcomes may contain those
// of other collections.
func (a *Activities) wrote(ctx context.Context, tenant uuid.UUID, c batch.Cut, outcomes []wire.Outcome) {
	by := make(map[uuid.UUID]wire.Outcome, len(outcomes))
	for _, o := range outcomes {
		by[o.Version] = o
	}
	lost, failing := 0, 0
	for _, d := range c.Documents {
		if o, found := by[d.Version]; found && o.Lost {
			lost++
		} else if found && o.Reason != nil {
			failing++
		}
	}
	meters.outcome(ctx, "ready", len(c.Documents)-lost-failing)
	meters.outcome(ctx, "lost", lost)
	if lost < len(c.Documents) {
		a.curation.Changed(tenant, c.Collection)
	}
}

// Fail marks versions as failed.
func (a *Activities) Fail(ctx context.Context, in wire.IngestVersions, outcomes []wire.Outcome) error {
	reasons := make(map[uuid.UUID]schema.Reason, len(outcomes))
	for _, o := range outcomes {
		if o.Reason != nil {
			reasons[o.Version] = *o.Reason
		}
	}
	var errs []error
	for _, w := range byTenant(in) {
		var failures []batch.Failure
		for _, item := range w.items() {
			if r, found := reasons[item.Version]; found {
				failures = append(failures, batch.Failure{Attempt: item, Reason: schema.Reason{Code: r.Code, Message: clip(r.Message)}})
			}
		}
		if err := a.store.FailVersions(ctx, w.tenant, failures); err != nil {
			errs = append(errs, fmt.Errorf("mark %d versions as failed: %w", len(failures), err))
			continue
		}
		meters.outcome(ctx, "failed", len(failures))
	}
	return errors.Join(errs...)
}
