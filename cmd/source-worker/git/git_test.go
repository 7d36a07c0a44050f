package git

import (
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/source/sourcetest"
)

// testRepository is a repository that git serves over HTTP to one user.
type testRepository struct {
	dir  string
	repo *gogit.Repository
	url  string
}

// newTestRepository creates an empty repository. With byHash, its server serves commits by their
// hashes.
func newTestRepository(t testing.TB, byHash bool) *testRepository {
	t.Helper()
	root := t.TempDir()
	b := &testRepository{dir: filepath.Join(root, "handbook")}
	var err error
	if b.repo, err = gogit.PlainInit(b.dir, false); err != nil {
		t.Fatal(err)
	}
	config, err := b.repo.Config()
	if err != nil {
		t.Fatal(err)
	}
	if byHash {
		config.Raw.Section("uploadpack").SetOption("allowReachableSHA1InWant", "true")
	}
	if err := b.repo.SetConfig(config); err != nil {
		t.Fatal(err)
	}
	programs, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatalf("git is needed, which serves the repository: %v", err)
	}
	handler := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(programs)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + root}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user+":"+password != "reader:secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "sign in", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

// commit writes a file, or removes it if content is nil, and commits that.
func (b *testRepository) commit(t testing.TB, path string, content []byte) {
	t.Helper()
	tree, err := b.repo.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(b.dir, filepath.FromSlash(path))
	if content == nil {
		_, err = tree.Remove(path)
	} else {
		if err = os.MkdirAll(filepath.Dir(at), 0o755); err == nil {
			err = os.WriteFile(at, content, 0o644)
		}
		if err == nil {
			_, err = tree.Add(path)
		}
	}
	if err == nil {
		_, err = tree.Commit("Change "+path, &gogit.CommitOptions{Author: &object.Signature{Name: "A", Email: "a@example.org", When: time.Now()}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (b *testRepository) settings(url string) source.Settings {
	return source.Settings{AllowPrivate: true, Values: map[string]string{"url": url + "/handbook/.git", "user": "reader", "password": "secret"}}
}

func TestGit(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.Fixture {
		b := newTestRepository(t, true)
		faults := sourcetest.NewFaults(t, b.url)
		pack := func(r *http.Request) bool { return r.Method == http.MethodPost }
		return sourcetest.Fixture{
			Driver: driver(4), Settings: b.settings(faults.URL()), Faults: faults, Snapshot: true, Listing: pack, Content: pack,
			WrongCredentials: func(v map[string]string) { v["password"] = "wrong" },
			Put:              b.commit,
			Remove:           func(t testing.TB, path string) { b.commit(t, path, nil) },
		}
	})
}

func TestOneFolderOfABranch(t *testing.T) {
	b := newTestRepository(t, false)
	b.commit(t, "docs/a.md", []byte("a"))
	b.commit(t, "docs/b/c.md", []byte("c"))
	b.commit(t, "code/main.go", []byte("package main"))
	settings := b.settings(b.url)
	settings.Values["path"], settings.Values["branch"] = "docs", "master"
	c, err := Driver().Open(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	page, err := c.List(t.Context(), "")
	if err != nil || len(page.Items) != 2 || page.Items[1].Path != "b/c.md" || page.Items[1].ID != "docs/b/c.md" {
		t.Fatalf("the folder has %+v, %v", page, err)
	}
	same, err := c.List(t.Context(), page.Changes)
	if err != nil || len(same.Items) != 0 || same.Changes != page.Changes {
		t.Errorf("without a commit, the changes are %+v, %v", same, err)
	}
	b.commit(t, "docs/a.md", []byte("more"))
	if _, err := c.List(t.Context(), page.Changes); !errors.Is(err, source.ErrCursorExpired) {
		t.Errorf("a server that gives out no commits by their hashes gives %v, want ErrCursorExpired", err)
	}
	settings.Values["branch"] = "nowhere"
	var field *source.FieldError
	if _, err := Driver().Open(t.Context(), settings); !errors.As(err, &field) || field.Field != "branch" {
		t.Errorf("a branch that isn't there gives %v", err)
	}
}

func TestLargeRepositoriesAreRefused(t *testing.T) {
	b := newTestRepository(t, false)
	content := make([]byte, 2<<20)
	for i, x := 0, uint32(1); i < len(content); i++ {
		x = x*1664525 + 1013904223 // text that doesn't compress
		content[i] = byte(x >> 24)
	}
	b.commit(t, "large.bin", content)
	settings := b.settings(b.url)
	settings.Values["max_megabytes"] = "1"
	c, err := Driver().Open(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.List(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "max_megabytes") {
		t.Errorf("a repository of 2 MB, where 1 MB is allowed, gives %v", err)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "sluice-git-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("there are still %q, %v", left, err)
	}
}
