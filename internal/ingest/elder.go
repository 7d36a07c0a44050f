package ingest

// The stages of IngestBatch, which builds before IngestVersions started: its
// workflows run to their end on the stages that there are now. Cutting and encoding
// happen where it writes.

import (
	"context"

	"github.com/sluice-rag/sluice/schema/wire"
)

func versionsOf(in wire.IngestBatch) wire.IngestVersions {
	links := in.Links
	in.Links = nil
	return wire.IngestVersions{Parts: []wire.IngestBatch{in}, Links: links}
}

// ParseBatch is Parse.
func (a *Activities) ParseBatch(ctx context.Context, in wire.IngestBatch) ([]wire.Outcome, error) {
	return a.Parse(ctx, versionsOf(in))
}

// CutBatch does nothing: WriteBatch cuts and encodes.
func (a *Activities) CutBatch(context.Context, wire.IngestBatch) ([]wire.Outcome, error) {
	return nil, nil
}

// WriteBatch is Index.
func (a *Activities) WriteBatch(ctx context.Context, in wire.IngestBatch) ([]wire.Outcome, error) {
	return a.Index(ctx, versionsOf(in))
}

// FailBatch is Fail.
func (a *Activities) FailBatch(ctx context.Context, in wire.IngestBatch, outcomes []wire.Outcome) error {
	return a.Fail(ctx, versionsOf(in), outcomes)
}
