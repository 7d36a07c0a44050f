package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/cmd/internal/apiserver"
	"github.com/sluice-rag/sluice/internal/auth"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/receipt"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/internal/store/tenants"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func TestMain(m *testing.M) {
	localtest.Main(m, localtest.Need{Postgres: true, Migrate: store.Migrate})
}

// world is a running API, its database, and a user with the first key.
type world struct {
	user
	store    stores.All
	asked    *questions.QuestionStore
	nats     *nats.Conn
	admin    schema.Principal
	database string                      // its URL
	stop     func(context.Context) error // stops the server; the clean-up does so, too
}

// user sends requests with one key.
type user struct {
	t        *testing.T
	url, key string
	headers  []string // additional headers, names and values
}

// acting returns the user with additional headers.
func (u user) acting(headers ...string) user {
	u.headers = headers
	return u
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, store.Options{})
}

func newWorldOf(t *testing.T, o store.Options) *world {
	t.Helper()
	return newWorldAt(t, localtest.Database(t), o)
}

func newWorldAt(t *testing.T, database string, o store.Options) *world {
	t.Helper()
	return newWorldServed(t, database, o, config.HTTP{}, apiserver.Deps{})
}

func newWorldServed(t *testing.T, database string, o store.Options, c config.HTTP, d apiserver.Deps) *world {
	t.Helper()
	s, err := store.Open(t.Context(), database, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	nc, err := bus.Connect(t.Context(), bus.Options{URL: localtest.NATS(t).URL(), Name: "api"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	keys := auth.New(tenants.New(s))
	key, _, err := keys.EnsureBootstrap(t.Context(), "first")
	if err != nil {
		t.Fatal(err)
	}
	admin, err := keys.Authenticate(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	d.Store, d.NATS = s, nc
	if d.Receipts == nil {
		if d.Receipts, err = receipt.ParseSigner(strings.Repeat("A", 43) + "="); err != nil {
			t.Fatal(err)
		}
	}
	server := startServer(t, c, d)
	return &world{user: user{t: t, url: server.URL(), key: key}, store: stores.Of(s), asked: questions.New(s), nats: nc, admin: admin, database: database, stop: server.Stop}
}

// startServer starts a server on a port of its own, which is stopped after the test.
func startServer(t *testing.T, c config.HTTP, d apiserver.Deps) *apiserver.Server {
	t.Helper()
	c.Listen = "127.0.0.1:0"
	server, err := apiserver.New(t.Context(), c, d)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return server
}

// with makes a key of the first tenant.
func (w *world) with(groups []string, scopes ...schema.Scope) user {
	w.t.Helper()
	var made api.KeyCreated
	w.post("/v1/keys", api.NewKey{Name: "k", Scopes: scopes, Groups: groups}, "").want(http.StatusCreated, &made)
	return user{t: w.t, url: w.url, key: made.APIKey}
}

type response struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

func (u user) post(path string, body any, idempotencyKey string) response {
	u.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		u.t.Fatal(err)
	}
	return u.do(http.MethodPost, path, bytes.NewReader(data), idempotencyKey)
}

func (u user) do(method, path string, body io.Reader, idempotencyKey string) response {
	u.t.Helper()
	r, err := http.NewRequestWithContext(u.t.Context(), method, u.url+path, body)
	if err != nil {
		u.t.Fatal(err)
	}
	if u.key != "" { // otherwise the headers have a session's cookie
		r.Header.Set("Authorization", "Bearer "+u.key)
	}
	r.Header.Set("Content-Type", "application/json")
	if idempotencyKey != "" {
		r.Header.Set("Idempotency-Key", idempotencyKey)
	}
	for i := 0; i+1 < len(u.headers); i += 2 {
		r.Header.Add(u.headers[i], u.headers[i+1])
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	data, err := io.ReadAll(got.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	return response{t: u.t, status: got.StatusCode, header: got.Header, body: data}
}

// want checks the status and decodes the body into out unless it is nil.
func (r response) want(status int, out any) {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("got %d %s, want %d", r.status, r.body, status)
	}
	if out != nil {
		if err := json.Unmarshal(r.body, out); err != nil {
			r.t.Fatal(err)
		}
	}
}

// scalar reads one value as the first tenant.
func scalar[T any](w *world, sql string, args ...any) T {
	w.t.Helper()
	var out T
	err := w.store.AsTenant(w.t.Context(), w.admin.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql, args...).Scan(&out)
	})
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return out
}
