// Package queryworker composes the query worker: search and ask as services
// over NATS, and asynchronous questions as workflows on Temporal.
package queryworker

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.temporal.io/sdk/client"
	temporalworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/durable/heartbeat"
	lexicalsearch "github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/question"
	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/internal/question/learn"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/internal/retrieval/run"
	"github.com/sluice-rag/sluice/internal/signature"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/search"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/plans"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
	"github.com/sluice-rag/sluice/workflows"
)

// Settings of a query worker.
type Settings struct {
	config.Answering
	config.Streams
	config.Webhooks
	config.Public

	Queue        int           // searches, and questions, of one tenant that wait in a worker; more are refused; 0: 64
	Wait         time.Duration // how long one may wait for its slot; then it is refused; 0: 10 s
	SlowQuestion time.Duration // questions that take as long are kept as slow ones; 0: 10 s, negative: none is
}

const (
	queue        = 64
	wait         = 10 * time.Second
	slowQuestion = 10 * time.Second
)

// Deps are the connections that the worker works on; they stay the caller's.
type Deps struct {
	Store *store.Store
	// Replica is what searches read from; nil: from Store.
	Replica *store.Replica
	NATS    *nats.Conn
	// Signer signs what is asked of the gateway; nil: it is not signed. Trusted are the keys of
	// those who may ask; nil: all.
	Signer   *signature.Signer
	Trusted  *signature.Trusted
	Temporal client.Client
}

// grace is what the other parts get to finish when one of them fails.
const grace = 20 * time.Second

// stopShare is the part of the time to stop that searches, questions and steps of
// jobs each get to end; then they are cut short. A step that was is repeated by
// another worker.
const stopShare = 1.0 / 3

// worker is what the parts share.
type worker struct {
	id       uuid.UUID // of this run
	settings Settings
	deps     Deps
	engine   *run.Engine
	models   *modelclient.Client
	index    *lexicalsearch.Index
	// answerer makes what answers one question.
	answerer func(requestState) *answer.Answerer
	// searching is told of every search and question that somebody waits for.
	searching *searching
	jobs      *question.Jobs
	learnt    learn.Store
	choices   choiceStore
}

// Plans returns the plans that a query worker runs, for whoever wants to check
// a question before it is sent: those that ship, and those of a folder, if one is
// named.
func Plans(folder string) (*plan.Catalogue, error) {
	c, err := plan.LoadCatalogue(plans.FS, plans.Default)
	if err != nil || folder == "" {
		return c, err
	}
	info, err := os.Stat(folder)
	if err == nil && !info.IsDir() {
		err = schema.Invalid("plans", "%s is not a folder", folder)
	}
	if err == nil {
		err = c.Add(os.DirFS(folder))
	}
	if err != nil {
		return nil, fmt.Errorf("read your own plans (--plans, SLUICE_PLANS): %w", err)
	}
	return c, nil
}

// New makes a query worker: the services search and ask, the Temporal worker of
// asynchronous questions, the intake that starts their workflows, and the
// reconciler that finds those that were lost.
func New(settings Settings, deps Deps) (lifecycle.Service, error) {
	w, err := newWorker(settings, deps)
	if err != nil {
		return nil, err
	}
	return w.service(), nil
}

func newWorker(settings Settings, deps Deps) (*worker, error) {
	settings.Queue, settings.Wait = cmp.Or(settings.Queue, queue), cmp.Or(settings.Wait, wait)
	settings.SlowQuestion = cmp.Or(settings.SlowQuestion, slowQuestion)
	catalogue, err := Plans(settings.Plans.Plans)
	if err != nil {
		return nil, err
	}
	deps.Store.OnOutbox(bus.WakeRelay(deps.NATS))
	kept := stores.Of(deps.Store)
	kept.SearchStore = kept.OnReplica(deps.Replica)
	index := lexicalsearch.NewIndex(kept, settings.LexicalCache<<20)
	models := modelclient.New(deps.NATS, modelclient.Options{})
	engine, err := run.NewEngine(catalogue, sources(settings, deps, kept.SearchStore, index, models))
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this worker: %w", err)
	}
	w := &worker{
		id: schema.NewID(), settings: settings, deps: deps, engine: engine, models: models, index: index,
		searching: &searching{nc: deps.NATS}, learnt: kept,
		choices: choiceStore{kept.ChoiceStore, kept.QuestionStore},
	}
	w.jobs = &question.Jobs{
		Store: kept, Temporal: deps.Temporal, NATS: deps.NATS,
		Streams: func(ctx context.Context, js jetstream.JetStream) error {
			return bus.EnsureStreams(ctx, js, bus.StreamLimits{PerTenant: settings.QueuePerTenant, Replicas: settings.StreamReplicas})
		},
		Cancels:  bus.Cancels,
		Answerer: func(job *wire.QuestionInput) *answer.Answerer { return w.answerer(requestState{job: job}) },
		Models:   models,
		Elector:  deps.Store,
		Slow:     question.NewSlow(kept, settings.SlowSearch, settings.SlowQuestion),
		Holder:   fmt.Sprintf("query-worker %s %d %s", host, os.Getpid(), schema.NewID()),
		Lease:    settings.QuestionLease, Every: 5 * time.Second, Grace: question.Grace,
	}
	w.answerer = func(r requestState) *answer.Answerer {
		return answer.New(progressStore{kept, deps.NATS, r.to}, retriever{w, r}, gateway{deps.NATS, deps.Signer, r})
	}
	return w, nil
}

// requestState is what a search, or the answering of one question, has for itself.
type requestState struct {
	slot bus.Slot            // nil: none
	to   *stream             // where its progress is told; nil: to whoever follows it as a job
	job  *wire.QuestionInput // whose answer's text is told while it is made; nil: no job's
}

// engineFor returns the engine for a request of a tenant, which gives way to others as its slot
// says.
func (w *worker) engineFor(tenant uuid.UUID, r requestState) *run.Engine {
	return w.engine.With(func(s *retrieval.Sources) {
		models := w.models.For(tenant, r.slot.Yields)
		s.Model, s.Second, s.Readers, s.GiveWay = models, models.Second(), models, r.slot.GiveWay
		s.Judges = gateway{w.deps.NATS, w.deps.Signer, requestState{to: r.to}}
	})
}

// sources are what plans draw on.
func sources(settings Settings, deps Deps, kept *search.SearchStore, index *lexicalsearch.Index, models *modelclient.Client) retrieval.Sources {
	return retrieval.Sources{
		Model:   models,
		Second:  models.Second(),
		Readers: models,
		Judges:  gateway{nc: deps.NATS, signer: deps.Signer},
		Lexical: index,
		Vectors: dense.NewMemoryVectors(kept, index, settings.VectorCache<<20),
		Texts:   kept,
		Links:   kept,
		History: kept,

		Preferences:    kept,
		NearDuplicates: kept,
	}
}

// service puts the parts together, in the order in which they start.
func (w *worker) service() lifecycle.Service {
	share := w.settings.QueryTenant
	if share <= 0 {
		share = max(1, runtime.GOMAXPROCS(0)/2)
	}
	searches := w.settings.QueryConcurrency
	if searches <= 0 {
		searches = max(4, 2*runtime.GOMAXPROCS(0))
	}
	serve := func(subject string, slots, share int, timeout time.Duration) bus.ServeOptions {
		return bus.ServeOptions{Subject: subject, Group: wire.QueryGroup, Concurrency: slots, Share: share, StopShare: stopShare,
			Queue: w.settings.Queue, Wait: w.settings.Wait, Timeout: timeout, Trusted: w.deps.Trusted}
	}
	// What a worker has in memory of a collection serves the next search of it.
	near := func(o bus.ServeOptions) bus.ServeOptions {
		o.At = w.id
		return o
	}
	var first []lifecycle.Service
	if w.deps.Replica != nil {
		first = append(first, w.deps.Replica.Watch())
	}
	return lifecycle.NewGroup("query worker", grace, append(append(append(first,
		lexicalMeters(w.index),
		w.temporalWorker(),
		w.choiceWorker(),
		bus.ServeSlots(w.deps.NATS, near(serve(wire.SearchSubject, searches, share, w.settings.QueryTimeout)), w.search, searchFailure),
		bus.ServeSlots(w.deps.NATS, serve(wire.LabelSubject, max(1, w.settings.QueryQuestions/2), max(1, w.settings.QueryQuestions/4), question.Longest), w.label, labelFailure),
		bus.ServeSlots(w.deps.NATS, serve(wire.JudgeSubject, max(1, w.settings.QueryQuestions/2), max(1, w.settings.QueryQuestions/4), askTimeout), w.judge, judgeFailure),
		bus.ServeSlots(w.deps.NATS, near(serve(wire.AskSubject, w.settings.QueryQuestions, max(1, w.settings.QueryQuestions/2), question.Longest)), w.ask, askFailure),
	), w.jobs.Services()...), w.choiceStarter(), w.sendWebhooks())...)
}

// temporalWorker runs the workflow of questions that run as jobs, and its steps.
func (w *worker) temporalWorker() lifecycle.Service {
	return durable.Worker("question workflows", w.deps.Temporal, wire.TaskQueueQuestions, temporalworker.Options{
		MaxConcurrentActivityExecutionSize: w.settings.QueryQuestions,
		WorkerStopTimeout:                  grace,
		MaxHeartbeatThrottleInterval:       heartbeat.Every,
		DisableRegistrationAliasing:        true,
	}, stopShare, func(r temporalworker.Worker) {
		r.RegisterWorkflowWithOptions(workflows.AnswerQuestion, workflow.RegisterOptions{Name: wire.WorkflowAnswerQuestion})
		w.jobs.Register(r)
	})
}

// gateway asks the language model gateway over NATS.
type gateway struct {
	nc     *nats.Conn
	signer *signature.Signer
	requestState
}

func (g gateway) Complete(ctx context.Context, r wire.LLMRequest) (wire.LLMReply, error) {
	var reply wire.LLMReply
	var err error
	if g.job != nil && makesAnswer(r) {
		reply, err = g.completeStreaming(ctx, *g.job, r)
	} else {
		g.streamed(&r)
		reply, err = bus.Request[wire.LLMReply](ctx, g.nc, wire.LLMSubject, r, bus.SignedBy(g.signer))
	}
	if err == nil && reply.Error != nil {
		err = reply.Error
	}
	return reply, err
}
