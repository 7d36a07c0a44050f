package ingest

// The second encoder: passages of its collections are encoded after they were written, and
// collections of the first encoder are rebuilt with it in the background.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Unencoded is what the second encoder reads and writes.
type Unencoded interface {
	// Unencoded returns live versions of a collection of the second encoder that were written
	// before they were encoded: at least one, and further ones up to passages passages in all. A
	// collection of the first encoder has none.
	Unencoded(ctx context.Context, tenant, collection uuid.UUID, passages int) (generation int, docs []batch.Written, err error)
	// WriteVectors writes the vectors and links of those versions that have none yet, and returns
	// how many. Vectors of another space than the collection's are a *batch.RefusedError.
	WriteVectors(ctx context.Context, tenant, collection uuid.UUID, generation int, docs []batch.Recut) (int, error)
	// BeginSecond starts a rebuild with the second encoder for a collection that allows it and has
	// no such generation, unless one is being built anywhere.
	BeginSecond(ctx context.Context) (tenant, collection uuid.UUID, began bool, err error)
}

const (
	// secondPassages is the number of passages that are encoded before they are written.
	secondPassages = 256
	// secondTimeout is how long the encoding of some versions may take, and secondTimePerUnit how
	// much longer for each of their passages. They are bounded because curation has other steps.
	secondTimeout     = 10 * time.Minute
	secondTimePerUnit = time.Second
	// secondTime is how long the second encoder may take to answer whether it is available.
	secondTime = time.Second
)

// SecondEncoder encodes the passages that wait for the second encoder.
type SecondEncoder struct {
	store  Unencoded
	models Models
}

// NewSecondEncoder returns one that uses models, the client of the second encoder's servers.
func NewSecondEncoder(s Unencoded, models Models) *SecondEncoder { return &SecondEncoder{s, models} }

// available reports whether a server of the second encoder answers.
func (e *SecondEncoder) available(ctx context.Context) (bool, error) {
	checkCtx, cancel := context.WithTimeout(ctx, secondTime)
	defer cancel()
	_, err := e.models.Info(checkCtx)
	if err == nil || ctx.Err() != nil {
		return err == nil, ctx.Err()
	}
	if errors.Is(err, schema.ErrUnavailable) || errors.Is(err, schema.ErrOverloaded) {
		return false, nil
	}
	return false, err
}

// Begin starts a rebuild of a collection with the second encoder, if a server of it answers and no
// such rebuild is under way.
func (e *SecondEncoder) Begin(ctx context.Context) error {
	available, err := e.available(ctx)
	if err != nil || !available {
		return err
	}
	tenant, collection, began, err := e.store.BeginSecond(ctx)
	if err != nil {
		return fmt.Errorf("begin a generation of the second encoder: %w", err)
	}
	if began {
		slog.InfoContext(ctx, "encoding a collection with the second encoder in the background", "tenant", tenant, "collection", collection)
	}
	return nil
}

// Encode encodes some versions of a collection that were written before they were encoded. It
// returns how many, and whether there are more. If no server answers, or none can encode them, it
// returns 0 and false: the versions stay marked, and curation comes back to them.
func (e *SecondEncoder) Encode(ctx context.Context, tenant, collection uuid.UUID) (done int, more bool, err error) {
	generation, docs, err := e.store.Unencoded(ctx, tenant, collection, secondPassages)
	if err != nil || len(docs) == 0 {
		return 0, false, err
	}
	if available, err := e.available(ctx); err != nil || !available {
		return 0, false, err
	}
	encoded, err := e.encode(wire.ForTenant(ctx, tenant), docs)
	if err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "cannot make vectors of documents with the second encoder; trying again later", "tenant", tenant, "collection", collection, "versions", len(docs), "error", err)
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	done, err = e.store.WriteVectors(ctx, tenant, collection, generation, encoded)
	var refused *batch.RefusedError
	if errors.As(err, &refused) {
		slog.WarnContext(ctx, "cannot make vectors of documents with the second encoder; trying again later", "tenant", tenant, "collection", collection, "reason", refused.Reason)
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("write the vectors of %d versions: %w", len(encoded), err)
	}
	return done, true, nil
}

// encode makes the vectors and links of the stored passages of versions.
func (e *SecondEncoder) encode(ctx context.Context, stored []batch.Written) ([]batch.Recut, error) {
	docs := make([]batch.Recut, len(stored))
	counts := make([]int, len(stored))
	var inputs []string
	for i, s := range stored {
		docs[i] = batch.Recut{Version: s.Version, Sections: s.Sections}
		for _, sec := range s.Sections {
			counts[i] += len(sec.Passages)
			for _, p := range sec.Passages {
				inputs = append(inputs, Embedded(s.Title, sec.HeadingPath, sec.Text[p.Start:p.End]))
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, secondTimeout+time.Duration(len(inputs))*secondTimePerUnit)
	defer cancel()
	vectors, links, space, err := encodeAndLink(ctx, e.models, inputs, counts, "second")
	if err != nil {
		return nil, err
	}
	for i := range docs {
		docs[i].Vectors, docs[i].Links = batch.NewVectors(space, vectors[i].Dimension, vectors[i].Data), links[i]
	}
	return docs, nil
}
