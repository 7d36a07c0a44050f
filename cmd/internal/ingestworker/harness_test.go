package ingestworker

// The environment of the tests: a tenant with a collection in a new database, a NATS server and a
// Temporal namespace, and a worker.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/ingest"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestMain(m *testing.M) {
	if RunIfParseChild() || runIfWorkerChild() {
		return
	}
	if os.Getenv("SLUICE_TEST_LOG") == "" {
		slog.SetDefault(slog.New(slog.DiscardHandler))
	}
	localtest.Main(m, localtest.Need{Postgres: true, Temporal: true, Migrate: store.Migrate})
}

type world struct {
	t          *testing.T
	url        string
	store      stores.All
	bus        *local.NATS
	natsDir    string
	nats       *nats.Conn
	temporal   localtest.TemporalNamespace
	client     client.Client
	principal  schema.Principal
	collection uuid.UUID
	models     *scriptedModels
	second     ingest.Models
	parser     ingest.Parser
	settings   Settings
	options    ingest.Options
	counted    int // number of transactions by count
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := newWorldOn(t, localtest.Database(t))
	w.addTenant()
	return w
}

// newWorldOn creates a world on a database that has the tenant.
func newWorldOn(t *testing.T, url string) *world {
	t.Helper()
	return newWorldAt(t, url, localtest.Dir(t))
}

// newWorldAt creates a world on a database, with NATS's storage in a directory.
func newWorldAt(t *testing.T, url, natsDir string) *world {
	t.Helper()
	w := &world{t: t, url: url, temporal: localtest.Temporal(t), models: &scriptedModels{dimension: 256}, second: unavailableModels{}, parser: &scriptedParser{}}
	w.settings = Settings{
		Ingest: config.Ingest{
			IngestBatches: 4, IngestBatchSize: 8,
			IngestLease: 10 * time.Second, IngestRequeue: time.Second, IngestReconcile: 200 * time.Millisecond,
		},
		Parse:       config.Parse{ParseWorkers: 2, ParseTimeout: waittest.Left(t)},
		CurateAfter: time.Minute, CurateKeep: time.Hour, PurgeEvery: time.Hour,
	}
	w.options = w.settings.Options()
	w.options.BatchWait, w.options.Grace, w.options.Tries = 50*time.Millisecond, time.Second, 3
	ctx := w.context()
	var err error
	w.natsDir = natsDir
	w.bus, err = local.StartNATS(ctx, local.NATSOptions{Dir: w.natsDir})
	w.ok(err)
	t.Cleanup(func() { w.ok(w.bus.Stop(context.Background())) })
	db, err := store.Open(ctx, w.url, store.Options{VectorURL: localtest.VectorURL(w.t, w.url)})
	w.ok(err)
	w.store = stores.Of(db)
	t.Cleanup(w.store.Close)
	w.nats, err = bus.Connect(ctx, bus.Options{URL: w.bus.URL(), Name: t.Name()})
	w.ok(err)
	t.Cleanup(w.nats.Close)
	w.client, err = durable.Dial(ctx, durable.Options{Address: w.temporal.Address, Namespace: w.temporal.Namespace, Name: t.Name()})
	w.ok(err)
	t.Cleanup(func() { w.client.Close() })
	return w
}

// addTenant creates a tenant with a collection, which later uploads use.
func (w *world) addTenant() {
	w.t.Helper()
	tenant := schema.NewID()
	w.principal = schema.Principal{Tenant: tenant, Key: schema.NewID(), Name: "test", Scopes: []schema.Scope{schema.ScopeAdmin}}
	w.admin(`INSERT INTO tenants (id, name) VALUES ($1, $2)`, tenant, "t-"+tenant.String()[24:])
	c, err := w.store.CreateCollection(w.context(), w.principal, schema.NewCollection{Name: "docs"})
	w.ok(err)
	w.collection = c.ID
}

func (w *world) context() context.Context { return waittest.Context(w.t) }

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// admin runs a statement as the owner of the database, which sees everything.
func (w *world) admin(statement string, args ...any) {
	w.t.Helper()
	ctx := w.context()
	conn, err := pgx.Connect(ctx, w.adminURL())
	w.ok(err)
	defer conn.Close(ctx) //nolint:errcheck // a connection of a test
	_, err = conn.Exec(ctx, statement, args...)
	w.ok(err)
}

// count runs a query for one number as the superuser.
func (w *world) count(query string, args ...any) int {
	w.t.Helper()
	ctx := w.context()
	conn, err := pgx.Connect(ctx, w.adminURL())
	w.ok(err)
	defer conn.Close(ctx) //nolint:errcheck // a connection of a test
	var n int
	w.counted++
	w.ok(conn.QueryRow(ctx, query, args...).Scan(&n))
	return n
}

// superuser opens a connection as the superuser until the test ends.
func (w *world) superuser() *pgx.Conn {
	w.t.Helper()
	conn, err := pgx.Connect(w.context(), w.adminURL())
	w.ok(err)
	w.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// wipeTemporal gives the world an empty Temporal: another namespace.
func (w *world) wipeTemporal() {
	w.t.Helper()
	w.temporal = localtest.Temporal(w.t)
	client, err := durable.Dial(w.context(), durable.Options{Address: w.temporal.Address, Namespace: w.temporal.Namespace, Name: w.t.Name()})
	w.ok(err)
	w.client.Close()
	w.client = client
}

func (w *world) adminURL() string {
	name := w.url[strings.LastIndex(w.url, "/")+1:]
	if i := strings.IndexByte(name, '?'); i >= 0 {
		name = name[:i]
	}
	return localtest.Postgres(w.t).AdminURL(name)
}

// start runs a worker until the test ends, or stop is called.
func (w *world) start() (stop func()) {
	w.t.Helper()
	parts, err := newServices(w.options, w.settings, Deps{Store: w.store.Store, NATS: w.nats, Temporal: w.client}, w.parser, w.models, w.second)
	w.ok(err)
	worker := lifecycle.NewGroup("worker", Grace, parts...)
	w.ok(worker.Start(w.context()))
	var once sync.Once
	stop = func() {
		once.Do(func() {
			if err := worker.Stop(w.context()); err != nil {
				w.t.Errorf("stop the worker: %v", err)
			}
		})
	}
	w.t.Cleanup(stop)
	return stop
}

// upload uploads a text as a document.
func (w *world) upload(name, content string) schema.Uploaded {
	w.t.Helper()
	return w.uploadAll(map[string]string{name: content})[0]
}

func (w *world) uploadAll(files map[string]string) []schema.Uploaded {
	w.t.Helper()
	var uploads []schema.Upload
	for name, content := range files {
		uploads = append(uploads, schema.Upload{ExternalID: name, FileName: name, Content: bytes.NewReader([]byte(content))})
	}
	out, err := documents.New(w.store, documents.Options{}).Upload(w.context(), w.principal, w.collection, uploads)
	w.ok(err)
	return out
}

// document returns a text with some paragraphs about a topic.
func document(topic string, paragraphs int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# About %s\n\n", topic)
	for i := range paragraphs {
		fmt.Fprintf(&b, "Paragraph %d speaks of %s at some length. It has a second sentence about %s, and it goes on. "+
			"A third one closes it with the number %d.\n\n", i, topic, topic, i*7)
	}
	return b.String()
}

func someDocuments(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("doc-%03d.md", i)] = document(fmt.Sprintf("topic %d", i), 3+i%5)
	}
	return files
}

// states counts the versions of the tenant by state.
func (w *world) states() map[schema.State]int {
	w.t.Helper()
	out := map[schema.State]int{}
	err := w.store.AsTenant(w.context(), w.principal.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		clear(out)
		rows, err := tx.Query(ctx, `SELECT state, count(*) FROM versions GROUP BY state`)
		if err != nil {
			return err
		}
		var state schema.State
		var n int
		_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error {
			out[state] = n
			return nil
		})
		return err
	})
	w.ok(err)
	return out
}

// await waits until done holds.
func (w *world) await(what string, done func() bool) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			w.t.Logf("waiting for %s; states: %v; %s; open workflows: %s", what, w.states(), w.reasons(), w.openWorkflows())
		}
	}()
	waittest.Until(w.t, func() string {
		if !done() {
			return "waiting for " + what
		}
		return ""
	})
}

func (w *world) awaitStates(want map[schema.State]int) {
	w.t.Helper()
	w.await(fmt.Sprint(want), func() bool {
		got := w.states()
		for state, n := range want {
			if got[state] != n {
				return false
			}
		}
		return true
	})
}

func (w *world) reasons() string {
	var all []string
	err := w.store.AsTenant(w.context(), w.principal.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT d.external_id || ': ' || v.reason_code || ': ' || v.reason FROM versions v JOIN documents d ON d.id = v.document_id WHERE v.state = 'failed'`)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	w.ok(err)
	return strings.Join(all, "; ")
}

// openWorkflows describes the open workflows in Temporal.
func (w *world) openWorkflows() string {
	list, err := w.client.ListWorkflow(w.context(), &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: w.temporal.Namespace, Query: `ExecutionStatus = "Running"`})
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, e := range list.Executions {
		d, err := w.client.DescribeWorkflowExecution(w.context(), e.Execution.WorkflowId, e.Execution.RunId)
		if err != nil {
			return err.Error()
		}
		all = append(all, fmt.Sprintf("%s: activities %v, task %v", e.Execution.WorkflowId, d.PendingActivities, d.PendingWorkflowTask))
	}
	return strings.Join(all, "; ")
}

func (w *world) document(name string) schema.Document {
	w.t.Helper()
	d, err := w.store.DocumentNamed(w.context(), w.principal, w.collection, name)
	w.ok(err)
	return d
}

// checkStored checks that everything that is ready is stored once: each live version's passages
// tile its sections, each has its vector, and nothing is left over.
func (w *world) checkStored() {
	w.t.Helper()
	for what, query := range map[string]string{
		"live versions without passages": `SELECT count(*) FROM versions v WHERE state = 'ready' AND NOT EXISTS (SELECT FROM passages p WHERE p.version_id = v.id)`,
		"versions whose counts are wrong": `SELECT count(*) FROM versions v WHERE state = 'ready' AND (
			passage_count <> (SELECT count(*) FROM passages p WHERE p.version_id = v.id) OR
			section_count <> (SELECT count(*) FROM sections s WHERE s.version_id = v.id))`,
		"sections that their passages do not tile": `SELECT count(*) FROM sections s WHERE octet_length(body) <>
			(SELECT coalesce(sum(end_byte - start_byte), 0) FROM passages p WHERE p.section_id = s.id)`,
		"passages that begin where another ends not": `SELECT count(*) FROM passages p WHERE start_byte <> 0 AND NOT EXISTS (
			SELECT FROM passages q WHERE q.section_id = p.section_id AND q.ordinal = p.ordinal - 1 AND q.end_byte = p.start_byte)`,
		"passages without a vector":                 `SELECT count(*) FROM passages p WHERE NOT EXISTS (SELECT FROM vectors_256 v WHERE v.passage_id = p.id)`,
		"vectors without a passage":                 `SELECT count(*) FROM vectors_256 v WHERE NOT EXISTS (SELECT FROM passages p WHERE v.passage_id = p.id)`,
		"documents with two ready versions":         `SELECT count(*) FROM (SELECT document_id FROM versions WHERE state = 'ready' GROUP BY 1 HAVING count(*) > 1) d`,
		"documents whose live version is not ready": `SELECT count(*) FROM documents d JOIN versions v ON v.id = d.live_version_id WHERE v.state <> 'ready'`,
		"leases": `SELECT count(*) FROM leases l JOIN versions v ON v.id = l.subject_id WHERE v.state NOT IN ('queued', 'processing')`,
		"artifacts": `SELECT count(*) FROM artifacts a JOIN versions v ON v.id = a.version_id
			WHERE v.state NOT IN ('queued', 'processing', 'cancelled')`, // purging removes those of cancelled versions
	} {
		if n := w.count(query); n != 0 {
			w.t.Errorf("%d %s", n, what)
		}
	}
}

// scriptedModels replaces the model server in tests in which it must fail or wait at a certain
// moment.
type scriptedModels struct {
	dimension int
	space     string
	calls     atomic.Int64
	// before runs at the start of each call, with its texts.
	before func(ctx context.Context, op wire.ModelOp, texts []string) error
}

func (m *scriptedModels) Segment(ctx context.Context, _ wire.Lane, runs [][]string) ([][]float32, float64, error) {
	m.calls.Add(1)
	out := make([][]float32, len(runs))
	for i, r := range runs {
		if m.before != nil {
			if err := m.before(ctx, wire.OpSegment, r); err != nil {
				return nil, 0, err
			}
		}
		out[i] = make([]float32, max(len(r)-1, 0))
		for j := range out[i] {
			out[i][j] = float32(hash(r[j]+r[j+1])%100) / 100
		}
	}
	return out, 0.4, nil
}

// Link links each passage to the next ones.
func (m *scriptedModels) Link(_ context.Context, _ wire.Lane, _ string, documents []wire.Vectors, keep int) ([][][]wire.PassageLink, string, error) {
	out := make([][][]wire.PassageLink, len(documents))
	for i, d := range documents {
		out[i] = make([][]wire.PassageLink, d.Len())
		for p := range out[i] {
			for to := p + 1; to < min(d.Len(), p+1+keep); to++ {
				out[i][p] = append(out[i][p], wire.PassageLink{To: to, Weight: 1 / float32(to-p)})
			}
		}
	}
	return out, "scripted", nil
}

// SegmentEncode leaves all documents to the separate stages.
func (m *scriptedModels) SegmentEncode(_ context.Context, _ wire.Lane, _ schema.Segmentation, documents []wire.SegmentEncodeDocument, _ int) ([]*wire.SegmentEncodeResult, error) {
	return make([]*wire.SegmentEncodeResult, len(documents)), nil
}

func (m *scriptedModels) Info(context.Context) (wire.ModelInfo, error) {
	return wire.ModelInfo{Envelope: wire.Header(), Space: m.space, Dimension: m.dimension, Operations: []wire.ModelOp{wire.OpEncode, wire.OpSegment, wire.OpLink}}, nil
}

func (m *scriptedModels) Encode(ctx context.Context, _ wire.Lane, texts []string) (wire.Vectors, string, error) {
	m.calls.Add(1)
	if m.before != nil {
		if err := m.before(ctx, wire.OpEncode, texts); err != nil {
			return wire.Vectors{}, "", err
		}
	}
	v := wire.Vectors{Dimension: m.dimension}
	for _, text := range texts {
		h := hash(text)
		for i := range m.dimension {
			v.Data = append(v.Data, float32(math.Sin(float64(h%1000)+float64(i)))/16)
		}
	}
	space := m.space
	if space == "" {
		space = "scripted"
	}
	return v, space, nil
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// scriptedParser replaces the parser in tests in which it must wait or die at a certain moment.
type scriptedParser struct {
	before func(ctx context.Context, name string) error
}

func (p *scriptedParser) Parse(ctx context.Context, name, _, _ string, data []byte) (schema.Parsed, error) {
	if p.before != nil {
		if err := p.before(ctx, name); err != nil {
			return schema.Parsed{}, err
		}
	}
	out := schema.Parsed{MediaType: "text/markdown"}
	for _, block := range strings.Split(string(data), "\n\n") {
		if title, found := strings.CutPrefix(block, "# "); found {
			out.Title = title
			out.Blocks = append(out.Blocks, schema.Block{Kind: schema.BlockHeading, Level: 1, Text: title})
		} else if block != "" {
			out.Blocks = append(out.Blocks, schema.Block{Kind: schema.BlockParagraph, Text: block})
		}
	}
	if strings.Contains(string(data), "BROKEN") {
		return out, &ingest.FileError{Reason: schema.Reason{Code: schema.ReasonBroken, Message: "broken as asked"}, Err: errors.New("broken")}
	}
	return out, nil
}
