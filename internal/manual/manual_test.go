package manual

import (
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-rag/sluice/docs"
)

var nothing = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusTeapot)
	fmt.Fprint(w, r.URL.Path)
})

func ours(t *testing.T) *Manual {
	t.Helper()
	m, err := New(docs.Pages)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func get(t *testing.T, h http.Handler, at string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, at, nil))
	return w
}

// Every page can be shown, every link has a target, and every page can be reached from the first.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	m := ours(t)
	pages := map[string]*page{}
	for _, name := range m.names() {
		p, err := m.pages[name]()
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = p
	}
	reached := map[string]bool{start: true}
	for todo := []string{start}; len(todo) > 0; todo = todo[1:] {
		for _, to := range pages[todo[0]].links {
			file, _, _ := strings.Cut(to, "#")
			if name := strings.TrimSuffix(file, ".md"); pages[name] != nil && !reached[name] {
				reached[name] = true
				todo = append(todo, name)
			}
		}
	}
	for name, p := range pages {
		if !reached[name] {
			t.Errorf("no link leads from index.md to %s.md", name)
		}
		for _, to := range p.links {
			if err := leads(pages, p, to); err != nil {
				t.Errorf("%s.md links to %s: %v", name, to, err)
			}
		}
	}
}

// leads returns an error if a link of a page has no target.
func leads(pages map[string]*page, from *page, to string) error {
	file, anchor, _ := strings.Cut(to, "#")
	if strings.Contains(file, "://") || strings.HasPrefix(file, "/") {
		return nil
	}
	if strings.HasPrefix(file, "../") {
		_, err := os.Stat(path.Join("../../docs", file))
		return err
	}
	if !strings.HasSuffix(file, ".md") && file != "" {
		_, err := fs.Stat(docs.Pages, file)
		return err
	}
	p := from
	if file != "" {
		if p = pages[strings.TrimSuffix(file, ".md")]; p == nil {
			return errors.New("there is no such page")
		}
	}
	if anchor != "" && !slices.ContainsFunc(p.sections, func(s chapter) bool { return s.ID == anchor }) {
		return errors.New("there is no such heading")
	}
	return nil
}

func TestPagesAreServed(t *testing.T) {
	h := ours(t).Mount(nothing)
	for at, want := range map[string]string{
		"/docs": "<h1", "/docs/": "<h1", "/docs/architecture": "Who may import whom", "/docs/architecture.md": "Who may import whom",
		"/docs/manual.css": "color-scheme",
	} {
		w := get(t, h, at)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("GET %s gave %d without %q", at, w.Code, want)
		}
		if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("GET %s has no policy", at)
		}
	}
	if w := get(t, h, "/docs/images/answer.png"); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/png" {
		t.Errorf("a picture: %d %s", w.Code, w.Header().Get("Content-Type"))
	}
	for _, at := range []string{"/docs/nothing", "/docs/images/nothing.png", "/docs/../go.mod", "/docs/docs.go"} {
		if w := get(t, h, at); w.Code != http.StatusNotFound {
			t.Errorf("GET %s gave %d", at, w.Code)
		}
	}
	for _, at := range []string{"/docs/api", "/docsx", "/v1/collections"} {
		if w := get(t, h, at); w.Code != http.StatusTeapot {
			t.Errorf("GET %s is not the manual's, and gave %d", at, w.Code)
		}
	}
	post := httptest.NewRecorder()
	h.ServeHTTP(post, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/docs", nil))
	if post.Code != http.StatusTeapot {
		t.Errorf("POST gave %d", post.Code)
	}
	page := get(t, h, "/docs/operating").Body.String()
	if strings.Contains(page, ".md\"") || strings.Contains(page, `href="../`) {
		t.Error("a link leads to a file of the repository")
	}
}

func TestSectionsAreFound(t *testing.T) {
	h := ours(t).Mount(nothing)
	for query, want := range map[string]string{
		"erase a tenant":              "/docs/backup#erasing-a-tenant",
		"who may import whom":         "/docs/architecture#who-may-import-whom",
		"sign in with OpenID Connect": "/docs/sign-in",
		"SLUICE_DATABASE_REPLICA_URL": "/docs/configuration",
		"restoring a backup":          "/docs/backup#restoring",
	} {
		body := get(t, h, "/docs?q="+strings.ReplaceAll(query, " ", "+")).Body.String()
		at := strings.Index(body, want)
		if at < 0 || strings.Count(body[:at], "<li>") > 3 {
			t.Errorf("%q doesn't find %s among its first three:\n%s", query, want, body)
		}
	}
	hostile := get(t, h, "/docs?q=%3Cscript%3Ealert(1)%3C/script%3E").Body.String()
	if strings.Contains(hostile, "<script>") || !strings.Contains(hostile, html.EscapeString("<script>")) {
		t.Errorf("a query is shown as it is:\n%s", hostile)
	}
	if body := get(t, h, "/docs?q=zzqx").Body.String(); !strings.Contains(body, "Nothing has these words") {
		t.Errorf("nothing is found, and yet:\n%s", body)
	}
	if w := get(t, h, "/docs?q="+strings.Repeat("word+", 5000)); w.Code != http.StatusOK || w.Body.Len() > 20_000 {
		t.Errorf("a long query: %d, %d bytes", w.Code, w.Body.Len())
	}
}

func TestAManualNeedsAFirstPage(t *testing.T) {
	if _, err := New(fstest.MapFS{"a.md": {Data: []byte("# A")}}); err == nil {
		t.Error("a manual without index.md")
	}
	m, err := New(fstest.MapFS{"index.md": {Data: []byte("# A <b>\n\n<script>x</script>\n\nlead [out](../go.mod) [b](b.md#c)")}, "b.md": {Data: []byte("# B\n\n## C\n\ntext")}})
	if err != nil {
		t.Fatal(err)
	}
	body := get(t, m.Mount(nothing), "/docs").Body.String()
	if strings.Contains(body, "<script>x") || strings.Contains(body, "go.mod") || !strings.Contains(body, "lead out ") || !strings.Contains(body, `href="/docs/b#c"`) {
		t.Errorf("%s", body)
	}
}
