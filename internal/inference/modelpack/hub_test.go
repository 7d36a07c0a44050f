package modelpack

// This file tests fetching from a hub, with an HTTP server of the same layout.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

const testCommit = "0123456789abcdef0123456789abcdef01234567"

// hubServer serves the test folders as /org/{model}/resolve/{revision}/{file}. Like a hub, it
// redirects large files to another path. instead may answer in its place.
type hubServer struct {
	*httptest.Server
	sync.Mutex
	asked   []string
	instead func(w http.ResponseWriter, r *http.Request) bool
}

func newHubServer(t *testing.T) *hubServer {
	h := &hubServer{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /mirror/org/{model}/resolve/{revision}/{file...}", func(w http.ResponseWriter, r *http.Request) {
		h.Lock()
		h.asked = append(h.asked, r.PathValue("revision")+" "+r.PathValue("file"))
		h.Unlock()
		if h.instead != nil && h.instead(w, r) {
			return
		}
		w.Header().Set("X-Repo-Commit", testCommit)
		if strings.HasSuffix(r.PathValue("file"), ".onnx") {
			http.Redirect(w, r, "/large/"+r.PathValue("model")+"/"+r.PathValue("file"), http.StatusFound)
			return
		}
		http.ServeFileFS(w, r, os.DirFS(filepath.Join(models, r.PathValue("model"))), r.PathValue("file"))
	})
	mux.Handle("GET /large/", http.StripPrefix("/large", http.FileServer(http.Dir(models))))
	h.Server = httptest.NewServer(mux)
	t.Cleanup(h.Close)
	return h
}

func (h *hubServer) options(t *testing.T) Options {
	return Options{Dir: t.TempDir(), Hub: h.URL + "/mirror/", Client: h.Client()}
}

func TestAModelIsFetchedFromAHub(t *testing.T) {
	for _, c := range []struct{ from, revision string }{
		{"hf:org/bert-mean", "main"}, {"hf:org/distilbert-cls@v1.0", "v1.0"}, {"hf:org/cross-encoder@refs/pr/1", "refs/pr/1"},
	} {
		h := newHubServer(t)
		added, err := Add(t.Context(), h.options(t), Addition{From: c.from})
		if err != nil {
			t.Fatalf("%s: %v", c.from, err)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(c.from, "hf:org/"), "@")
		want := "hf:org/" + name + "@" + testCommit
		if m := manifestOf(t, added.Pack.Path); m.Name != name || len(added.Pack.Sources) != 1 || added.Pack.Sources[0] != want {
			t.Errorf("%s: name %s, sources %q, want %s", c.from, m.Name, added.Pack.Sources, want)
		}
		whole(t, added.Pack.Path)
		if h.asked[0] != c.revision+" config.json" {
			t.Errorf("%s: first asked for %q", c.from, h.asked[0])
		}
		for _, asked := range h.asked[1:] {
			if !strings.HasPrefix(asked, testCommit+" ") {
				t.Errorf("%s: asked for %q: all files must be of one commit", c.from, asked)
			}
		}
	}
}

func TestHubErrorsNameTheProblem(t *testing.T) {
	answer := func(file string, code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.PathValue("file") != file {
				return false
			}
			http.Error(w, "", code)
			return true
		}
	}
	// A server that stops in the middle of a file.
	dies := func(file string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.PathValue("file") != file {
				return false
			}
			w.Header().Set("Content-Length", "100000")
			_, _ = io.WriteString(w, strings.Repeat("x", 5000))
			return true
		}
	}
	for name, c := range map[string]struct {
		from    string
		hub     string // empty: the test's
		instead func(http.ResponseWriter, *http.Request) bool
		is      error
		says    []string
	}{
		"no address":        {"hf:org/bert-mean", "none", nil, schema.ErrInvalid, []string{"SLUICE_HUB_URL", "hf:org/bert-mean"}},
		"no HTTP":           {"hf:org/bert-mean", "ftp://hub", nil, schema.ErrInvalid, []string{"SLUICE_HUB_URL", "ftp://hub"}},
		"nobody there":      {"hf:org/bert-mean", "http://127.0.0.1:1", nil, schema.ErrUnavailable, []string{"SLUICE_HUB_URL", "config.json"}},
		"no such model":     {"hf:org/nothing", "", nil, schema.ErrInvalid, []string{"config.json", "missing"}},
		"a name outside":    {"hf:../etc", "", nil, schema.ErrInvalid, []string{"../etc"}},
		"dots":              {"hf:org/a..b", "", nil, schema.ErrInvalid, []string{"org/a..b"}},
		"a revision up":     {"hf:org/bert-mean@../../x", "", nil, schema.ErrInvalid, []string{"../../x", "revision"}},
		"private":           {"hf:org/bert-mean", "", answer("config.json", http.StatusUnauthorized), schema.ErrForbidden, []string{"config.json", "401", "add its folder"}},
		"overloaded":        {"hf:org/bert-mean", "", answer("tokenizer.json", http.StatusTooManyRequests), schema.ErrUnavailable, []string{"tokenizer.json", "429", "try again"}},
		"no graph":          {"hf:org/bert-mean", "", answer("onnx/model.onnx", http.StatusNotFound), schema.ErrInvalid, []string{"onnx/model.onnx", "--graph"}},
		"dies in a graph":   {"hf:org/bert-mean", "", dies("onnx/model.onnx"), io.ErrUnexpectedEOF, []string{"onnx/model.onnx"}},
		"dies in a config":  {"hf:org/bert-mean", "", dies("tokenizer.json"), io.ErrUnexpectedEOF, []string{"tokenizer.json"}},
		"too large a graph": {"hf:org/bert-mean", "", huge, schema.ErrTooLarge, []string{"onnx/model.onnx"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHubServer(t)
			h.instead = c.instead
			o := h.options(t)
			switch c.hub {
			case "":
			case "none":
				o.Hub = ""
			default:
				o.Hub = c.hub
			}
			_, err := Add(t.Context(), o, Addition{From: c.from})
			if !errors.Is(err, c.is) {
				t.Fatalf("got %v, want %v", err, c.is)
			}
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q is not in: %v", text, err)
				}
			}
			nothing(t, o.Dir)
		})
	}
}

// huge reports a graph size above the limit, and would never end.
func huge(w http.ResponseWriter, r *http.Request) bool {
	if r.PathValue("file") != "onnx/model.onnx" {
		return false
	}
	w.Header().Set("Content-Length", fmt.Sprint(int64(defaultMaxGraph)+1))
	w.WriteHeader(http.StatusOK)
	return true
}

func TestAGraphOfUnknownLengthIsBounded(t *testing.T) {
	h := newHubServer(t)
	h.instead = func(w http.ResponseWriter, r *http.Request) bool {
		if r.PathValue("file") != "onnx/model.onnx" {
			return false
		}
		for range 1000 {
			if _, err := w.Write(make([]byte, 10_000)); err != nil {
				return true
			}
		}
		return true
	}
	o := h.options(t)
	o.MaxGraph = 1 << 20
	if _, err := Add(t.Context(), o, Addition{From: "hf:org/bert-mean"}); !errors.Is(err, schema.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	nothing(t, o.Dir)
}

func TestAnInterruptedDownloadLeavesNothing(t *testing.T) {
	h := newHubServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h.instead = func(w http.ResponseWriter, r *http.Request) bool {
		if r.PathValue("file") != "onnx/model.onnx" {
			return false
		}
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, "some")
		w.(http.Flusher).Flush()
		cancel()
		<-r.Context().Done()
		return true
	}
	o := h.options(t)
	if _, err := Add(ctx, o, Addition{From: "hf:org/bert-mean"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	nothing(t, o.Dir)
}
