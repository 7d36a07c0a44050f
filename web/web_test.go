package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

var pages = fstest.MapFS{
	".keep":               {Data: []byte("x")},
	"index.html":          {Data: []byte("<!doctype html>" + strings.Repeat("<p>page</p>", 50))},
	"assets/index-abc.js": {Data: []byte(strings.Repeat("console.log(1);", 50))},
	"icon.svg":            {Data: []byte("<svg/>")},
}

// visit requests a path as a browser or a program does.
func visit(t *testing.T, h http.Handler, method, path, accept string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPagesAndAPIKeepApart(t *testing.T) {
	h := mount(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }), pages)
	const browser, program = "text/html,application/xhtml+xml,*/*;q=0.8", "*/*"
	for _, c := range []struct {
		method, path, accept string
		page                 bool
	}{
		{http.MethodGet, "/", browser, true},
		{http.MethodGet, "/", program, true},
		{http.MethodHead, "/", program, true},
		{http.MethodGet, "/collections/docs", browser, true},
		{http.MethodGet, "/index.html", browser, true},
		{http.MethodGet, "/icon.svg", program, true},
		{http.MethodGet, "/assets/index-abc.js", program, true},
		{http.MethodGet, "/assets/index-old.js", browser, false},
		{http.MethodGet, "/.keep", program, false},
		{http.MethodGet, "/collections/docs", program, false},
		{http.MethodPost, "/", browser, false},
		{http.MethodGet, "/v1/nothing", browser, false},
		{http.MethodGet, "/v1", browser, false},
		{http.MethodGet, "/docs", browser, false},
		{http.MethodGet, "/openapi.json", browser, false},
		{http.MethodGet, "/metrics", browser, false},
		{http.MethodGet, "/healthz", browser, false},
		{http.MethodGet, "/readyz", browser, false},
		{http.MethodGet, "/mcp", browser, false},
	} {
		if w := visit(t, h, c.method, c.path, c.accept); (w.Code == http.StatusOK) != c.page {
			t.Errorf("%s %s for %q gave %d", c.method, c.path, c.accept, w.Code)
		}
	}
}

func TestFilesAreSentSafelyAndSmall(t *testing.T) {
	h := mount(http.NotFoundHandler(), pages)
	for path, cache := range map[string]string{"/": "no-store", "/assets/index-abc.js": "public, max-age=31536000, immutable", "/icon.svg": "no-store"} {
		w := visit(t, h, http.MethodGet, path, "*/*")
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(policy, "script-src 'self';") || !strings.Contains(policy, "worker-src 'self';") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s has the policy %q", path, policy)
		}
		if got := w.Header(); got.Get("Cache-Control") != cache || got.Get("X-Content-Type-Options") != "nosniff" || got.Get("Referrer-Policy") == "" || got.Get("Content-Encoding") != "" {
			t.Errorf("%s has the headers %v", path, got)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/assets/index-abc.js", nil)
	r.Header.Set("Accept-Encoding", "gzip, br")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/javascript") || w.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("headers %v", w.Header())
	}
	unzipped, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(unzipped); err != nil || string(body) != string(pages["assets/index-abc.js"].Data) {
		t.Errorf("unzipped %q, %v", body, err)
	}
}

func TestWithoutPagesOneSaysHowToBuildThem(t *testing.T) {
	h := mount(http.NotFoundHandler(), fstest.MapFS{".keep": {}})
	if w := visit(t, h, http.MethodGet, "/", "text/html"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "make build") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w := visit(t, Mount(http.NotFoundHandler()), http.MethodGet, "/", "text/html"); w.Code != http.StatusOK {
		t.Errorf("the embedded pages gave %d", w.Code)
	}
}
