package sourceworker

// The environment of the tests: a tenant with a collection in a new database, NATS, a Temporal
// namespace, the API, and a worker.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/client"

	"github.com/sluice-rag/sluice/cmd/internal/apiserver"
	"github.com/sluice-rag/sluice/internal/auth"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/source/folder"
	"github.com/sluice-rag/sluice/internal/source/seal"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/tenants"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func TestMain(m *testing.M) {
	if runIfWorkerChild() {
		return
	}
	if os.Getenv("SLUICE_TEST_LOG") == "" {
		slog.SetDefault(slog.New(slog.DiscardHandler))
	}
	localtest.Main(m, localtest.Need{Postgres: true, Temporal: true, Migrate: store.Migrate})
}

type world struct {
	t        *testing.T
	url      string
	store    *store.Store
	bus      *local.NATS
	nats     *nats.Conn
	temporal localtest.TemporalNamespace
	client   client.Client
	api      string
	key      string
	root     string // folder below which sources may follow folders
	settings Settings
	scripted *scriptedSource
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, url: localtest.Database(t), temporal: localtest.Temporal(t), root: t.TempDir(), scripted: &scriptedSource{items: map[string]scriptedItem{}}}
	w.settings = Settings{
		Synchronisation: config.Synchronisation{SourceRoots: []string{w.root}, SourceFetches: 4, SourceRuns: 4, SourceItem: 1, SourceTick: 200 * time.Millisecond, SourceLease: 5 * time.Second},
		SourceKeys:      config.SourceKeys{SourcesKey: strings.TrimSpace(seal.NewKey())},
	}
	ctx := w.context()
	var err error
	w.bus, err = local.StartNATS(ctx, local.NATSOptions{Dir: localtest.Dir(t)})
	w.ok(err)
	t.Cleanup(func() { w.ok(w.bus.Stop(context.Background())) })
	w.store, err = store.Open(ctx, w.url, store.Options{})
	w.ok(err)
	t.Cleanup(w.store.Close)
	w.nats, err = bus.Connect(ctx, bus.Options{URL: w.bus.URL(), Name: t.Name()})
	w.ok(err)
	t.Cleanup(w.nats.Close)
	w.dial()
	t.Cleanup(func() { w.client.Close() })
	keys, err := seal.Read("", w.settings.SourcesKey)
	w.ok(err)
	w.serve(keys)
	w.key, _, err = auth.New(tenants.New(w.store)).EnsureBootstrap(ctx, "default")
	w.ok(err)
	w.do(http.MethodPost, "/v1/collections", map[string]string{"name": "docs"}, http.StatusCreated, nil)
	return w
}

func (w *world) dial() {
	w.t.Helper()
	var err error
	w.client, err = durable.Dial(w.context(), durable.Options{Address: w.temporal.Address, Namespace: w.temporal.Namespace, Name: w.t.Name()})
	w.ok(err)
}

// serve starts the API.
func (w *world) serve(keys seal.Keys) {
	w.t.Helper()
	server, err := apiserver.New(w.context(), config.HTTP{Listen: "127.0.0.1:0", MaxUpload: 1}, apiserver.Deps{Store: w.store, NATS: w.nats, SourceKeys: keys})
	w.ok(err)
	w.ok(server.Start(context.Background()))
	w.t.Cleanup(func() { w.ok(server.Stop(context.Background())) })
	w.api = server.URL()
}

func (w *world) context() context.Context { return waittest.Context(w.t) }

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// start runs a worker until the test ends or the returned function is called.
func (w *world) start() (stop func()) {
	w.t.Helper()
	worker, err := New(w.settings, Deps{Store: w.store, NATS: w.nats, Temporal: w.client}, []source.Driver{w.scripted.driver(), blockingDriver("")})
	w.ok(err)
	w.ok(worker.Start(w.context()))
	var once sync.Once
	stop = func() { once.Do(func() { w.ok(worker.Stop(w.context())) }) }
	w.t.Cleanup(stop)
	w.until(func() string {
		var drivers api.SourceDrivers
		w.do(http.MethodGet, "/v1/source-drivers", nil, http.StatusOK, &drivers)
		if len(drivers.Items) != 3 {
			return fmt.Sprintf("%d drivers", len(drivers.Items))
		}
		return ""
	})
	return stop
}

func (w *world) until(wrong func() string) {
	w.t.Helper()
	waittest.Until(w.t, wrong)
}

// do calls the API, and checks the status.
func (w *world) do(method, path string, in any, status int, out any) {
	w.t.Helper()
	if got, body := w.call(w.key, method, path, in, out); got != status {
		w.t.Fatalf("%s %s: %d, want %d: %s", method, path, got, status, body)
	}
}

func (w *world) call(key, method, path string, in, out any) (int, string) {
	w.t.Helper()
	body, err := json.Marshal(in)
	w.ok(err)
	if in == nil {
		body = nil
	}
	r, err := http.NewRequestWithContext(w.context(), method, w.api+path, bytes.NewReader(body))
	w.ok(err)
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	reply, err := http.DefaultClient.Do(r)
	w.ok(err)
	defer reply.Body.Close() //nolint:errcheck // a test's
	text, err := io.ReadAll(reply.Body)
	w.ok(err)
	if out != nil && reply.StatusCode < 300 {
		w.ok(json.Unmarshal(text, out))
	}
	return reply.StatusCode, string(text)
}

// add adds a source that runs only on request.
func (w *world) add(name, driver string, settings map[string]string, change ...func(*api.NewSource)) schema.Source {
	w.t.Helper()
	never := 0
	n := api.NewSource{Name: name, Collection: "docs", Driver: driver, Settings: settings, SourceRules: api.SourceRules{Every: &never}}
	for _, c := range change {
		c(&n)
	}
	var made schema.Source
	w.do(http.MethodPost, "/v1/sources", n, http.StatusCreated, &made)
	return made
}

func (w *world) source(name string) schema.Source {
	w.t.Helper()
	var s schema.Source
	w.do(http.MethodGet, "/v1/sources/"+name, nil, http.StatusOK, &s)
	return s
}

func (w *world) act(name, action string) schema.Source {
	w.t.Helper()
	var s schema.Source
	w.do(http.MethodPost, "/v1/sources/"+name+"/"+action, map[string]string{}, http.StatusOK, &s)
	return s
}

// ended waits until a number of runs of a source have ended, and returns the newest.
func (w *world) ended(name string, runs int) schema.SourceRun {
	w.t.Helper()
	var page api.Page[schema.SourceRun]
	w.until(func() string {
		page = api.Page[schema.SourceRun]{} // fields that the reply lacks would keep their old values
		w.do(http.MethodGet, "/v1/sources/"+name+"/runs", nil, http.StatusOK, &page)
		if len(page.Items) != runs || page.Items[0].FinishedAt == nil {
			return fmt.Sprintf("%d runs, %+v", len(page.Items), w.source(name))
		}
		return ""
	})
	return page.Items[0]
}

// state waits until a source is in a state.
func (w *world) state(name string, want schema.SourceState) schema.Source {
	w.t.Helper()
	var s schema.Source
	w.until(func() string {
		if s = w.source(name); s.State != want {
			return fmt.Sprintf("%s is %s, want %s: %+v", name, s.State, want, s)
		}
		return ""
	})
	return s
}

// gone returns a function that returns "" when a source is deleted.
func (w *world) gone(name string) func() string {
	return func() string {
		if status, body := w.call(w.key, http.MethodGet, "/v1/sources/"+name, nil, nil); status != http.StatusNotFound {
			return body
		}
		return ""
	}
}

// counts returns the counts of a run, without what differs between runs.
func counts(r schema.SourceRun) string {
	return fmt.Sprintf("%s: seen %d added %d changed %d unchanged %d moved %d deleted %d skipped %d fetched %d",
		r.State, r.Seen, r.Added, r.Changed, r.Unchanged, r.Moved, r.Deleted, r.Skipped, r.Fetched)
}

func (w *world) wantCounts(r schema.SourceRun, want string) {
	w.t.Helper()
	if got := counts(r); got != want {
		w.t.Errorf("the run is\n%s, want\n%s", got, want)
	}
}

// scalar runs a query for one value as the superuser, who sees everything.
func scalar[T any](w *world, query string, args ...any) T {
	w.t.Helper()
	name := w.url[strings.LastIndex(w.url, "/")+1:]
	if i := strings.IndexByte(name, '?'); i >= 0 {
		name = name[:i]
	}
	conn, err := pgx.Connect(w.context(), localtest.Postgres(w.t).AdminURL(name))
	w.ok(err)
	defer conn.Close(w.context()) //nolint:errcheck // a test's
	var out T
	w.ok(conn.QueryRow(w.context(), query, args...).Scan(&out))
	return out
}

// documents returns the number of documents.
func (w *world) documents() int {
	w.t.Helper()
	return scalar[int](w, `SELECT count(*) FROM documents WHERE deleted_at IS NULL`)
}

func (w *world) versions() int {
	w.t.Helper()
	return scalar[int](w, `SELECT count(*) FROM versions`)
}

// write writes a file below the root folder.
func (w *world) write(name, content string) {
	w.t.Helper()
	file := filepath.Join(w.root, name)
	w.ok(os.MkdirAll(filepath.Dir(file), 0o755))
	w.ok(os.WriteFile(file, []byte(content), 0o644))
}

// scriptedItem is an item of scriptedSource.
type scriptedItem struct {
	path, version, content string
}

// scriptedSource replaces servers that tests cannot use: with rate limits, expiring tokens, and
// listings of changes.
type scriptedSource struct {
	mu      sync.Mutex
	items   map[string]scriptedItem
	list    func(cursor string) (*source.Listing, error) // returns nil for the usual listing
	fetch   func(id string) error
	fetches int
	// tags are the versions, by item, that only fetching shows.
	tags map[string]string
	// principals are the source's users and groups.
	principals []source.Principal
}

func (p *scriptedSource) driver() source.Driver {
	return source.Driver{Name: "scripted", Summary: "A source of a test.",
		Fields: []source.Field{{Name: "user", Summary: "Who asks.", Required: true}, {Name: "token", Summary: "Its token.", Secret: true}, {Name: "mode", Values: []string{"a", "b"}},
			{Name: source.PermissionsSetting, Values: []string{source.FollowPermissions}}},
		Open: func(_ context.Context, s source.Settings) (source.Connector, error) {
			if s.Values["user"] == "wrong" {
				return nil, &source.FieldError{Field: "user", Reason: "is unknown"}
			}
			if s.Values["token"] == "expired" {
				return nil, fmt.Errorf("the token has expired: %w", source.ErrRefused)
			}
			return scriptedConnector{p}, nil
		}}
}

// set changes the source under its lock.
func (p *scriptedSource) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

type scriptedConnector struct{ *scriptedSource }

func (c scriptedConnector) List(_ context.Context, cursor string) (source.Listing, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list != nil {
		if l, err := c.list(cursor); l != nil || err != nil {
			if l == nil {
				l = &source.Listing{}
			}
			return *l, err
		}
	}
	var out source.Listing
	for id, item := range c.items {
		out.Items = append(out.Items, source.Item{ID: id, Path: item.path, Version: item.version, Size: -1, URL: "https://place.example/" + id})
	}
	return out, nil
}

func (c scriptedConnector) Fetch(_ context.Context, item source.Item) (source.Download, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetches++
	if c.fetch != nil {
		if err := c.fetch(item.ID); err != nil {
			return source.Download{}, err
		}
	}
	have, ok := c.items[item.ID]
	if !ok {
		return source.Download{}, source.ErrGone
	}
	tag := c.tags[item.ID]
	if tag != "" && tag == item.Version {
		return source.Download{NotModified: true}, nil
	}
	return source.Download{Body: io.NopCloser(strings.NewReader(have.content)), Version: tag}, nil
}

func (c scriptedConnector) Principals(context.Context, string) (source.PrincipalPage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return source.PrincipalPage{Principals: c.principals}, nil
}

func (scriptedConnector) Close() error { return nil }

// blockingDriver returns the driver of folders, except that fetching a file with this name never
// ends.
func blockingDriver(name string) source.Driver {
	d := folder.Driver()
	d.Name = "held"
	open := d.Open
	d.Open = func(ctx context.Context, s source.Settings) (source.Connector, error) {
		c, err := open(ctx, s)
		return blockingConnector{c, name}, err
	}
	return d
}

type blockingConnector struct {
	source.Connector
	name string
}

func (c blockingConnector) Fetch(ctx context.Context, item source.Item) (source.Download, error) {
	if c.name != "" && item.Path == c.name {
		fmt.Println("held")
		<-ctx.Done()
		return source.Download{}, ctx.Err()
	}
	return c.Connector.Fetch(ctx, item)
}
