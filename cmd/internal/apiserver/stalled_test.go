package apiserver_test

// This file sends uploads that stall, expensive uploads, and more uploads than are accepted.

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/cmd/internal/apiserver"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// serverWithIdle starts another server, whose bodies may stall for idle, and returns its URL.
func (w *world) serverWithIdle(idle time.Duration) string {
	w.t.Helper()
	return startServer(w.t, config.HTTP{}, apiserver.Deps{Store: w.store.Store, NATS: w.nats, BodyIdle: idle}).URL()
}

// stall returns a body that stalls after first until the request is over.
func stall(ctx context.Context, first io.Reader) io.Reader {
	return io.MultiReader(first, readerFunc(func([]byte) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}))
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// begin sends a request whose body may never end.
func begin(ctx context.Context, u user, method, path string, body io.Reader, length int64) (status int, reply string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, u.url+path, body)
	if err != nil {
		return 0, "", err
	}
	r.ContentLength = length
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+u.key)
	got, err := hostileClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = got.Body.Close() }()
	data, err := io.ReadAll(got.Body)
	return got.StatusCode, got.Header.Get("Retry-After") + " " + string(data), err
}

func TestStalledUploadsEndAndCostNoMemory(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(hostileClient.CloseIdleConnections)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	u := w.with(nil, schema.ScopeIngest)
	u.url = w.serverWithIdle(time.Second)
	const size = 60 << 20
	memory := watchMemory(t)
	type result struct {
		status int
		reply  string
		err    error
	}
	done := make(chan result)
	for range 5 {
		go func() {
			const before = `{"documents":[{"external_id":"d","text":"`
			body := io.MultiReader(strings.NewReader(before), &repeated{text: strings.Repeat("x", 32<<10), left: 15 << 20},
				strings.NewReader(`"},{"external_id":"e","text":"`), &repeated{text: strings.Repeat("x", 32<<10), left: 15 << 20})
			status, reply, err := begin(t.Context(), u, http.MethodPost, "/v1/collections/c/documents", stall(t.Context(), body), size)
			done <- result{status, reply, err}
		}()
	}
	for range 5 {
		if r := <-done; r.err != nil || r.status != http.StatusRequestTimeout {
			t.Errorf("a stalled upload ended with %d %s %v", r.status, r.reply, r.err)
		}
	}
	if growth := memory.growth(); growth > 50<<20 {
		t.Errorf("five stalled uploads took %d MB", growth>>20)
	}
	status, reply, err := begin(t.Context(), u, http.MethodPut, "/v1/collections/c/content?external_id=f",
		stall(t.Context(), strings.NewReader("begin")), size)
	if err != nil || status != http.StatusRequestTimeout {
		t.Errorf("a stalled file ended with %d %s %v", status, reply, err)
	}
}

func TestNestedMetadataIsRefusedAtOnce(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(hostileClient.CloseIdleConnections)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	memory := watchMemory(t)
	const before = `{"documents":[{"external_id":"d","text":"x","metadata":{"a":[[]`
	body := io.MultiReader(strings.NewReader(before), &repeated{text: strings.Repeat(",[]", 10_000), left: 60 << 20})
	status, reply, err := begin(t.Context(), w.user, http.MethodPost, "/v1/collections/c/documents", body, int64(len(before))+60<<20)
	if err != nil || status != http.StatusUnprocessableEntity || !strings.Contains(reply, "body.documents[0].metadata") {
		t.Errorf("a body of nested lists gave %d %s %v", status, reply, err)
	}
	if growth := memory.growth(); growth > 30<<20 {
		t.Errorf("it took %d MB", growth>>20)
	}
}

func TestUploadsOfOneKeyAreBounded(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(hostileClient.CloseIdleConnections)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	flood, other := w.with(nil, schema.ScopeIngest), w.with(nil, schema.ScopeIngest)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	// All uploads but one stall until the end. Which ones are refused depends on their order.
	const most, more = 16, 4
	refused := make(chan string)
	for range most + more {
		go func() {
			status, reply, err := begin(ctx, flood, http.MethodPut, "/v1/collections/c/content?external_id=f", stall(ctx, strings.NewReader("x")), 1000)
			if err == nil && status == http.StatusTooManyRequests {
				refused <- reply
				return
			}
			<-ctx.Done()
			refused <- ""
		}()
	}
	for range more {
		if reply := <-refused; !strings.HasPrefix(reply, "1 ") {
			t.Errorf("the refusal has no Retry-After: %s", reply)
		}
	}
	doc := api.Upload{Documents: []api.NewDocument{{ExternalID: "d", Text: "text"}}}
	flood.post("/v1/collections/c/documents", doc, "").want(http.StatusTooManyRequests, nil)
	other.post("/v1/collections/c/documents", doc, "").want(http.StatusOK, nil)
	stop()
	for range most {
		<-refused
	}
}
