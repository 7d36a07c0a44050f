package ingestworker

// Curation on Temporal: the worker that runs the workflows of collections and their activities, the
// signals that start them, and the client with which the reconciler starts them.

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/internal/curate"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/fairness"
	"github.com/sluice-rag/sluice/internal/ingest"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema/wire"
	"github.com/sluice-rag/sluice/workflows"
)

const (
	// curateAtOnce is how many activities of curations and rebuilds one worker runs at once: few,
	// because ingestion and questions have priority. An activity that waits for the second encoder,
	// which serves one build at a time, leaves slots for two others.
	curateAtOnce = 3
	// signalEvery is the minimum time between signals.
	signalEvery = 250 * time.Millisecond
	// curateTogether is the maximum number of collections in one workflow.
	curateTogether = 200
	// signalTime is the timeout of one signal.
	signalTime = 5 * time.Second
)

// curator returns the Temporal worker of curations and rebuilds. Stop cancels their activities;
// another worker repeats them.
func curator(c client.Client, a *curate.Activities, r *ingest.Rebuilder, searches *fairness.Foreground) lifecycle.Service {
	return durable.Worker("curation", c, wire.TaskQueueCurate, worker.Options{
		MaxConcurrentActivityExecutionSize:     curateAtOnce,
		MaxConcurrentActivityTaskPollers:       1,
		MaxConcurrentWorkflowTaskPollers:       2,
		MaxConcurrentWorkflowTaskExecutionSize: 2 * curateAtOnce,
		WorkerStopTimeout:                      time.Second,
		Interceptors:                           []interceptor.WorkerInterceptor{&pausingOptions{searches: searches}},
	}, 1, func(w worker.Worker) {
		w.RegisterWorkflowWithOptions(workflows.CurateCollection, workflow.RegisterOptions{Name: wire.WorkflowCurate})
		w.RegisterWorkflowWithOptions(workflows.CurateCollections, workflow.RegisterOptions{Name: wire.WorkflowCurateMany})
		w.RegisterWorkflowWithOptions(workflows.RebuildCollection, workflow.RegisterOptions{Name: wire.WorkflowRebuild})
		for name, step := range map[string]any{
			wire.ActivityBackfill: a.Backfill, wire.ActivityCluster: a.Cluster, wire.ActivityMerge: a.Merge,
			wire.ActivityVectors: a.Vectors, wire.ActivitySweep: a.Sweep, wire.ActivityCurateMany: a.Many,
			wire.ActivityRebuildList: r.List, wire.ActivityRebuildCut: r.Cut, wire.ActivityRebuildCluster: r.Cluster,
			wire.ActivityRebuildFlip: r.Flip, wire.ActivityRebuildFail: r.Fail,
		} {
			w.RegisterActivityWithOptions(step, activity.RegisterOptions{Name: name})
		}
	})
}

// reparser returns the Temporal worker that parses documents again, one part at a time. Stop
// cancels it; another worker goes on.
func reparser(c client.Client, r *ingest.Reparser, searches *fairness.Foreground) lifecycle.Service {
	return durable.Worker("parsing again", c, wire.TaskQueueReparse, worker.Options{
		MaxConcurrentActivityExecutionSize: 1,
		MaxConcurrentActivityTaskPollers:   1,
		MaxConcurrentWorkflowTaskPollers:   2,
		WorkerStopTimeout:                  time.Second,
		Interceptors:                       []interceptor.WorkerInterceptor{&pausingOptions{searches: searches}},
	}, 1, func(w worker.Worker) {
		w.RegisterWorkflowWithOptions(workflows.ReparseCollection, workflow.RegisterOptions{Name: wire.WorkflowReparse})
		for name, step := range map[string]any{
			wire.ActivityReparseList: r.List, wire.ActivityReparseParse: r.Parse, wire.ActivityReparseFinish: r.Finish,
		} {
			w.RegisterActivityWithOptions(step, activity.RegisterOptions{Name: name})
		}
	})
}

// signals starts curations after changes, without blocking the caller. If one collection has
// changed, its own curation is signalled. Several changed collections are curated in one workflow;
// changes that come meanwhile wait for the next one. A lost signal only costs time, because the
// reconciler finds the collections.
type signals struct {
	*lifecycle.Loop
	client client.Client
	wake   chan struct{}

	mu      sync.Mutex
	changed map[wire.Curation]bool
}

func newSignals(c client.Client) *signals {
	s := &signals{client: c, wake: make(chan struct{}, 1), changed: map[wire.Curation]bool{}}
	s.Loop = lifecycle.NewLoop("curation signals", nil, s.run)
	return s
}

// Changed implements ingest.Curation.
func (s *signals) Changed(tenant, collection uuid.UUID) {
	s.mu.Lock()
	s.changed[wire.Curation{Tenant: tenant, Collection: collection}] = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take removes and returns up to limit changed collections, taking from each tenant in turn.
func (s *signals) take(limit int) []wire.Curation {
	s.mu.Lock()
	defer s.mu.Unlock()
	byTenant := map[uuid.UUID][]wire.Curation{}
	for c := range s.changed {
		byTenant[c.Tenant] = append(byTenant[c.Tenant], c)
	}
	var out []wire.Curation
	for turn := 0; len(out) < min(limit, len(s.changed)); turn++ {
		for _, of := range byTenant {
			if turn < len(of) && len(out) < limit {
				out = append(out, of[turn])
			}
		}
	}
	for _, c := range out {
		delete(s.changed, c)
	}
	return out
}

func (s *signals) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.changed)
}

func (s *signals) run(fetch, work context.Context) error {
	var together sync.WaitGroup
	defer together.Wait()
	over := make(chan struct{}, 1)
	busy := false // a workflow of several collections runs
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-fetch.Done():
			for s.waiting() > 0 { // changes of the last batches
				if _, err := s.send(work, s.take(curateTogether)); err != nil {
					slog.WarnContext(work, "cannot signal curations; the reconciler will begin them", "error", err)
				}
			}
			return nil
		case <-over:
			busy = false
		case <-s.wake:
		}
		if busy || s.waiting() == 0 {
			continue
		}
		// Wait, so that changes that come close together are sent together.
		pause.Reset(signalEvery)
		select {
		case <-fetch.Done():
			continue
		case <-pause.C:
		}
		list := s.take(curateTogether)
		id, err := s.send(work, list)
		if err != nil {
			slog.WarnContext(work, "cannot signal curations; the reconciler will begin them", "collections", len(list), "error", err)
			continue
		}
		if id == "" {
			continue
		}
		busy = true
		together.Go(func() {
			if err := s.client.GetWorkflow(fetch, id, "").Get(fetch, nil); err != nil && fetch.Err() == nil {
				slog.WarnContext(work, "a curation of several collections failed; the reconciler will begin it again", "workflow", id, "error", err)
			}
			over <- struct{}{}
		})
	}
}

// send starts the curation of collections. For several collections it returns the id of their
// workflow.
func (s *signals) send(ctx context.Context, list []wire.Curation) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, signalTime)
	defer cancel()
	if len(list) == 1 {
		_, err = s.client.SignalWithStartWorkflow(ctx, wire.CurateWorkflowID(list[0].Collection), wire.SignalCurate, nil,
			curateOptions(list[0]), wire.WorkflowCurate, list[0])
		return "", err
	}
	id = wire.CurateManyWorkflowID(uuid.NewString())
	return id, curateTogetherAs(ctx, s.client, id, list)
}

func curateTogetherAs(ctx context.Context, c client.Client, id string, list []wire.Curation) error {
	_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       id,
		TaskQueue:                wire.TaskQueueCurate,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	}, wire.WorkflowCurateMany, wire.Curations{Collections: list})
	return err
}

func curateOptions(c wire.Curation) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                       wire.CurateWorkflowID(c.Collection),
		TaskQueue:                wire.TaskQueueCurate,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	}
}

// curations starts workflows for the reconciler.
type curations struct{ client client.Client }

// Curate implements curate.Workflows. Only one workflow of several collections runs at a time;
// collections that it does not include are found again later.
func (s curations) Curate(ctx context.Context, list []wire.Curation) error {
	if len(list) > 1 {
		if err := curateTogetherAs(ctx, s.client, wire.CurateManyWorkflowID("found"), list); err != nil {
			return fmt.Errorf("begin the curation of %d collections: %w", len(list), err)
		}
		return nil
	}
	for _, in := range list {
		if _, err := s.client.ExecuteWorkflow(ctx, curateOptions(in), wire.WorkflowCurate, in); err != nil {
			return fmt.Errorf("begin the curation of collection %s: %w", in.Collection, err)
		}
	}
	return nil
}

// Rebuild implements curate.Workflows.
func (s curations) Rebuild(ctx context.Context, in wire.Rebuild) error {
	options := client.StartWorkflowOptions{
		ID:                       wire.RebuildWorkflowID(in.Collection, in.Generation),
		TaskQueue:                wire.TaskQueueCurate,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	}
	if _, err := s.client.ExecuteWorkflow(ctx, options, wire.WorkflowRebuild, in); err != nil {
		return fmt.Errorf("begin the rebuild of collection %s: %w", in.Collection, err)
	}
	return nil
}

// Reparse implements curate.Workflows.
func (s curations) Reparse(ctx context.Context, in wire.Reparse) error {
	options := client.StartWorkflowOptions{
		ID:                       wire.ReparseWorkflowID(in.Collection, in.Number),
		TaskQueue:                wire.TaskQueueReparse,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	}
	if _, err := s.client.ExecuteWorkflow(ctx, options, wire.WorkflowReparse, in); err != nil {
		return fmt.Errorf("begin to parse the documents of collection %s again: %w", in.Collection, err)
	}
	return nil
}
