//go:build cgo

package queryworker

// The environment of the tests: documents in a new database, a NATS server and a Temporal
// namespace, a real model server, the language model gateway, the outbox relay, and a query worker.

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/pgvector/pgvector-go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.temporal.io/sdk/client"

	"github.com/sluice-rag/sluice/cmd/internal/llmgateway"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/inference"
	"github.com/sluice-rag/sluice/internal/ingest"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/plans"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// recorded holds the spans of all tests.
var recorded = tracetest.NewSpanRecorder()

// model is the model pack, loaded once: the library behind it is one per process.
var model = sync.OnceValues(func() (*inference.Model, error) {
	library, err := local.FindONNXRuntime()
	if err != nil {
		return nil, err
	}
	return inference.Open(inference.Options{Pack: "../../../models/default", Library: library, Provider: "cpu", Threads: 1})
})

func TestMain(m *testing.M) {
	if runIfWorkerChild() {
		return
	}
	if os.Getenv("SLUICE_TEST_LOG") == "" {
		slog.SetDefault(slog.New(slog.DiscardHandler))
	}
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorded)))
	otel.SetTextMapPropagator(propagation.TraceContext{})
	localtest.Main(m, localtest.Need{Postgres: true, Temporal: true, Migrate: store.Migrate})
}

type world struct {
	t          *testing.T
	url        string
	bus        *local.NATS
	temporal   localtest.TemporalNamespace
	store      stores.All
	questions  *questions.QuestionStore
	nats       *nats.Conn
	client     client.Client
	model      *modelclient.Client
	principal  schema.Principal
	collection uuid.UUID
	settings   Settings
	llm        config.LLM
}

func newWorld(t *testing.T) *world {
	t.Helper()
	m, err := model()
	if err != nil {
		t.Fatal(err)
	}
	return newWorldOf(t, m)
}

// newWorldOf returns a world whose model server serves m.
func newWorldOf(t *testing.T, m *inference.Model) *world {
	t.Helper()
	w := &world{t: t, url: localtest.Database(t), bus: localtest.NATS(t), temporal: localtest.Temporal(t), settings: Settings{
		Answering: config.Answering{QueryConcurrency: 8, QueryQuestions: 8, QueryTimeout: waittest.Left(t), QuestionLease: 30 * time.Second},
		Streams:   config.Streams{QueuePerTenant: 1000},
		Queue:     8, Wait: waittest.Left(t), SlowQuestion: -1,
	}}
	ctx := w.context()
	db, err := store.Open(ctx, w.url, store.Options{})
	w.ok(err)
	w.store = stores.Of(db)
	t.Cleanup(w.store.Close)
	w.questions = w.store.QuestionStore
	w.nats, err = bus.Connect(ctx, bus.Options{URL: w.bus.URL(), Name: t.Name()})
	w.ok(err)
	t.Cleanup(w.nats.Close)
	w.client, err = durable.Dial(ctx, durable.Options{Address: w.temporal.Address, Namespace: w.temporal.Namespace, Name: t.Name()})
	w.ok(err)
	t.Cleanup(w.client.Close)
	w.run(inference.NewServer(w.nats, m, inference.ServerOptions{}))
	w.model = modelclient.New(w.nats, modelclient.Options{})
	created, err := w.store.CreateTenant(ctx, schema.Principal{}, schema.NewTenant{Name: "acme"}, schema.SealedKey{
		NewKey: schema.NewKey{Name: "admin", Scopes: []schema.Scope{schema.ScopeAdmin}}, Prefix: "slu_test", Hash: []byte("hash"),
	})
	w.ok(err)
	w.principal = schema.Principal{Tenant: created.ID, Key: schema.NewID(), Scopes: []schema.Scope{schema.ScopeQuery}}
	c, err := w.store.CreateCollection(ctx, w.principal, schema.NewCollection{Name: "handbook"})
	w.ok(err)
	w.collection = c.ID
	return w
}

func (w *world) context() context.Context { return waittest.Context(w.t) }

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// run starts a service for the rest of the test, and returns a function that stops it.
func (w *world) run(s lifecycle.Service) (stop func()) {
	w.t.Helper()
	w.ok(s.Start(w.context()))
	stop = sync.OnceFunc(func() {
		if err := s.Stop(w.context()); err != nil {
			w.t.Errorf("stop: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// gateway runs a language model gateway.
func (w *world) gateway() {
	w.t.Helper()
	g, err := llmgateway.New(w.llm, llmgateway.Deps{Store: w.store.Store, NATS: w.nats})
	w.ok(err)
	w.run(g)
}

// relay publishes the outbox.
func (w *world) relay() {
	w.t.Helper()
	js, err := jetstream.New(w.nats)
	w.ok(err)
	streams := func(ctx context.Context) error { return bus.EnsureStreams(ctx, js, bus.StreamLimits{PerTenant: 1000}) }
	w.ok(streams(w.context()))
	r, err := ingest.NewRelay(w.store, w.nats, streams, ingest.Defaults("relay of "+w.t.Name()))
	w.ok(err)
	w.run(r)
}

// worker returns a query worker whose parts a test may replace.
func (w *world) worker(tamper func(*parts)) *worker {
	w.t.Helper()
	made, err := newWorker(w.settings, Deps{Store: w.store.Store, NATS: w.nats, Temporal: w.client})
	w.ok(err)
	made.jobs.Every = 200 * time.Millisecond
	made.answerer = func(r requestState) *answer.Answerer {
		p := parts{progressStore{w.store, made.deps.NATS, r.to}, retriever{made, r}, gateway{nc: made.deps.NATS, requestState: r}}
		if tamper != nil {
			tamper(&p)
		}
		return answer.New(p.store, p.retriever, p.generator)
	}
	return made
}

type parts struct {
	store     answer.Store
	retriever answer.Retriever
	generator answer.Generator
}

// startAll runs gateway, relay and worker.
func (w *world) startAll() {
	w.t.Helper()
	w.gateway()
	w.relay()
	w.run(w.worker(nil).service())
}

// add stores a document as ingestion would: sections, passages of three
// sentences, their vectors.
func (w *world) add(id, heading, body string, labels ...string) uuid.UUID {
	w.t.Helper()
	sentences := text.Sentences(body)
	var passages []text.Range
	for i := 0; i < len(sentences); i += 3 {
		passages = append(passages, text.Range{Start: sentences[i].Start, End: sentences[min(i+3, len(sentences))-1].End})
	}
	texts := make([]string, len(passages))
	for i, p := range passages {
		texts[i] = p.Of(body)
	}
	ctx := w.context()
	vectors, space, err := w.model.Encode(ctx, wire.LaneBulk, texts)
	w.ok(err)
	document, version, section := schema.NewID(), schema.NewID(), schema.NewID()
	w.ok(w.store.AsTenant(ctx, w.principal.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		tenant := w.principal.Tenant
		b := &pgx.Batch{}
		b.Queue(`INSERT INTO spaces (name, dimension) VALUES ($1, $2) ON CONFLICT DO NOTHING`, space, vectors.Dimension)
		b.Queue(`UPDATE collections SET space_id = (SELECT id FROM spaces WHERE name = $2) WHERE id = $1`, w.collection, space)
		b.Queue(`INSERT INTO documents (tenant_id, id, collection_id, external_id, live_version_id, last_version_id) VALUES ($1, $2, $3, $4, $5, $5)`,
			tenant, document, w.collection, id, version)
		b.Queue(`INSERT INTO versions (tenant_id, id, document_id, collection_id, number, state, title, sha256, bytes, fingerprint)
			VALUES ($1, $2, $3, $4, 1, 'ready', $5, '\x00', 1, 'f')`, tenant, version, document, w.collection, heading)
		for _, l := range labels {
			b.Queue(`INSERT INTO version_labels VALUES ($1, $2, $3)`, tenant, version, l)
		}
		b.Queue(`INSERT INTO sections (tenant_id, id, version_id, document_id, collection_id, ordinal, heading_path, body, tokens)
			VALUES ($1, $2, $3, $4, $5, 0, $6, $7, $8)`, tenant, section, version, document, w.collection, []string{heading}, body, text.CountTokens(body))
		for i, p := range passages {
			passage := schema.NewID()
			b.Queue(`INSERT INTO passages VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, tenant, passage, section, version, w.collection, i, p.Start, p.End, text.CountTokens(texts[i]))
			b.Queue(`INSERT INTO vectors_256 VALUES ($1, $2, (SELECT id FROM spaces WHERE name = $3), $4, $5, $6)`,
				tenant, w.collection, space, passage, version, pgvector.NewHalfVector(vectors.Row(i)))
		}
		// Ingestion writes postings together with a version. Here they are created later, so the
		// collection's index is marked as incomplete.
		b.Queue(`DELETE FROM lexical_complete WHERE collection_id = $1`, w.collection)
		return tx.SendBatch(ctx, b).Close()
	}))
	w.index()
	return document
}

// index creates the postings of documents that have none, as curation does.
func (w *world) index() {
	w.t.Helper()
	ctx := w.context()
	for remaining := 1; remaining > 0; {
		var err error
		_, remaining, err = w.store.BackfillLexical(ctx, w.principal.Tenant, w.collection, 100)
		w.ok(err)
	}
	for more := true; more; {
		var err error
		_, more, err = w.store.ClusterChanged(ctx, w.principal.Tenant, w.collection)
		w.ok(err)
	}
}

// handbook adds a few documents.
func (w *world) handbook() {
	w.t.Helper()
	w.add("leave.md", "Annual leave", "Every employee has 25 days of annual leave a year. Part-time employees have a proportionate share. "+
		"Leave is requested from the line manager at least two weeks ahead. You may carry over up to five days of unused annual leave into the next year. "+
		"What was carried over must be taken by 31 March. After that it is lost.")
	w.add("travel.md", "Business travel", "Journeys under four hours are made by train in second class. Flights need the consent of the head of department. "+
		"Receipts are handed in within one month. The daily allowance for meals is 28 euros. Private cars are paid 30 cents a kilometre.")
	w.add("pumps.md", "Dosing pump KD-40", "The head bolts of a KD-40 with a plastic head are tightened to 4.5 Nm. Those of a steel head are tightened to 7 Nm. "+
		"The pump is vented before it is started. The membrane is changed every 8,000 hours of operation.")
	w.add("salaries.md", "Salaries of the board", "The chair of the board is paid 240,000 euros a year. The other members of the board are paid 180,000 euros a year. "+
		"The bonus of the board is set by the supervisory council.", "board")
}

const carryOver = "How many days of unused annual leave can I carry over into the next year?"

// ask stores a question.
func (w *world) ask(ctx context.Context, question string, async bool) wire.QuestionInput {
	w.t.Helper()
	j, err := w.questions.CreateQuestion(ctx, w.principal, questions.NewQuestion{Query: schema.Query{Collection: w.collection, Text: question, Plan: plans.Default}, Async: async, Trace: bus.Traceparent(ctx)})
	w.ok(err)
	return wire.QuestionInput{Tenant: w.principal.Tenant, Question: j.ID, Attempt: 1}
}

// await waits until a job is in one of the states.
func (w *world) await(id uuid.UUID, states ...schema.JobState) schema.Job {
	w.t.Helper()
	ctx := w.context()
	var j schema.Job
	waittest.Until(w.t, func() string {
		var err error
		j, err = w.questions.Job(ctx, w.principal, id)
		w.ok(err)
		switch {
		case slices.Contains(states, j.State):
			return ""
		case j.State.Final():
			w.t.Fatalf("the job ended as %s (%+v), want %v", j.State, j.Reason, states)
		}
		return fmt.Sprintf("the job is %s in stage %q, want %v", j.State, j.Stage, states)
	})
	return j
}

// scalar runs a query for one value as the tenant.
func scalar[T any](w *world, query string, args ...any) T {
	w.t.Helper()
	var out T
	w.ok(w.store.AsTenant(w.context(), w.principal.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, query, args...).Scan(&out)
	}))
	return out
}

// checkCitations checks that every citation is verbatim stored text.
func (w *world) checkCitations(a schema.Answer) {
	w.t.Helper()
	for _, c := range a.Citations {
		stored := scalar[string](w, `SELECT convert_from(substring(convert_to(body, 'UTF8') FROM $2 FOR $3), 'UTF8') FROM sections WHERE id = $1 AND version_id = $4`,
			c.Span.Section, c.Span.Start+1, c.Span.End-c.Span.Start, c.Span.Version)
		if stored != c.Quote || c.Quote == "" {
			w.t.Errorf("citation %q is not the stored text %q", c.Quote, stored)
		}
		if c.Document == "" || c.Location == "" || c.Title == "" || c.DocumentID == uuid.Nil {
			w.t.Errorf("citation lacks its document: %+v", c)
		}
	}
}

// scriptedopenai is a server with the chat completions API that always quotes the same sentence and
// counts paid calls.
type scriptedopenai struct {
	*httptest.Server
	paid atomic.Int32
}

func (w *world) scriptedOpenAI(quote string) *scriptedopenai {
	w.t.Helper()
	return w.scriptedReply("Five days.", quote)
}

// scriptedReply makes the server return an answer and quote a sentence for it. Without either it
// says that the passages do not answer.
func (w *world) scriptedReply(answer, quote string) *scriptedopenai {
	w.t.Helper()
	s := &scriptedopenai{}
	citations := []any{}
	if quote != "" {
		citations = append(citations, map[string]any{"passage": 1, "quote": quote})
	}
	reply, err := json.Marshal(map[string]any{"answer": answer, "citations": citations})
	w.ok(err)
	s.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		s.paid.Add(1)
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]any{"id": "1", "object": "chat.completion", "model": "m",
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": string(reply)}}},
			"usage":   map[string]any{"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}})
	}))
	w.t.Cleanup(s.Close)
	w.llm = config.LLM{LLMProvider: "openai", LLMBaseURL: s.URL + "/v1", LLMModel: "scripted", LLMTimeout: waittest.Left(w.t)}
	return s
}
