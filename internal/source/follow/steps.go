package follow

// The steps of a synchronisation.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/sluice-rag/sluice/internal/durable/heartbeat"
	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// maxStepTime is how long a step continues before it returns to its workflow.
	maxStepTime = time.Minute
	// batch is how many items are read from the store and settled at a time.
	batch = 64
)

// Register registers the steps with a worker.
func (f *Follower) Register(w worker.Worker) {
	for name, step := range map[string]any{
		wire.ActivitySourceBegin: f.Begin, wire.ActivitySourceFollow: f.Follow,
		wire.ActivitySourceDelete: f.Delete, wire.ActivitySourceRemove: f.Remove,
	} {
		w.RegisterActivityWithOptions(step, activity.RegisterOptions{Name: name})
	}
}

// Begin takes the lease of a source, and returns the next step.
func (f *Follower) Begin(ctx context.Context, in wire.SourceSync) (wire.SourceStep, error) {
	job, err := f.store.AcquireSource(ctx, in.Tenant, in.Source, f.options.Lease)
	switch {
	case errors.Is(err, schema.ErrLostLease), errors.Is(err, schema.ErrNotFound):
		return wire.SourceStep{}, nil
	case err != nil:
		return wire.SourceStep{}, err
	}
	step := wire.SourceStep{Run: job.Run, Attempt: job.Attempt, Next: wire.ActivitySourceFollow}
	switch {
	case job.State == schema.SourceRemoving:
		step.Next = wire.ActivitySourceRemove
	case job.Phase == PhaseDelete:
		step.Next = wire.ActivitySourceDelete
	}
	return step, nil
}

// step runs one step, with a heartbeat and under the source's lease. If another worker holds the
// source now, or nobody should, it returns no next step, which ends the workflow.
func (f *Follower) step(ctx context.Context, in wire.SourceSync, do func(ctx context.Context, job SourceJob) (next string, err error)) (wire.SourceStep, error) {
	job, err := f.store.RenewSource(ctx, in, f.options.Lease)
	if err == nil {
		var next string
		err = f.withLease(ctx, in, func(ctx context.Context) (err error) {
			next, err = do(ctx, job)
			return err
		})
		if err == nil {
			return wire.SourceStep{Run: in.Run, Attempt: in.Attempt, Next: next}, nil
		}
	}
	if errors.Is(err, schema.ErrLostLease) || errors.Is(err, schema.ErrNotFound) {
		slog.DebugContext(ctx, "a source is gone or another run took it over; ending this step", "tenant", in.Tenant, "source", in.Source, "error", err)
		return wire.SourceStep{}, nil
	}
	return wire.SourceStep{}, fmt.Errorf("follow source %s of tenant %s: %w", in.Source, in.Tenant, err)
}

// withLease runs do, and renews the source's lease meanwhile. Losing the lease cancels do.
func (f *Follower) withLease(ctx context.Context, in wire.SourceSync, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopHeartbeat := func() {}
	if activity.IsActivity(ctx) {
		stopHeartbeat = heartbeat.Start(ctx, heartbeat.Every)
	}
	defer stopHeartbeat()
	done := make(chan struct{})
	var renewal sync.WaitGroup
	renewal.Go(func() {
		ticker := time.NewTicker(f.options.Lease / 3)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if _, err := f.store.RenewSource(ctx, in, f.options.Lease); errors.Is(err, schema.ErrLostLease) || errors.Is(err, schema.ErrNotFound) {
				cancel(err)
				return
			}
		}
	})
	err := do(ctx)
	close(done)
	renewal.Wait()
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, schema.ErrLostLease) {
		return cause
	}
	return err
}

// Follow lists pages, and settles the items that they show.
func (f *Follower) Follow(ctx context.Context, in wire.SourceSync) (wire.SourceStep, error) {
	return f.step(ctx, in, func(ctx context.Context, job SourceJob) (string, error) {
		connector, err := f.open(ctx, job)
		if err != nil {
			return "", f.handleFailure(ctx, in, job, err)
		}
		defer closeConnector(ctx, connector)
		for start := time.Now(); time.Since(start) < maxStepTime; {
			job, err = f.store.RenewSource(ctx, in, f.options.Lease)
			if err != nil {
				return "", err
			}
			relabelled, err := f.relabel(ctx, job)
			if err != nil {
				return "", err
			}
			pending, err := f.store.PendingItems(ctx, in, batch)
			if err != nil {
				return "", err
			}
			switch {
			case relabelled:
			case job.Permissions && !job.PrincipalsListed:
				err = f.listPrincipals(ctx, in, job, connector)
			case len(pending) > 0:
				err = f.processItems(ctx, in, job, connector, pending)
			case job.Phase == PhaseList:
				err = f.list(ctx, in, job, connector)
			default:
				return f.store.EndListing(ctx, in)
			}
			if err != nil {
				return "", f.handleFailure(ctx, in, job, err)
			}
		}
		return wire.ActivitySourceFollow, nil
	})
}

// Delete deletes the documents of deleted items, and ends the run.
func (f *Follower) Delete(ctx context.Context, in wire.SourceSync) (wire.SourceStep, error) {
	return f.step(ctx, in, func(ctx context.Context, job SourceJob) (string, error) {
		for start := time.Now(); time.Since(start) < maxStepTime; {
			pending, err := f.store.PendingItems(ctx, in, batch)
			if err != nil {
				return "", err
			}
			if relabelled, err := f.relabel(ctx, job); relabelled || err != nil {
				if err != nil {
					return "", err
				}
				continue
			}
			if len(pending) == 0 {
				if ended, err := f.store.FinishRun(ctx, in); ended || err != nil {
					return "", err
				}
				continue
			}
			if slices.ContainsFunc(pending, func(i Item) bool { return i.Action != ActionDelete }) { // fetching needs the source
				return wire.ActivitySourceFollow, nil
			}
			if err := f.processItems(ctx, in, job, nil, pending); err != nil {
				return "", err
			}
		}
		return wire.ActivitySourceDelete, nil
	})
}

// Remove removes a source, and its documents unless they are kept.
func (f *Follower) Remove(ctx context.Context, in wire.SourceSync) (wire.SourceStep, error) {
	return f.step(ctx, in, func(ctx context.Context, job SourceJob) (string, error) {
		for start := time.Now(); !job.KeepDocuments && time.Since(start) < maxStepTime; {
			items, err := f.store.RemainingItems(ctx, in, batch)
			if err != nil {
				return "", err
			}
			if len(items) == 0 {
				return "", f.store.DropSource(ctx, in)
			}
			var deleted []string
			for _, item := range items {
				if err := f.delete(ctx, job, item); err != nil {
					return "", err
				}
				deleted = append(deleted, item.ID)
			}
			if err := f.store.ForgetItems(ctx, in, deleted); err != nil {
				return "", err
			}
		}
		if job.KeepDocuments {
			return "", f.store.DropSource(ctx, in)
		}
		return wire.ActivitySourceRemove, nil
	})
}

// open connects to a source.
func (f *Follower) open(ctx context.Context, job SourceJob) (source.Connector, error) {
	driver, ok := f.options.Drivers[job.Driver]
	if !ok {
		return nil, &connectorError{&source.FieldError{Field: "driver", Reason: fmt.Sprintf("source-worker has no driver %q; `sluice sources drivers` lists those it has", job.Driver)}}
	}
	secrets, err := f.options.Keys.Open(job.Tenant, job.ID, job.Sealed)
	if err != nil {
		return nil, &connectorError{&source.FieldError{Field: "secrets", Reason: err.Error()}}
	}
	values := map[string]string{}
	for name, value := range job.Settings {
		values[name] = value
	}
	for name, value := range secrets {
		values[name] = value
	}
	connector, err := driver.Open(ctx, source.Settings{Values: values, Include: job.Include, Exclude: job.Exclude,
		MaxItemBytes: f.maxBytes(job), AllowPrivate: f.options.AllowPrivate, Roots: f.options.Roots, Permissions: job.Permissions})
	if err != nil {
		return nil, &connectorError{err}
	}
	if _, ok := connector.(source.Permissions); job.Permissions && !ok {
		closeConnector(ctx, connector)
		return nil, &connectorError{&source.FieldError{Field: source.PermissionsSetting, Reason: fmt.Sprintf("the driver %s does not tell who may see what", job.Driver)}}
	}
	return connector, nil
}

// maxBytes returns the maximum size of an item of a source.
func (f *Follower) maxBytes(job SourceJob) int64 {
	if job.MaxBytes > 0 {
		return min(job.MaxBytes, f.options.MaxBytes)
	}
	return f.options.MaxBytes
}

func closeConnector(ctx context.Context, c source.Connector) {
	if err := c.Close(); err != nil {
		slog.DebugContext(ctx, "cannot close the connection to a source", "error", err)
	}
}

// list lists the next page and stores it.
func (f *Follower) list(ctx context.Context, in wire.SourceSync, job SourceJob, c source.Connector) error {
	listing, err := c.List(ctx, job.Cursor)
	if errors.Is(err, source.ErrCursorExpired) && job.Cursor != "" {
		if err := f.store.RestartListing(ctx, in); err != nil {
			return err
		}
		if job.Tries == 0 { // otherwise the source has just failed; wait before asking again
			job.Cursor = ""
			listing, err = c.List(ctx, "")
		}
	}
	if err != nil {
		return &connectorError{err}
	}
	page := ListedPage{Folders: listing.Folders, Deleted: listing.Deleted, Next: listing.Next, Changes: listing.Changes, Pushed: job.Pushed}
	page.Items, page.Skipped = f.classify(job, listing)
	return ignoreConflict(ctx, job, f.store.SaveListing(ctx, in, job.Cursor, page))
}

// classify divides a listing into its usable items, each once, and what is left out.
func (f *Follower) classify(job SourceJob, l source.Listing) (items []Listed, skipped []source.Skipped) {
	skipped = append(skipped, l.Skipped...)
	index := map[string]int{}
	for _, item := range l.Items {
		switch reason := invalidReason(item); {
		case reason != "":
			skipped = append(skipped, source.Skipped{Path: text(item.Path), Reason: reason})
			continue
		case !source.Included(job.Include, job.Exclude, item.Path):
			skipped = append(skipped, source.Skipped{Path: item.Path, Reason: "excluded by the source's patterns"})
			continue
		}
		listed := Listed{Item: item}
		if limit := f.maxBytes(job); item.Size > limit {
			listed.Reason = tooLarge(limit)
		}
		if i, ok := index[item.ID]; ok {
			items[i] = listed
			continue
		}
		index[item.ID] = len(items)
		items = append(items, listed)
	}
	for i := range skipped {
		skipped[i] = source.Skipped{Path: text(skipped[i].Path), Reason: text(skipped[i].Reason)}
	}
	return items, skipped
}
