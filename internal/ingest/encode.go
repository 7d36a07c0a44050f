package ingest

// The third stage: passages to vectors, and those to links.

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Encode makes the vectors of a batch's passages, and the links between them.
func (a *Activities) Encode(ctx context.Context, in wire.IngestBatch) ([]wire.Outcome, error) {
	return a.run(ctx, "encode", in, a.encode)
}

func (a *Activities) encode(ctx context.Context, in wire.IngestBatch) ([]wire.Outcome, error) {
	texts, err := a.texts(ctx, "encode", in)
	if err != nil {
		return nil, err
	}
	var inputs []string
	for _, item := range in.Items {
		t := texts[item.Version]
		for _, sec := range t.Sections {
			for _, p := range sec.Passages {
				inputs = append(inputs, Embedded(t.Title, sec.HeadingPath, sec.Text[p.Start:p.End]))
			}
		}
	}
	done := timed(ctx, "encode", "model")
	vectors, space, err := a.models.Encode(ctx, wire.LaneBulk, inputs)
	done()
	if errors.Is(err, schema.ErrInvalid) {
		return a.eachAlone(ctx, in, nil, a.encode, err)
	}
	if err != nil {
		return nil, fmt.Errorf("encode %d passages: %w", len(inputs), err)
	}
	if vectors.Len() != len(inputs) {
		return nil, fmt.Errorf("the model server sent %d vectors for %d passages", vectors.Len(), len(inputs))
	}
	counts := make([]int, len(in.Items))
	for i, item := range in.Items {
		counts[i] = texts[item.Version].Passages()
	}
	done = timed(ctx, "encode", "link")
	links, err := linked(ctx, a.models, space, vectors, counts)
	done()
	if err != nil {
		return nil, err
	}
	artifacts := make([]batch.Artifact, 0, len(in.Items))
	row := 0
	for i, item := range in.Items {
		n := counts[i]
		rows := vectors.Data[row*vectors.Dimension : (row+n)*vectors.Dimension]
		row += n
		data, err := batch.NewVectors(space, vectors.Dimension, rows).Encode(links[i])
		if err != nil {
			return nil, err
		}
		artifacts = append(artifacts, batch.Artifact{Attempt: item, Data: data})
	}
	defer timed(ctx, "encode", "store")()
	if err := a.store.SaveArtifacts(ctx, in.Tenant, batch.StageEncoded, artifacts); err != nil {
		return nil, fmt.Errorf("save vectors: %w", err)
	}
	return nil, nil
}

// texts reads the segmented artifacts of a batch.
func (a *Activities) texts(ctx context.Context, stage string, in wire.IngestBatch) (map[uuid.UUID]batch.Text, error) {
	defer timed(ctx, stage, "store")()
	raw, err := a.artifacts(ctx, batch.StageSegmented, in)
	if err != nil {
		return nil, err
	}
	out := make(map[uuid.UUID]batch.Text, len(raw))
	for id, data := range raw {
		if out[id], err = batch.Unpack[batch.Text](data); err != nil {
			return nil, fmt.Errorf("read passages of version %s: %w", id, err)
		}
	}
	return out, nil
}

// Embedded is the text that is embedded for a passage.
func Embedded(title string, headings []string, passage string) string {
	input, _ := text.InContext(title, headings, passage)
	return input
}
