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
	artifacts, err := a.encoded(ctx, in, texts)
	if errors.Is(err, schema.ErrInvalid) {
		return a.eachAlone(ctx, in, nil, a.encode, err)
	}
	if err != nil {
		return nil, err
	}
	defer timed(ctx, "encode", "store")()
	if err := a.store.SaveArtifacts(ctx, in.Tenant, batch.StageEncoded, artifacts); err != nil {
		return nil, fmt.Errorf("save vectors: %w", err)
	}
	return nil, nil
}

// encoded makes the artifacts of a batch. Those of a collection of the second encoder have zero vectors, which that
// encoder replaces once they are written.
func (a *Activities) encoded(ctx context.Context, in wire.IngestBatch, texts map[uuid.UUID]batch.Text) (artifacts []batch.Artifact, err error) {
	var inputs []string
	var items []wire.Attempt // that are encoded now
	var counts []int
	add := func(item wire.Attempt, v batch.Vectors, l batch.Links) error {
		data, err := v.Encode(l)
		artifacts = append(artifacts, batch.Artifact{Attempt: item, Data: data})
		return err
	}
	for _, item := range in.Items {
		t := texts[item.Version]
		if t.Later != nil {
			none := make([]float32, t.Passages()*t.Later.Dimension)
			if err := add(item, batch.NewVectors(t.Later.Name, t.Later.Dimension, none), nil); err != nil {
				return nil, err
			}
			continue
		}
		items, counts = append(items, item), append(counts, t.Passages())
		for _, sec := range t.Sections {
			for _, p := range sec.Passages {
				inputs = append(inputs, Embedded(t.Title, sec.HeadingPath, sec.Text[p.Start:p.End]))
			}
		}
	}
	if len(items) == 0 {
		return artifacts, nil
	}
	vectors, links, space, err := encodeAndLink(ctx, a.models, inputs, counts, "encode")
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		if err := add(item, batch.NewVectors(space, vectors[i].Dimension, vectors[i].Data), links[i]); err != nil {
			return nil, err
		}
	}
	return artifacts, nil
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
