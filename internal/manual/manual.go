// Package manual serves the documentation below /docs, from pages in Markdown, with a search over
// their sections. It loads nothing from other hosts. It is the same for everybody and needs no key.
package manual

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Prefix is the path prefix of the pages.
const Prefix = "/docs"

// APIPage is the path of the description of the API, which is not among the pages.
const APIPage = Prefix + "/api"

// start is the name of the page at Prefix itself.
const start = "index"

const maxQuery = 200 // characters

//go:embed manual.html
var layoutText string

//go:embed manual.css
var style []byte

var layout = template.Must(template.New("manual").Parse(layoutText))

// policy allows pages to load only this server's style and pictures.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Manual is the documentation.
type Manual struct {
	files fs.FS
	pages map[string]func() (*page, error) // by name, without .md
	index func() (*index, error)
}

// New returns the manual with the files *.md at the root of a file system. The first page is
// index.md.
func New(files fs.FS) (*Manual, error) {
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		return nil, fmt.Errorf("list the pages of the manual: %w", err)
	}
	m := &Manual{files: files, pages: map[string]func() (*page, error){}}
	for _, file := range names {
		name := strings.TrimSuffix(file, ".md")
		m.pages[name] = sync.OnceValues(func() (*page, error) { return readPage(files, name) })
	}
	if m.pages[start] == nil {
		return nil, errors.New("the manual has no page index.md")
	}
	m.index = sync.OnceValues(m.makeIndex)
	return m, nil
}

// Mount serves the manual, and passes other requests, and those for APIPage, to handler.
func (m *Manual) Mount(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read := r.Method == http.MethodGet || r.Method == http.MethodHead
		if name, ours := strings.CutPrefix(r.URL.Path, Prefix); read && ours && r.URL.Path != APIPage && (name == "" || name[0] == '/') {
			m.serve(w, r, strings.Trim(name, "/"))
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// view is the data of the layout.
type view struct {
	Title string
	Query string
	Body  template.HTML // of a page
	Parts []heading     // of a long page
	Hits  []hit         // of a search
	Found bool          // it is the result of a search
}

func (m *Manual) serve(w http.ResponseWriter, r *http.Request, name string) {
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	switch {
	case name == "manual.css":
		send(w, r, http.StatusOK, "text/css; charset=utf-8", style)
	case strings.HasPrefix(name, "images/"):
		m.picture(w, r, name)
	case name == "" && query != "":
		m.search(w, r, query)
	case name == "":
		m.show(w, r, start)
	default:
		m.show(w, r, strings.TrimSuffix(name, ".md"))
	}
}

func (m *Manual) show(w http.ResponseWriter, r *http.Request, name string) {
	read := m.pages[name]
	if read == nil {
		render(w, r, http.StatusNotFound, view{Title: "No such page", Body: template.HTML(`<h1>No such page</h1><p><a href="` + Prefix + `">All pages</a></p>`)}) //nolint:gosec // it is a constant
		return
	}
	p, err := read()
	if err != nil {
		http.Error(w, "this page cannot be shown", http.StatusInternalServerError)
		return
	}
	render(w, r, http.StatusOK, view{Title: p.title, Body: p.body, Parts: p.parts()})
}

func (m *Manual) search(w http.ResponseWriter, r *http.Request, query string) {
	if characters := []rune(query); len(characters) > maxQuery {
		query = string(characters[:maxQuery])
	}
	x, err := m.index()
	if err != nil {
		http.Error(w, "the pages cannot be searched", http.StatusInternalServerError)
		return
	}
	render(w, r, http.StatusOK, view{Title: "Search: " + query, Query: query, Hits: x.search(query), Found: true})
}

func (m *Manual) picture(w http.ResponseWriter, r *http.Request, name string) {
	body, err := fs.ReadFile(m.files, name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	kind := mime.TypeByExtension(path.Ext(name))
	if kind == "" {
		kind = "application/octet-stream"
	}
	send(w, r, http.StatusOK, kind, body)
}

func render(w http.ResponseWriter, r *http.Request, status int, v view) {
	var b bytes.Buffer
	if err := layout.Execute(&b, v); err != nil {
		http.Error(w, "this page cannot be shown", http.StatusInternalServerError)
		return
	}
	send(w, r, status, "text/html; charset=utf-8", b.Bytes())
}

func send(w http.ResponseWriter, r *http.Request, status int, kind string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // the client may be gone
	}
}

// names returns the names of all pages, sorted.
func (m *Manual) names() []string {
	var out []string
	for name := range m.pages {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
