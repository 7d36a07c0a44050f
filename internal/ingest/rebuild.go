package ingest

// The steps of RebuildCollection: stored sections become passages and vectors of another
// generation. No file is parsed again: all generations share the sections. Each step may run again,
// and may run twice at once.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/sluice-rag/sluice/internal/durable/heartbeat"
	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Generations is what a rebuild reads and writes. Every method that takes a Rebuild returns
// batch.ErrOver when that generation is not being built.
type Generations interface {
	// MissingVersions looks at up to limit documents after in.After, in the order of their ids. It
	// returns those of their live versions that the generation does not contain, and the last of
	// the documents; zero if no other follows.
	MissingVersions(ctx context.Context, in wire.Rebuild, limit int) (missing []batch.MissingVersion, last uuid.UUID, err error)
	// Segmentation returns how the generation's sections are cut into passages.
	Segmentation(ctx context.Context, in wire.Rebuild) (schema.Segmentation, error)
	// StoredTexts reads the text of those versions that are live.
	StoredTexts(ctx context.Context, in wire.Rebuild, versions []uuid.UUID) ([]batch.Stored, error)
	// WriteGeneration adds versions to the generation, except those that are no longer live or
	// already in it. It returns how many it added. A *batch.RefusedError is final.
	WriteGeneration(ctx context.Context, in wire.Rebuild, docs []batch.Recut) (int, error)
	// RebuildClusters clusters the whole generation from scratch.
	RebuildClusters(ctx context.Context, tenant, collection uuid.UUID, generation int) (clusters int, err error)
	// FlipGeneration makes the generation live if it contains all live versions. Otherwise it
	// returns the missing ones, up to limit, and holds up ingestion of the collection for the
	// duration of hold so that the rebuild can catch up.
	FlipGeneration(ctx context.Context, in wire.Rebuild, hold time.Duration, limit int) (live bool, left []uuid.UUID, err error)
	// RetryRefused queues again the documents that failed during the rebuild because the model
	// server had another model than the previous generation.
	RetryRefused(ctx context.Context, in wire.Rebuild) (int, error)
	FailRebuild(ctx context.Context, in wire.Rebuild, reason string) error
}

const (
	// missingPage is the maximum number of versions in one list. Their ids go through Temporal,
	// which takes 2 MB.
	missingPage = 4000
	// partVersions and partTokens bound what is cut in one step.
	partVersions = 64
	partTokens   = 250_000
	// flipTries is how often one Flip tries again after cutting the missing versions itself,
	// flipParts how many missing versions it cuts itself at most, and flipTimeout how long
	// ingestion waits for it at most.
	flipTries   = 10
	flipTimeout = 30 * time.Second
	flipParts   = 256
)

// Rebuilder implements the steps of RebuildCollection.
type Rebuilder struct {
	generations Generations
	models      Models
	second      Models // the second encoder's
	curation    Curation
}

// NewRebuilder returns the steps. second calls the second encoder's servers. c is notified of
// collections with a new generation, whose old one has to be swept.
func NewRebuilder(g Generations, m, second Models, c Curation) *Rebuilder {
	return &Rebuilder{generations: g, models: m, second: second, curation: c}
}

// step runs one step under a span, with heartbeats, and gives its errors the types that the
// workflow distinguishes.
func (r *Rebuilder) step(ctx context.Context, name string, in wire.Rebuild, do func(context.Context) error) error {
	ctx, span := tracer.Start(ctx, "rebuild "+name, trace.WithAttributes(
		attribute.String("sluice.tenant", in.Tenant.String()),
		attribute.String("sluice.collection", in.Collection.String()),
		attribute.Int("sluice.generation", in.Generation)))
	defer span.End()
	ctx = wire.ForTenant(ctx, in.Tenant)
	begin := time.Now()
	stop := heartbeat.Start(ctx, heartbeat.Every)
	err := do(ctx)
	stop()
	meters.rebuild.Record(ctx, time.Since(begin).Seconds(), metric.WithAttributes(attribute.String("step", name)))
	log := slog.With("step", name, "tenant", in.Tenant, "collection", in.Collection, "generation", in.Generation)
	var refused *batch.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, batch.ErrOver):
		return temporal.NewNonRetryableApplicationError(err.Error(), wire.ErrorRebuildOver, nil)
	case errors.As(err, &refused):
		log.ErrorContext(ctx, "the collection cannot be rebuilt", "reason", refused.Reason)
		return temporal.NewNonRetryableApplicationError(refused.Reason, wire.ErrorRebuildRefused, nil)
	}
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
	log.WarnContext(ctx, "a step of a rebuild failed; trying again", "try", activity.GetInfo(ctx).Attempt, "error", err)
	return fmt.Errorf("rebuild %s: %w", name, err)
}

// List finds the next page with missing versions and divides it into parts. After the last page it
// begins at the first, because documents may have changed since.
func (r *Rebuilder) List(ctx context.Context, in wire.Rebuild) (wire.RebuildParts, error) {
	var out wire.RebuildParts
	err := r.step(ctx, "list", in, func(ctx context.Context) error {
		missing, err := r.nextMissing(ctx, &in)
		if err != nil {
			return fmt.Errorf("find versions without generation %d: %w", in.Generation, err)
		}
		out.After, in.After = in.After, uuid.Nil
		for _, versions := range parts(missing) {
			out.Parts = append(out.Parts, wire.RebuildPart{Rebuild: in, Versions: versions})
		}
		return nil
	})
	return out, err
}

// nextMissing returns the missing versions of the first page that has any, and moves in.After
// behind that page.
func (r *Rebuilder) nextMissing(ctx context.Context, in *wire.Rebuild) ([]batch.MissingVersion, error) {
	fromFirst := in.After == uuid.Nil
	for {
		missing, last, err := r.generations.MissingVersions(ctx, *in, missingPage)
		in.After = last
		if err != nil || len(missing) > 0 || last == uuid.Nil && fromFirst {
			return missing, err
		}
		fromFirst = fromFirst || last == uuid.Nil
	}
}

// parts divides versions into parts, each of which is cut in one step.
func parts(missing []batch.MissingVersion) [][]uuid.UUID {
	var out [][]uuid.UUID
	var tokens int64
	for _, l := range missing {
		last := len(out) - 1
		if last < 0 || len(out[last]) == partVersions || tokens+l.Tokens > partTokens {
			out, tokens = append(out, nil), 0
			last++
		}
		out[last] = append(out[last], l.Version)
		tokens += l.Tokens
	}
	return out
}

// Cut cuts and encodes a part's versions and writes them.
func (r *Rebuilder) Cut(ctx context.Context, in wire.RebuildPart) error {
	return r.step(ctx, "cut", in.Rebuild, func(ctx context.Context) error { return r.cut(ctx, in.Rebuild, in.Versions) })
}

func (r *Rebuilder) cut(ctx context.Context, in wire.Rebuild, versions []uuid.UUID) error {
	stored, err := r.generations.StoredTexts(ctx, in, versions)
	if err != nil {
		return fmt.Errorf("read the text of %d versions: %w", len(versions), err)
	}
	if len(stored) == 0 {
		return nil // none is live any more
	}
	g, err := r.generations.Segmentation(ctx, in)
	if err != nil {
		return fmt.Errorf("read the recipe of generation %d: %w", in.Generation, err)
	}
	encoder := r.models
	if in.Second {
		encoder = r.second
	}
	docs, err := r.recut(ctx, stored, g, encoder)
	if errors.Is(err, schema.ErrInvalid) {
		if len(stored) == 1 {
			return &batch.RefusedError{Reason: fmt.Sprintf("the model server cannot take document %q: %v", stored[0].ExternalID, err)}
		}
		for _, s := range stored { // one of them is refused; cut the others all the same
			if err := r.cut(ctx, in, []uuid.UUID{s.Version}); err != nil {
				return err
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	n, err := r.generations.WriteGeneration(ctx, in, docs)
	if err != nil {
		return fmt.Errorf("write %d versions of generation %d: %w", len(docs), in.Generation, err)
	}
	meters.rebuilt.Add(ctx, int64(n))
	return nil
}

// recut cuts texts into passages as g says, and has encoder make their vectors.
func (r *Rebuilder) recut(ctx context.Context, stored []batch.Stored, g schema.Segmentation, encoder Models) ([]batch.Recut, error) {
	drafts := make([]*draft, len(stored))
	var runs [][]string
	for i, s := range stored {
		drafts[i] = &draft{text: batch.Text{Title: s.Title}}
		for _, sec := range s.Sections {
			drafts[i].add(sec, g)
		}
		runs = drafts[i].runs(runs)
	}
	scores, by, err := scoresOf(ctx, r.models, runs, g)
	if err != nil {
		return nil, fmt.Errorf("score %d runs of sentences: %w", len(runs), err)
	}
	var inputs []string
	for i, d := range drafts {
		if reason := d.cut(scores[d.first:d.first+len(d.text.Sections)], by); reason != nil {
			return nil, &batch.RefusedError{Reason: fmt.Sprintf("document %q: %s", stored[i].ExternalID, reason.Message)}
		}
		for _, sec := range d.text.Sections {
			for _, p := range sec.Passages {
				inputs = append(inputs, Embedded(d.text.Title, sec.HeadingPath, sec.Text[p.Start:p.End]))
			}
		}
	}
	counts := make([]int, len(drafts))
	for i, d := range drafts {
		counts[i] = d.text.Passages()
	}
	vectors, links, space, err := encodeAndLink(ctx, encoder, inputs, counts, "rebuild")
	if err != nil {
		return nil, err
	}
	docs := make([]batch.Recut, len(stored))
	for i, d := range drafts {
		docs[i] = batch.Recut{Version: stored[i].Version, Sections: d.text.Sections, Links: links[i],
			Vectors: batch.NewVectors(space, vectors[i].Dimension, vectors[i].Data)}
	}
	return docs, nil
}

// Cluster clusters the sections of the generation from scratch.
func (r *Rebuilder) Cluster(ctx context.Context, in wire.Rebuild) error {
	return r.step(ctx, "cluster", in, func(ctx context.Context) error {
		if _, err := r.generations.RebuildClusters(ctx, in.Tenant, in.Collection, in.Generation); err != nil {
			return fmt.Errorf("cluster generation %d: %w", in.Generation, err)
		}
		return nil
	})
}

// Flip makes the generation live. It first cuts the versions that came meanwhile, while ingestion
// waits. If there are too many of them it reports false, and they are cut as the others were.
func (r *Rebuilder) Flip(ctx context.Context, in wire.Rebuild) (live bool, err error) {
	err = r.step(ctx, "flip", in, func(ctx context.Context) error {
		for range flipTries {
			now, left, err := r.generations.FlipGeneration(ctx, in, flipTimeout, flipParts+1)
			if err != nil {
				return fmt.Errorf("make generation %d live: %w", in.Generation, err)
			}
			if live = now; live {
				break
			}
			if len(left) > flipParts {
				return nil
			}
			for len(left) > 0 {
				n := min(len(left), partVersions)
				if err := r.cut(ctx, in, left[:n]); err != nil {
					return err
				}
				left = left[n:]
			}
		}
		if !live {
			return nil
		}
		r.curation.Changed(in.Tenant, in.Collection)
		queued, err := r.generations.RetryRefused(ctx, in)
		if err != nil {
			return fmt.Errorf("queue documents of the new model again: %w", err)
		}
		slog.InfoContext(ctx, "a rebuilt generation is live", "tenant", in.Tenant, "collection", in.Collection,
			"generation", in.Generation, "queued", queued)
		return nil
	})
	return live, err
}

// Fail marks the rebuild as failed for a reason.
func (r *Rebuilder) Fail(ctx context.Context, in wire.Rebuild, reason string) error {
	return r.step(ctx, "fail", in, func(ctx context.Context) error {
		if err := r.generations.FailRebuild(ctx, in, clip(reason)); err != nil {
			return fmt.Errorf("mark generation %d as failed: %w", in.Generation, err)
		}
		return nil
	})
}
