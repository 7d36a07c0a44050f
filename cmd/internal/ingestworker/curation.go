package ingestworker

// This file is curation's side of Temporal: the worker that runs the workflows
// of collections and their steps, the signals that begin them, and the client
// that the reconciler begins them with.

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
	// curateAtOnce is how many steps of curations and rebuilds one worker runs:
	// few, for ingestion and questions go first. One that waits for the second
	// encoder, of which one is built at a time, leaves room for two others.
	curateAtOnce = 3
	// signalEvery is how often a collection's changes become a signal at most.
	signalEvery = 250 * time.Millisecond
	// signalTime bounds one signal.
	signalTime = 5 * time.Second
)

// curator makes the Temporal worker of curations and rebuilds. Stop cuts their
// steps short; another worker goes on with them.
func curator(c client.Client, a *curate.Activities, r *ingest.Rebuilder, searches *fairness.Foreground) lifecycle.Service {
	return durable.Worker("curation", c, wire.TaskQueueCurate, worker.Options{
		MaxConcurrentActivityExecutionSize:     curateAtOnce,
		MaxConcurrentActivityTaskPollers:       1,
		MaxConcurrentWorkflowTaskPollers:       2,
		MaxConcurrentWorkflowTaskExecutionSize: 2 * curateAtOnce,
		WorkerStopTimeout:                      time.Second,
		Interceptors:                           []interceptor.WorkerInterceptor{&pausing{searches: searches}},
	}, 1, func(w worker.Worker) {
		w.RegisterWorkflowWithOptions(workflows.CurateCollection, workflow.RegisterOptions{Name: wire.WorkflowCurate})
		w.RegisterWorkflowWithOptions(workflows.RebuildCollection, workflow.RegisterOptions{Name: wire.WorkflowRebuild})
		for name, step := range map[string]any{
			wire.ActivityBackfill: a.Backfill, wire.ActivityCluster: a.Cluster, wire.ActivityMerge: a.Merge,
			wire.ActivityVectors: a.Vectors, wire.ActivitySweep: a.Sweep,
			wire.ActivityRebuildList: r.List, wire.ActivityRebuildCut: r.Cut, wire.ActivityRebuildCluster: r.Cluster,
			wire.ActivityRebuildFlip: r.Flip, wire.ActivityRebuildFail: r.Fail,
		} {
			w.RegisterActivityWithOptions(step, activity.RegisterOptions{Name: name})
		}
	})
}

// reparser makes the Temporal worker that parses documents again, a part at a time.
// Stop cuts it short; another worker goes on.
func reparser(c client.Client, r *ingest.Reparser, searches *fairness.Foreground) lifecycle.Service {
	return durable.Worker("parsing again", c, wire.TaskQueueReparse, worker.Options{
		MaxConcurrentActivityExecutionSize: 1,
		MaxConcurrentActivityTaskPollers:   1,
		MaxConcurrentWorkflowTaskPollers:   2,
		WorkerStopTimeout:                  time.Second,
		Interceptors:                       []interceptor.WorkerInterceptor{&pausing{searches: searches}},
	}, 1, func(w worker.Worker) {
		w.RegisterWorkflowWithOptions(workflows.ReparseCollection, workflow.RegisterOptions{Name: wire.WorkflowReparse})
		for name, step := range map[string]any{
			wire.ActivityReparseList: r.List, wire.ActivityReparseParse: r.Parse, wire.ActivityReparseFinish: r.Finish,
		} {
			w.RegisterActivityWithOptions(step, activity.RegisterOptions{Name: name})
		}
	})
}

// signals tells curations of changes, without making anyone wait. One that gets
// lost costs time alone: the reconciler finds the collection.
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

func (s *signals) take() map[wire.Curation]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.changed
	s.changed = map[wire.Curation]bool{}
	return out
}

func (s *signals) run(fetch, work context.Context) error {
	pause := time.NewTicker(signalEvery)
	defer pause.Stop()
	for {
		select {
		case <-fetch.Done():
			s.send(work) // what the last batches changed
			return nil
		case <-s.wake:
		}
		s.send(work)
		select {
		case <-fetch.Done():
		case <-pause.C:
		}
	}
}

func (s *signals) send(ctx context.Context) {
	for c := range s.take() {
		one, cancel := context.WithTimeout(ctx, signalTime)
		_, err := s.client.SignalWithStartWorkflow(one, wire.CurateWorkflowID(c.Collection), wire.SignalCurate, nil,
			curateOptions(c), wire.WorkflowCurate, c)
		cancel()
		if err != nil {
			slog.WarnContext(ctx, "cannot signal a curation; the reconciler will begin it", "tenant", c.Tenant, "collection", c.Collection, "error", err)
		}
	}
}

func curateOptions(c wire.Curation) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                       wire.CurateWorkflowID(c.Collection),
		TaskQueue:                wire.TaskQueueCurate,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	}
}

// curations begins workflows for the reconciler.
type curations struct{ client client.Client }

// Curate implements curate.Workflows.
func (s curations) Curate(ctx context.Context, in wire.Curation) error {
	if _, err := s.client.ExecuteWorkflow(ctx, curateOptions(in), wire.WorkflowCurate, in); err != nil {
		return fmt.Errorf("begin the curation of collection %s: %w", in.Collection, err)
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
