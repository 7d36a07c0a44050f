// Package queryworker composes the query worker: search and ask as services over NATS, and
// asynchronous questions as Temporal workflows.
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

// Settings are the settings of a query worker.
type Settings struct {
	config.Answering
	config.Streams
	config.Webhooks
	config.Public

	Queue        int           // maximum number of waiting searches, and of waiting questions, of one tenant; more are refused; 0: 64
	Wait         time.Duration // how long one may wait for a slot before it is refused; 0: 10 s
	SlowQuestion time.Duration // duration from which a question is recorded as slow; 0: 10 s, negative: none is recorded
}

const (
	queue        = 64
	wait         = 10 * time.Second
	slowQuestion = 10 * time.Second
)

// Deps are the connections that the worker uses. The caller closes them.
type Deps struct {
	Store *store.Store
	// Replica is the database that searches read; nil: Store.
	Replica *store.Replica
	NATS    *nats.Conn
	// Signer signs requests to the gateway; nil: they are not signed. Trusted are the keys of
	// programs whose requests are accepted; nil: all requests are.
	Signer   *signature.Signer
	Trusted  *signature.Trusted
	Temporal client.Client
}

// grace is how long the other parts may take to finish when one fails.
const grace = 20 * time.Second

// stopShare is the part of the time to stop in which searches, questions and steps of jobs each may
// finish; then they are cancelled. Another worker repeats a cancelled step.
const stopShare = 1.0 / 3

// worker has what the parts share.
type worker struct {
	id       uuid.UUID // unique for this run
	settings Settings
	deps     Deps
	engine   *run.Engine
	models   *modelclient.Client
	index    *lexicalsearch.Index
	// answerer returns the Answerer of one question.
	answerer func(requestState) *answer.Answerer
	// searching is notified of every search and question that a client waits for.
	searching *searching
	jobs      *question.Jobs
	learning  learn.Store
	choices   choiceStore
}

// Plans returns the plans that a query worker runs: those that ship and, if folder is not "", those
// in that folder. It is also used to check a question before it is sent.
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

// New returns a query worker: the services search and ask, the Temporal worker of asynchronous
// questions, the intake that starts their workflows, and the reconciler that finds lost questions.
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
	index := lexicalsearch.NewIndex(kept, settings.LexicalCacheBytes())
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
		searching: &searching{nc: deps.NATS}, learning: kept,
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

// requestState is the state of one search or of the answering of one question.
type requestState struct {
	slot bus.Slot            // nil: none
	to   *stream             // where its progress is published; nil: to clients that follow the job
	job  *wire.QuestionInput // the job whose answer's text is published while it is made; nil: none
}

// engineFor returns the engine for a request of a tenant. It yields to other requests when the
// request's slot says so.
func (w *worker) engineFor(tenant uuid.UUID, r requestState) *run.Engine {
	return w.engine.With(func(s *retrieval.Sources) {
		models := w.models.For(tenant, r.slot.Yields)
		s.Model, s.Second, s.Readers, s.Yield = models, models.Second(), models, r.slot.Yield
		s.Judges = gateway{w.deps.NATS, w.deps.Signer, requestState{to: r.to}}
	})
}

// sources returns the sources of candidates, scores and models for plans.
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

// service returns the parts in the order in which they start.
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
	// A worker caches data of collections, so later searches of a collection go to the same worker.
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
		bus.ServeSlots(w.deps.NATS, serve(wire.LabelSubject, max(1, w.settings.QueryQuestions/2), max(1, w.settings.QueryQuestions/4), question.MaxTime), w.label, labelFailure),
		bus.ServeSlots(w.deps.NATS, serve(wire.JudgeSubject, max(1, w.settings.QueryQuestions/2), max(1, w.settings.QueryQuestions/4), askTimeout), w.judge, judgeFailure),
		bus.ServeSlots(w.deps.NATS, near(serve(wire.AskSubject, w.settings.QueryQuestions, max(1, w.settings.QueryQuestions/2), question.MaxTime)), w.ask, askFailure),
	), w.jobs.Services()...), w.choiceStarter(), w.sendWebhooks())...)
}

// temporalWorker runs the workflow of asynchronous questions and its steps.
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

// gateway calls the language model gateway over NATS.
type gateway struct {
	nc     *nats.Conn
	signer *signature.Signer
	requestState
}

func (g gateway) Complete(ctx context.Context, r wire.LLMRequest) (wire.LLMReply, error) {
	var reply wire.LLMReply
	var err error
	if g.job != nil && isAnswer(r) {
		reply, err = g.completeStreaming(ctx, *g.job, r)
	} else {
		g.streamTo(&r)
		reply, err = bus.Request[wire.LLMReply](ctx, g.nc, wire.LLMSubject, r, bus.SignedBy(g.signer))
	}
	if err == nil && reply.Error != nil {
		err = reply.Error
	}
	return reply, err
}
