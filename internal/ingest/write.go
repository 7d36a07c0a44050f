package ingest

// The last stage: everything of a version in one commit, or its failure.

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Write makes the versions of a batch ready.
func (a *Activities) Write(ctx context.Context, in wire.IngestBatch) ([]wire.Outcome, error) {
	out, err := a.run(ctx, "write", in, a.write)
	if err == nil {
		lost, failing := 0, 0
		for _, o := range out {
			if o.Lost {
				lost++
			} else if o.Reason != nil {
				failing++
			}
		}
		meters.outcome(ctx, "ready", len(in.Items)-lost-failing)
		meters.outcome(ctx, "lost", lost)
		if lost < len(in.Items) {
			a.curation.Changed(in.Tenant, in.Collection)
		}
	}
	return out, err
}

func (a *Activities) write(ctx context.Context, in wire.IngestBatch) ([]wire.Outcome, error) {
	texts, err := a.texts(ctx, "write", in)
	if err != nil {
		return nil, err
	}
	done := timed(ctx, "write", "store")
	raw, err := a.artifacts(ctx, batch.StageEncoded, in)
	done()
	if err != nil {
		return nil, err
	}
	// The model server may have changed its pack between two batches' retries:
	// one transaction holds vectors of one space.
	bySpace := map[string][]batch.Document{}
	for _, item := range in.Items {
		vectors, links, err := batch.DecodeVectors(raw[item.Version])
		if err != nil {
			return nil, fmt.Errorf("read vectors of version %s: %w", item.Version, err)
		}
		d := batch.Document{Attempt: item, Text: texts[item.Version], Vectors: vectors, Links: links}
		if vectors.Len() != d.Text.Passages() {
			return nil, fmt.Errorf("version %s has %d vectors for %d passages", item.Version, vectors.Len(), d.Text.Passages())
		}
		bySpace[vectors.Space] = append(bySpace[vectors.Space], d)
	}
	defer timed(ctx, "write", "transaction")()
	var outcomes []wire.Outcome
	for _, docs := range bySpace {
		out, err := a.store.WriteVersions(ctx, in.Tenant, in.Collection, docs)
		if err != nil {
			return nil, fmt.Errorf("write %d versions: %w", len(docs), err)
		}
		outcomes = append(outcomes, out...)
	}
	return outcomes, nil
}

// Fail marks versions as failed.
func (a *Activities) Fail(ctx context.Context, in wire.IngestBatch, outcomes []wire.Outcome) error {
	attempts := make(map[uuid.UUID]wire.Attempt, len(in.Items))
	for _, item := range in.Items {
		attempts[item.Version] = item
	}
	var failures []batch.Failure
	for _, o := range outcomes {
		item, found := attempts[o.Version]
		if !found || o.Reason == nil {
			continue
		}
		failures = append(failures, batch.Failure{Attempt: item, Reason: schema.Reason{Code: o.Reason.Code, Message: clip(o.Reason.Message)}})
	}
	if err := a.store.FailVersions(ctx, in.Tenant, failures); err != nil {
		return fmt.Errorf("mark %d versions as failed: %w", len(failures), err)
	}
	meters.outcome(ctx, "failed", len(failures))
	return nil
}
