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
	minBackoff = 2 * time.Second
	// maxBackoff is the longest pause between two tries of a source that fails. Tries go on for
	// as long as it takes.
	maxBackoff = 15 * time.Minute
	// maxRateLimitWait is the longest pause that a source can impose by its rate limit.
	maxRateLimitWait = 24 * time.Hour
)

// handleFailure records that a source failed, and when or whether it is tried again. It returns
// errors of Sluice itself, for which the step is tried again.
func (f *Follower) handleFailure(ctx context.Context, in wire.SourceSync, job SourceJob, err error) error {
	var sourceErr *connectorError
	if ctx.Err() != nil || !errors.As(err, &sourceErr) {
		return err
	}
	var field *source.FieldError
	var limit *source.RateLimitError
	problem := text(sourceErr.Error())
	slog.InfoContext(ctx, "a source failed", "tenant", in.Tenant, "source", in.Source, "driver", job.Driver, "error", sourceErr.error)
	switch {
	case errors.Is(sourceErr, source.ErrRefused):
		return f.store.StopSource(ctx, in, schema.SourceRefused, problem+"; change the settings, then resume the source")
	case errors.As(sourceErr, &field):
		return f.store.StopSource(ctx, in, schema.SourceInvalid, problem)
	case errors.As(sourceErr, &limit):
		after := limit.After
		if after <= 0 {
			after = backoff(job.Tries)
		}
		return f.store.DelaySource(ctx, in, schema.SourceLimited, problem, min(after, maxRateLimitWait))
	}
	return f.store.DelaySource(ctx, in, schema.SourceRetrying, problem, backoff(job.Tries))
}

// backoff returns how long a source that failed tries times before is left alone.
func backoff(tries int) time.Duration { return min(minBackoff<<min(tries, 20), maxBackoff) }

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
	defer closeConnector(ctx, connector)
	for cursor := ""; ; {
		listing, err := connector.List(ctx, cursor)
		if err != nil {
			return out, previewError(&connectorError{err})
		}
		items, skipped := f.classify(job, listing)
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
	if version, ok := known[item.ID]; ok && version == item.Version && version != "" {
		p.Would = "keep"
	} else if ok {
		p.Would = "fetch"
	}
	return p
}

// previewError converts an error for a person who asked for a preview.
func previewError(err error) error {
	var sourceErr *connectorError
	if !errors.As(err, &sourceErr) {
		return err
	}
	var field *source.FieldError
	switch {
	case errors.As(err, &field):
		return schema.Invalid("settings."+field.Field, "%s", field.Reason)
	case errors.Is(err, source.ErrRefused):
		return schema.Invalid("settings", "%s", sourceErr.Error())
	}
	return fmt.Errorf("the source's server does not answer: %s: %w", sourceErr.Error(), schema.ErrUnavailable)
}
