// Package ingestworker composes ingestion as one service: relay, intake, the Temporal workers of
// stages and of curation, reconcilers and purger. ingest-worker runs it alone, `sluice up` runs it
// with all other parts.
package ingestworker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.temporal.io/sdk/client"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/curate"
	"github.com/sluice-rag/sluice/internal/fairness"
	"github.com/sluice-rag/sluice/internal/ingest"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/auditlog"
	"github.com/sluice-rag/sluice/internal/store/ledger"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/internal/store/stores"
)

// Grace is how long a worker that stops waits for the work in progress.
const Grace = 20 * time.Second

// Settings are the settings of the worker.
type Settings struct {
	config.Ingest
	config.Retention
	config.Parse
	config.Streams

	CurateAfter time.Duration // how long a change waits for its signal before its collection is curated without one; 0: 15 s
	CurateKeep  time.Duration // see curate.Options.Keep
	PurgeEvery  time.Duration // interval between purges of deleted and replaced data; 0: 30 s
}

const (
	curateAfter = 15 * time.Second
	purgeEvery  = 30 * time.Second
)

// Deps are the connections that the worker uses. The caller closes them.
type Deps struct {
	Store    *store.Store
	NATS     *nats.Conn
	Temporal client.Client
}

// Options returns the settings as ingest.Options, with a new holder of leases.
func (s Settings) Options() ingest.Options {
	o := ingest.Defaults(holder())
	o.BatchVersions = s.IngestBatchSize
	if s.IngestBatches != 0 {
		o.Batches = s.IngestBatches
	}
	o.Lease, o.Requeue, o.Reconcile = s.IngestLease, s.IngestRequeue, s.IngestReconcile
	o.Grace = min(o.Grace, o.Lease)
	if s.IngestBeside > 0 {
		o.BatchesInSearches = s.IngestBeside
	}
	if s.ParseWorkers > 0 {
		o.Parallel = s.ParseWorkers
	}
	return o
}

// keep returns how long entries of the ledger are kept.
func (s Settings) keep() ledger.Retention {
	return ledger.Retention{Calls: s.KeepLLMCalls, SearchCalls: s.KeepLLMSearchCalls, Days: s.KeepLLMDays}
}

// keepQuestions returns how long questions are kept.
func (s Settings) keepQuestions() questions.QuestionRetention {
	return questions.QuestionRetention{Questions: s.QuestionDays(), Retrievals: s.KeepRetrievals}
}

// New returns the worker. It is ready when it can take work. Stop lets running stages finish,
// returns the rest to the queue, and ends within Grace.
func New(s Settings, d Deps) (lifecycle.Service, error) {
	if err := errors.Join(s.keep().Check(), s.keepQuestions().Check(s.KeepLLMCalls),
		auditlog.CheckAuditRetention(s.KeepAudit), auditlog.CheckReadsRetention(s.KeepAuditReads)); err != nil {
		return nil, err
	}
	parsers, err := parsers(s)
	if err != nil {
		return nil, err
	}
	o := s.Options()
	models := modelclient.New(d.NATS, modelclient.Options{})
	work, err := newServices(o, s, d, parsers, models, models.Second())
	if err != nil {
		return nil, err
	}
	return lifecycle.NewGroup("ingest worker", Grace, append([]lifecycle.Service{parsers}, work...)...), nil
}

// newServices returns the worker's parts, in the order in which they start.
func newServices(o ingest.Options, s Settings, d Deps, parser ingest.Parser, models, second ingest.Models) ([]lifecycle.Service, error) {
	if err := d.Store.CheckDirect(); err != nil {
		return nil, err
	}
	js, err := jetstream.New(d.NATS)
	if err != nil {
		return nil, fmt.Errorf("use jetstream: %w", err)
	}
	streams := func(ctx context.Context) error {
		// A request that is lost with a broken connection must not block until ctx ends.
		ctx, cancel := context.WithTimeout(ctx, streamsLimit)
		defer cancel()
		return bus.EnsureStreams(ctx, js, bus.StreamLimits{PerTenant: s.QueuePerTenant, Replicas: s.StreamReplicas})
	}
	changed, kept := newSignals(d.Temporal), stores.Of(d.Store)
	activities, err := ingest.NewActivities(kept, parser, models, changed, o)
	if err != nil {
		return nil, err
	}
	encoder := ingest.NewSecondEncoder(kept, second)
	d.Store.OnOutbox(bus.WakeRelay(d.NATS))
	relay, err := ingest.NewRelay(kept, d.NATS, streams, o)
	if err != nil {
		return nil, err
	}
	searches := fairness.NewForeground(searchTTL)
	intake, err := ingest.NewIntake(kept, batches{d.Temporal}, js, streams, searches, o)
	if err != nil {
		return nil, err
	}
	reconciler, err := ingest.NewReconciler(kept, js, kept, o)
	if err != nil {
		return nil, err
	}
	sender, err := auditSender(kept, s.SendAudit)
	if err != nil {
		return nil, err
	}
	steps := curate.NewActivities(kept, encoder, curations{d.Temporal}, curate.Options{Keep: s.CurateKeep})
	return append([]lifecycle.Service{
		lifecycle.NewResource("streams", func(ctx context.Context) error { return retry(ctx, streams) }, nil),
		ingest.NewPresence(func(ctx context.Context) (ingest.Session, error) { return d.Store.OpenSession(ctx, o.Holder) }),
		changed,
		stages(d.Temporal, activities, searches, o),
		curator(d.Temporal, steps, ingest.NewRebuilder(kept, models, second, changed), searches),
		vectors(d.Temporal, steps),
		reparser(d.Temporal, ingest.NewReparser(kept, parser, o.Parallel/2), searches),
		relay,
		subscribeToSearches(d.NATS, searches),
		intake,
		reconciler,
		curate.NewReconciler(kept, encoder, curations{d.Temporal}, kept,
			curate.ReconcilerOptions{Every: s.IngestReconcile, Age: cmp.Or(s.CurateAfter, curateAfter), Keep: s.CurateKeep}),
		emptyLoop(kept),
		purger(kept, cmp.Or(s.PurgeEvery, purgeEvery), s.keep(), s.keepQuestions(), s.KeepAudit, s.KeepAuditReads),
	}, sender...), nil
}

const (
	streamsLimit = 5 * time.Second        // timeout of creating or checking the streams
	streamsPause = 250 * time.Millisecond // pause before the next attempt
)

// retry repeats try until it succeeds or ctx ends.
func retry(ctx context.Context, try func(context.Context) error) error {
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		slog.WarnContext(ctx, "cannot create the JetStream streams; trying again", "error", err)
		timer := time.NewTimer(streamsPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// holder returns a name for this process in leases. It is unique for each run of a process.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), uuid.NewString()[:8])
}
