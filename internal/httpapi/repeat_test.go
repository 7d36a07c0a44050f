package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// serveBody returns the address of a server whose one operation reads its body with readBody.
func serveBody(t *testing.T, op huma.Operation) string {
	t.Helper()
	mux := http.NewServeMux()
	api := humago.New(mux, huma.DefaultConfig("test", "1"))
	op.OperationID, op.Method, op.Path = "post", http.MethodPost, "/"
	api.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		status := http.StatusOK
		var refusal huma.StatusError
		if _, err := readBody(ctx, r, w, io.Discard); errors.As(err, &refusal) {
			status = refusal.GetStatus()
		}
		w.WriteHeader(status)
	})
	huma.Register(api, op, func(context.Context, *struct{}) (*struct{}, error) { return nil, nil })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func postBody(t *testing.T, url string, body io.Reader) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	return got.StatusCode
}

func TestBodiesAreReadWithinTheirOperationsBounds(t *testing.T) {
	large := func(n int) io.Reader { return bytes.NewReader(make([]byte, n)) }
	usual := serveBody(t, huma.Operation{})
	wide := serveBody(t, huma.Operation{Metadata: limits{bytes: 3 << 20}.with(nil)})
	for _, c := range []struct {
		what, url string
		body      io.Reader
		want      int
	}{
		{"64 KB", usual, large(64 << 10), http.StatusOK},
		{"more than 64 KB", usual, large(64<<10 + 1), http.StatusRequestEntityTooLarge},
		{"3 MB of 3", wide, large(3 << 20), http.StatusOK},
		{"more than 3 MB", wide, large(3<<20 + 1), http.StatusRequestEntityTooLarge},
	} {
		if got := postBody(t, c.url, c.body); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
	never, hold := io.Pipe()
	t.Cleanup(func() { _ = hold.Close() })
	if got := postBody(t, serveBody(t, huma.Operation{BodyReadTimeout: 50 * time.Millisecond}), never); got != http.StatusRequestTimeout {
		t.Errorf("a body that does not come: %d", got)
	}
}
