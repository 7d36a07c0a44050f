package follow

// What happens to a synchronisation when its source fails.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// connectorError is an error of the source, as opposed to one of Sluice itself.
type connectorError struct{ error }

func (e *connectorError) Unwrap() error { return e.error }

const (
	firstPause = 2 * time.Second
	// longestPause is the longest pause between two tries of a source that fails. Tries go on for
	// as long as it takes.
	longestPause = 15 * time.Minute
	// longestLimit is the longest pause that a source can impose by its rate limit.
	longestLimit = 24 * time.Hour
)

// trouble records that a source failed, and when or whether it is tried again. It returns errors of
// Sluice itself, for which the step is tried again.
func (f *Follower) trouble(ctx context.Context, in wire.SourceSync, job SourceJob, err error) error {
	var place *connectorError
	if ctx.Err() != nil || !errors.As(err, &place) {
		return err
	}
	var field *source.FieldError
	var limit *source.RateLimitError
	problem := text(place.Error())
	slog.InfoContext(ctx, "a source failed", "tenant", in.Tenant, "source", in.Source, "driver", job.Driver, "error", place.error)
	switch {
	case errors.Is(place, source.ErrRefused):
		return f.store.StopSource(ctx, in, schema.SourceRefused, problem+"; change the settings, then resume the source")
	case errors.As(place, &field):
		return f.store.StopSource(ctx, in, schema.SourceInvalid, problem)
	case errors.As(place, &limit):
		after := limit.After
		if after <= 0 {
			after = pause(job.Tries)
		}
		return f.store.WaitSource(ctx, in, schema.SourceLimited, problem, min(after, longestLimit))
	}
	return f.store.WaitSource(ctx, in, schema.SourceRetrying, problem, pause(job.Tries))
}

// pause returns how long a source that failed tries times before is left alone.
func pause(tries int) time.Duration { return min(firstPause<<min(tries, 20), longestPause) }

// Preview returns what a run would find now, up to limit items.
func (f *Follower) Preview(ctx context.Context, r wire.SourcePreviewRequest) (schema.SourcePreview, error) {
	out := schema.SourcePreview{Items: []schema.PreviewItem{}, Skipped: []schema.SourceSkipped{}}
	job, err := f.store.SourceJob(ctx, r.Principal.Tenant, r.Source)
	if err != nil {
		return out, err
	}
	connector, err := f.open(ctx, job)
	if err != nil {
		return out, previewError(err)
	}
	defer closing(ctx, connector)
	for cursor := ""; ; {
		listing, err := connector.List(ctx, cursor)
		if err != nil {
			return out, previewError(&connectorError{err})
		}
		items, skipped := f.sort(job, listing)
		var ids []string
		for _, item := range items {
			ids = append(ids, item.ID)
		}
		known, err := f.store.KnownItems(ctx, job.Tenant, job.ID, ids)
		if err != nil {
			return out, err
		}
		for _, s := range skipped {
			out.Skipped = append(out.Skipped, schema.SourceSkipped{Path: s.Path, Reason: s.Reason})
		}
		for _, item := range items {
			if item.Reason != "" {
				out.Skipped = append(out.Skipped, schema.SourceSkipped{Path: item.Path, Reason: item.Reason})
				continue
			}
			out.Items = append(out.Items, previewOf(item, known))
		}
		cursor = listing.Next
		if len(out.Items) > r.Limit || len(out.Skipped) > r.Limit || cursor == "" {
			out.More = cursor != "" || len(out.Items) > r.Limit || len(out.Skipped) > r.Limit
			out.Items, out.Skipped = out.Items[:min(len(out.Items), r.Limit)], out.Skipped[:min(len(out.Skipped), r.Limit)]
			return out, nil
		}
	}
}

func previewOf(item Listed, known map[string]string) schema.PreviewItem {
	p := schema.PreviewItem{Path: item.Path, URL: item.URL, Size: item.Size, Would: "add"}
	if !item.Modified.IsZero() {
		p.ModifiedAt = &item.Modified
	}
	if version, there := known[item.ID]; there && version == item.Version && version != "" {
		p.Would = "keep"
	} else if there {
		p.Would = "fetch"
	}
	return p
}

// previewError converts an error for a person who asked for a preview.
func previewError(err error) error {
	var place *connectorError
	if !errors.As(err, &place) {
		return err
	}
	var field *source.FieldError
	switch {
	case errors.As(err, &field):
		return schema.Invalid("settings."+field.Field, "%s", field.Reason)
	case errors.Is(err, source.ErrRefused):
		return schema.Invalid("settings", "%s", place.Error())
	}
	return fmt.Errorf("the place does not answer: %s: %w", place.Error(), schema.ErrUnavailable)
}
