// Package sourceworker composes the worker that keeps collections in step with sources: it finds
// the sources that are due, and runs their synchronisations as workflows. The caller passes the
// drivers, so that only one program links what their connectors depend on.
package sourceworker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	temporalworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/durable/heartbeat"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/signature"
	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/source/folder"
	"github.com/sluice-rag/sluice/internal/source/follow"
	"github.com/sluice-rag/sluice/internal/source/seal"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
	"github.com/sluice-rag/sluice/workflows"
)

// Grace is how long a worker that stops waits for the work in progress.
const Grace = 20 * time.Second

// Settings are the settings of the worker.
type Settings struct {
	config.Synchronisation
	config.SourceKeys
}

// Deps are the connections that the worker uses. The caller closes them.
type Deps struct {
	Store    *store.Store
	NATS     *nats.Conn
	Temporal client.Client
	Trusted  *signature.Trusted // keys whose requests for previews are accepted; nil: all requests are
}

const (
	// maxDueSources is the maximum number of sources that one round starts.
	maxDueSources = 200
	// registerInterval is the interval at which a worker registers its drivers.
	registerInterval = 15 * time.Second
	// previewTimeout is the timeout of a preview.
	previewTimeout = 2 * time.Minute
	previews       = 4 // at once
	// stopShare is the part of the time to stop in which steps may finish; then they are cancelled,
	// and another worker repeats them.
	stopShare = 0.5
)

type worker struct {
	settings Settings
	deps     Deps
	stores   stores.All
	follower *follow.Follower
	drivers  map[string]source.Driver
}

// New returns the worker with these drivers and the driver of local folders.
func New(s Settings, d Deps, drivers []source.Driver) (lifecycle.Service, error) {
	byName := map[string]source.Driver{}
	for _, driver := range append(slices.Clone(drivers), folder.Driver()) {
		if _, ok := byName[driver.Name]; ok {
			return nil, schema.Invalid("drivers", "%q is registered twice", driver.Name)
		}
		byName[driver.Name] = driver
	}
	for _, root := range s.SourceRoots {
		if !filepath.IsAbs(root) {
			return nil, schema.Invalid("SLUICE_SOURCE_ROOTS", "%q is not an absolute path, such as /srv/documents", root)
		}
	}
	keys, err := seal.Read(s.SourcesKeyFile, s.SourcesKey)
	if err != nil {
		return nil, err
	}
	d.Store.OnOutbox(bus.WakeRelay(d.NATS))
	all := stores.Of(d.Store)
	maxBytes := cmp.Or(s.SourceItem, 100) << 20
	w := &worker{settings: s, deps: d, stores: all, drivers: byName}
	w.follower = follow.New(all, documents.New(all, documents.Options{MaxBytes: maxBytes}), all, follow.Options{
		Drivers: byName, Keys: keys, Roots: s.SourceRoots, AllowPrivate: s.SourcePrivate, MaxBytes: maxBytes,
		Fetches: cmp.Or(s.SourceFetches, 8), Lease: cmp.Or(s.SourceLease, time.Minute),
	})
	return lifecycle.NewGroup("source worker", Grace,
		w.registerDrivers(),
		w.temporalWorker(),
		bus.Serve(d.NATS, bus.ServeOptions{Subject: wire.SourcePreviewSubject, Group: wire.SourceGroup, Concurrency: previews, Timeout: previewTimeout,
			StopShare: stopShare, Trusted: d.Trusted}, w.preview, previewFailure),
		w.starter(),
	), nil
}

// temporalWorker runs synchronisations.
func (w *worker) temporalWorker() lifecycle.Service {
	return durable.Worker("synchronisations", w.deps.Temporal, wire.TaskQueueSources, temporalworker.Options{
		MaxConcurrentActivityExecutionSize: cmp.Or(w.settings.SourceRuns, 16),
		WorkerStopTimeout:                  time.Second,
		MaxHeartbeatThrottleInterval:       heartbeat.Every,
		DisableRegistrationAliasing:        true,
	}, stopShare, func(r temporalworker.Worker) {
		r.RegisterWorkflowWithOptions(workflows.SyncSource, workflow.RegisterOptions{Name: wire.WorkflowSyncSource})
		w.follower.Register(r)
	})
}

// starter starts the synchronisations that are due. One worker at a time, the leader, runs it. If
// two do so, starting a workflow that runs already has no effect.
func (w *worker) starter() lifecycle.Service {
	return lifecycle.NewLeaderLoop(lifecycle.LeaderLoop{Name: "starter of synchronisations", Elector: w.deps.Store, Every: cmp.Or(w.settings.SourceTick, 2*time.Second),
		Round: func(_, work context.Context) error { return w.start(work) }})
}

func (w *worker) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	due, err := w.stores.DueSources(ctx, maxDueSources)
	if err != nil {
		return err
	}
	for _, in := range due {
		if _, err := w.deps.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: wire.SourceWorkflowID(in.Source), TaskQueue: wire.TaskQueueSources,
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		}, wire.WorkflowSyncSource, in); err != nil {
			return fmt.Errorf("start the workflow of source %s: %w", in.Source, err)
		}
	}
	return nil
}

// registerDrivers registers this worker's drivers while it runs.
func (w *worker) registerDrivers() lifecycle.Service {
	var infos []schema.SourceDriver
	for _, name := range slices.Sorted(maps.Keys(w.drivers)) {
		infos = append(infos, driverInfo(w.drivers[name]))
	}
	first := func(ctx context.Context) error { return w.stores.RegisterDrivers(ctx, infos) } // so that sources can be added from now on
	return lifecycle.NewLoop("drivers of sources", first, func(fetch, work context.Context) error {
		ticker := time.NewTicker(registerInterval)
		defer ticker.Stop()
		for {
			select {
			case <-fetch.Done():
				return fetch.Err()
			case <-ticker.C:
			}
			if err := w.stores.RegisterDrivers(work, infos); err != nil && fetch.Err() == nil {
				slog.WarnContext(work, "cannot register the source drivers; trying again", "error", err)
			}
		}
	})
}

func driverInfo(d source.Driver) schema.SourceDriver {
	out := schema.SourceDriver{Name: d.Name, Summary: d.Summary, Fields: []schema.SourceField{}, Running: true}
	for _, f := range d.Fields {
		out.Fields = append(out.Fields, schema.SourceField{Name: f.Name, Summary: f.Summary, Required: f.Required, Secret: f.Secret, Values: f.Values})
	}
	return out
}

func (w *worker) preview(ctx context.Context, r wire.SourcePreviewRequest) wire.SourcePreviewReply {
	preview, err := w.follower.Preview(ctx, r)
	if err != nil {
		slog.InfoContext(ctx, "a preview of a source failed", "tenant", r.Principal.Tenant, "source", r.Source, "error", err)
		return previewFailure(schema.ToRemote(err))
	}
	return wire.SourcePreviewReply{Envelope: wire.Header(), SourcePreview: preview}
}

func previewFailure(e *schema.RemoteError) wire.SourcePreviewReply {
	return wire.SourcePreviewReply{Envelope: wire.Header(), Error: e}
}
