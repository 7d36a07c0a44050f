// Package web is the back office: pages for browsers that only use the public API. `make build`
// builds them from the sources beside this file. A program built without them serves a page that
// says so.
package web

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed all:dist
var built embed.FS

//go:embed unbuilt.html
var unbuilt []byte

// policy is a Content-Security-Policy that lets pages load only from this server, and scripts and
// styles only from files.
const policy = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// api has the first elements of paths that are never pages.
var api = map[string]bool{"v1": true, "docs": true, "openapi.json": true, "openapi.yaml": true, "openapi-3.0.json": true, "openapi-3.0.yaml": true,
	"metrics": true, "healthz": true, "readyz": true, "mcp": true}

// Mount serves the back office at / in front of an API. The API keeps its own paths, and gets every
// request that is not a browser's visit to a page.
func Mount(handler http.Handler) http.Handler {
	dist, err := fs.Sub(built, "dist")
	if err != nil {
		panic(err) // the name is a constant
	}
	return mount(handler, dist)
}

func mount(handler http.Handler, dist fs.FS) http.Handler {
	s := &site{files: map[string]func() *file{}}
	_ = fs.WalkDir(dist, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.HasPrefix(path.Base(name), ".") {
			s.files[name] = sync.OnceValue(func() *file {
				body, err := fs.ReadFile(dist, name)
				if err != nil {
					return nil
				}
				return newFile(name, body)
			})
		}
		return nil // a file that cannot be read is not served
	})
	if s.files[indexPage] == nil {
		s.files[indexPage] = sync.OnceValue(func() *file { return newFile(indexPage, unbuilt) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.serve(w, r) {
			handler.ServeHTTP(w, r)
		}
	})
}

const indexPage = "index.html"

type site struct{ files map[string]func() *file }

// serve answers a visit. It returns false if the request is for the API.
func (s *site) serve(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	first, _, _ := strings.Cut(name, "/")
	switch open := s.files[name]; {
	case api[first]:
		return false
	case open != nil && name != indexPage:
		if f := open(); f != nil {
			f.write(w, r, strings.HasPrefix(name, "assets/"))
			return true
		}
		return false
	case name == "", first != "assets" && strings.Contains(r.Header.Get("Accept"), "text/html"):
		// Every other path is a page of the single-page application.
		s.files[indexPage]().write(w, r, false)
		return true
	}
	return false
}

// file is a file in the forms in which it is sent.
type file struct {
	mediaType string
	body      []byte
	zipped    []byte // gzip; nil: it would not be smaller
}

func newFile(name string, body []byte) *file {
	f := &file{body: body, mediaType: mime.TypeByExtension(path.Ext(name))}
	if f.mediaType == "" {
		f.mediaType = "application/octet-stream"
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(body)
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil && b.Len() < len(body) {
		f.zipped = b.Bytes()
	}
	return f
}

// write sends the file. The names of assets contain a hash of their content, so such a file never
// changes.
func (f *file) write(w http.ResponseWriter, r *http.Request, unchanging bool) {
	h := w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Vary", "Accept-Encoding")
	if unchanging {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-store")
	}
	body := f.body
	if f.zipped != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // the client may have disconnected
	}
}
