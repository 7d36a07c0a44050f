package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/httpapi"
)

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

// publicRoutes are the routes that need no credential, with their status when no provider is
// configured.
var publicRoutes = map[string]int{"/v1/session/ways": http.StatusOK, "/v1/session/oidc": http.StatusNotFound, "/v1/session/oidc/callback": http.StatusNotFound}

func TestOpenAPIDescribesEveryRoute(t *testing.T) {
	h := httpapi.New(httpapi.Options{Version: "1.2.3"})
	w := get(t, h, "/openapi.json")
	var spec struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string
			Summary     string
			Parameters  []struct{ Name, In string }
			Responses   map[string]any
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &spec); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(spec.OpenAPI, "3.1") {
		t.Errorf("OpenAPI %q, want 3.1", spec.OpenAPI)
	}
	for path, verbs := range spec.Paths {
		if !strings.HasPrefix(path, "/v1/") {
			t.Errorf("%s is not under /v1", path)
		}
		for verb, op := range verbs {
			without, public := publicRoutes[path]
			if op.Summary == "" || op.Responses["401"] == nil && without != http.StatusOK || op.Responses["422"] == nil && verb != "get" {
				t.Errorf("%s %s is not described: %+v", verb, path, op)
			}
			for _, part := range strings.Split(path, "/") {
				name := strings.Trim(part, "{}")
				if name != part && !slices.Contains(op.Parameters, struct{ Name, In string }{name, "path"}) {
					t.Errorf("%s %s does not read its parameter %s", verb, path, name)
				}
			}
			// Every route requires a key before anything else. The session's also requires the
			// header that no form can send.
			r := httptest.NewRequestWithContext(t.Context(), strings.ToUpper(verb), strings.NewReplacer("{", "", "}", "").Replace(path), strings.NewReader("{}"))
			r.Header.Set("X-Sluice-Session", "1")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if public {
				if w.Code != without {
					t.Errorf("%s %s without a key gave %d, want %d", verb, path, w.Code, without)
				}
				continue
			}
			if w.Code != http.StatusUnauthorized || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %s without a key gave %d %s", verb, path, w.Code, w.Header().Get("Content-Type"))
			}
		}
	}
	if len(spec.Paths) < 15 {
		t.Errorf("only %d paths", len(spec.Paths))
	}
}

func TestDocsPageAsksNoOtherHost(t *testing.T) {
	w := get(t, httpapi.New(httpapi.Options{}), "/docs/api")
	if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "http://") || strings.Contains(w.Body.String(), "https://") {
		t.Errorf("status %d, or a link to another host", w.Code)
	}
}

func TestUnknownPathIsAProblem(t *testing.T) {
	w := get(t, httpapi.New(httpapi.Options{}), "/v2/nothing")
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "/v2/nothing") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	wrong := httptest.NewRecorder()
	httpapi.New(httpapi.Options{}).ServeHTTP(wrong, httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/v1/collections", nil))
	if wrong.Code != http.StatusMethodNotAllowed || wrong.Header().Get("Allow") != "GET, POST" {
		t.Errorf("a method that no route takes gave %d, Allow %q", wrong.Code, wrong.Header().Get("Allow"))
	}
	if w := get(t, httpapi.New(httpapi.Options{}), "/healthz"); w.Code != http.StatusOK {
		t.Errorf("/healthz gave %d", w.Code)
	}
}
