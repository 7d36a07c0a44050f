package ingest

// The stages of IngestBatch, the workflow that builds started before there was IngestVersions. Such
// workflows run to their end on today's stages. Cutting and encoding happen in WriteBatch.

import (
	"context"

	"github.com/sluice-rag/sluice/schema/wire"
)

func versionsOf(in wire.IngestBatch) wire.IngestVersions {
	links := in.Links
	in.Links = nil
	return wire.IngestVersions{Parts: []wire.IngestBatch{in}, Links: links}
}

// ParseBatch does what Parse does.
func (a *Activities) ParseBatch(ctx context.Context, in wire.IngestBatch) ([]wire.Outcome, error) {
	return a.Parse(ctx, versionsOf(in))
}

// CutBatch does nothing: WriteBatch cuts and encodes.
func (a *Activities) CutBatch(context.Context, wire.IngestBatch) ([]wire.Outcome, error) {
	return nil, nil
}

// WriteBatch does what Index does.
func (a *Activities) WriteBatch(ctx context.Context, in wire.IngestBatch) ([]wire.Outcome, error) {
	return a.Index(ctx, versionsOf(in))
}

// FailBatch does what Fail does.
func (a *Activities) FailBatch(ctx context.Context, in wire.IngestBatch, outcomes []wire.Outcome) error {
	return a.Fail(ctx, versionsOf(in), outcomes)
}
