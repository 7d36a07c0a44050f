package rclonefs

import (
	"crypto/subtle"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	dav "golang.org/x/net/webdav"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/source/sourcetest"
)

// testPage is how many items a page has in tests, so that few files make several.
const testPage = 4

// paged returns a kind whose pages have few items.
func paged(k *kind, items int) *kind {
	small := *k
	small.page = items
	return &small
}

// folder lets a fixture write into a folder that a server serves.
func folder(fixture *sourcetest.Fixture, dir string) {
	fixture.Put = func(t testing.TB, path string, content []byte) {
		t.Helper()
		at := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fixture.Remove = func(t testing.TB, path string) {
		t.Helper()
		if err := os.Remove(filepath.Join(dir, filepath.FromSlash(path))); err != nil {
			t.Fatal(err)
		}
	}
}

// webdavServer serves a folder to one user.
func webdavServer(t testing.TB, dir string) string {
	handler := &dav.Handler{FileSystem: dav.Dir(dir), LockSystem: dav.NewMemLS()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if subtle.ConstantTimeCompare([]byte(user+":"+password), []byte("reader:secret")) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="files"`)
			http.Error(w, "sign in", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func webdavFixture(t testing.TB) sourcetest.Fixture {
	dir := t.TempDir()
	faults := sourcetest.NewFaults(t, webdavServer(t, dir))
	fixture := sourcetest.Fixture{
		Driver: paged(webdav, testPage).driver(), Faults: faults, NoRetryAfter: true,
		Settings:         source.Settings{AllowPrivate: true, Values: map[string]string{"url": faults.URL(), "user": "reader", "password": "secret"}},
		WrongCredentials: func(v map[string]string) { v["password"] = "wrong" },
		Listing:          func(r *http.Request) bool { return r.Method == "PROPFIND" && r.Header.Get("Depth") == "1" },
		Content:          func(r *http.Request) bool { return r.Method == http.MethodGet },
	}
	folder(&fixture, dir)
	return fixture
}

func TestWebDAV(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.Fixture { return webdavFixture(t) })
}
