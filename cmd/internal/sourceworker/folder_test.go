package sourceworker

// A source that follows a folder.

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/auth"
	"github.com/sluice-rag/sluice/internal/store/tenants"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func TestAFolderIsFollowed(t *testing.T) {
	w := newWorld(t)
	const n = 300
	for i := range n {
		w.write(fmt.Sprintf("docs/part-%d/%03d.md", i%7, i), fmt.Sprintf("# Number %d\n", i))
	}
	w.write("docs/draft.tmp", "not this one")
	w.write("docs/large.md", strings.Repeat("x", 1<<20+1))
	w.write("secret.txt", "outside")
	w.ok(os.Symlink(filepath.Join(w.root, "secret.txt"), filepath.Join(w.root, "docs/link.md")))
	w.start()
	w.add("docs", "folder", map[string]string{"path": w.root + "/docs"}, func(s *api.NewSource) { s.Exclude, s.Labels = []string{"*.tmp"}, []string{"staff"} })
	first := w.ended("docs", 1)
	w.wantCounts(first, "done: seen 301 added 300 changed 0 unchanged 0 moved 0 deleted 0 skipped 3 fetched 300")
	if w.documents() != n || first.Bytes == 0 {
		t.Errorf("%d documents, %d bytes", w.documents(), first.Bytes)
	}
	var skipped api.Page[schema.SourceSkipped]
	w.do(http.MethodGet, "/v1/sources/docs/skipped", nil, http.StatusOK, &skipped)
	for _, want := range []schema.SourceSkipped{{Path: "link.md", Reason: "is a link"}, {Path: "draft.tmp", Reason: "excluded by the source's patterns"}} {
		found := false
		for _, s := range skipped.Items {
			found = found || s == want
		}
		if !found {
			t.Errorf("%+v is not in %+v", want, skipped.Items)
		}
	}
	id := w.source("docs").ID
	if got := scalar[string](w, `SELECT v.metadata->>'path' || ' ' || v.file_name || ' ' || (SELECT string_agg(label, ',') FROM version_labels l WHERE l.version_id = v.id)
		FROM documents d JOIN versions v ON v.id = d.last_version_id WHERE d.external_id = $1`, "source:"+id.String()+"/part-3/003.md"); got != "part-3/003.md 003.md staff" {
		t.Errorf("a document is %q", got)
	}

	// Without changes, nothing is fetched.
	w.act("docs", "run")
	second := w.ended("docs", 2)
	w.wantCounts(second, "done: seen 301 added 0 changed 0 unchanged 300 moved 0 deleted 0 skipped 3 fetched 0")
	if second.Bytes != 0 {
		t.Errorf("%d bytes were fetched", second.Bytes)
	}

	// One per cent of the files change. A file with a new time but the same content is not a new
	// version.
	for i := range 3 {
		w.write(fmt.Sprintf("docs/part-%d/%03d.md", i%7, i), fmt.Sprintf("# Number %d, changed\n", i))
	}
	w.ok(os.Chtimes(filepath.Join(w.root, "docs/part-4/004.md"), time.Time{}, time.Now().Add(-time.Hour)))
	w.act("docs", "run")
	w.wantCounts(w.ended("docs", 3), "done: seen 301 added 0 changed 3 unchanged 297 moved 0 deleted 0 skipped 3 fetched 4")
	if v := w.versions(); v != n+3 {
		t.Errorf("%d versions, want %d", v, n+3)
	}

	// Deleted files are deleted in the collection.
	for i := range 10 {
		w.ok(os.Remove(filepath.Join(w.root, fmt.Sprintf("docs/part-%d/%03d.md", i%7, i))))
	}
	w.act("docs", "run")
	w.wantCounts(w.ended("docs", 4), "done: seen 291 added 0 changed 0 unchanged 290 moved 0 deleted 10 skipped 3 fetched 0")
	if w.documents() != 290 {
		t.Errorf("%d documents", w.documents())
	}

	// A fifth of the files is deleted at once. The source asks first, and deletes nothing before.
	for i := 10; i < 70; i++ {
		w.ok(os.Remove(filepath.Join(w.root, fmt.Sprintf("docs/part-%d/%03d.md", i%7, i))))
	}
	w.act("docs", "run")
	s := w.state("docs", schema.SourceAsking)
	if w.documents() != 290 || s.Run.Deleted != 0 || s.NextAt != nil || !strings.Contains(s.Problem, "231 items, where there were 291") {
		t.Errorf("%d documents; %+v", w.documents(), s)
	}
	w.do(http.MethodPost, "/v1/sources/docs/confirm", map[string]string{"run": schema.NewID().String()}, http.StatusConflict, nil)
	w.do(http.MethodPost, "/v1/sources/docs/confirm", map[string]string{"run": s.Run.ID.String()}, http.StatusOK, nil)
	w.wantCounts(w.ended("docs", 5), "done: seen 231 added 0 changed 0 unchanged 230 moved 0 deleted 60 skipped 3 fetched 0")
	if w.documents() != 230 {
		t.Errorf("%d documents", w.documents())
	}

	// A missing folder is not treated as an empty one.
	w.ok(os.Rename(filepath.Join(w.root, "docs"), filepath.Join(w.root, "away")))
	w.act("docs", "run")
	s = w.state("docs", schema.SourceRetrying)
	if w.documents() != 230 || s.ProblemSince == nil || s.NextAt == nil || s.Tries == 0 {
		t.Errorf("%d documents; %+v", w.documents(), s)
	}
	w.ok(os.Rename(filepath.Join(w.root, "away"), filepath.Join(w.root, "docs")))
	w.wantCounts(w.ended("docs", 6), "done: seen 231 added 0 changed 0 unchanged 230 moved 0 deleted 0 skipped 3 fetched 0")
	if s := w.state("docs", schema.SourceWaiting); s.Problem != "" || s.Documents != 230 || s.Items != 231 || s.Pending != 0 {
		t.Errorf("%+v", s)
	}

	// Another tenant cannot see the source.
	known := auth.New(tenants.New(w.store))
	admin, err := known.Authenticate(w.context(), w.key)
	w.ok(err)
	_, key, err := known.CreateTenant(w.context(), admin, schema.NewTenant{Name: "other"})
	w.ok(err)
	for _, path := range []string{"", "/runs", "/items", "/skipped", "/preview"} {
		for _, source := range []string{"docs", id.String()} {
			if status, body := w.call(key, http.MethodGet, "/v1/sources/"+source+path, nil, nil); status != http.StatusNotFound {
				t.Errorf("another tenant gets %s%s: %d %s", source, path, status, body)
			}
		}
	}
	var all api.Page[schema.Source]
	if status, body := w.call(key, http.MethodGet, "/v1/sources", nil, &all); status != http.StatusOK || len(all.Items) != 0 {
		t.Errorf("another tenant lists %d %s", status, body)
	}
}

func TestFoldersOutsideOfTheRootsAreRefused(t *testing.T) {
	w := newWorld(t)
	w.start()
	for i, path := range []string{"/etc", w.root + "/../x", "relative"} {
		name := fmt.Sprintf("s%d", i)
		w.add(name, "folder", map[string]string{"path": path})
		if s := w.state(name, schema.SourceInvalid); !strings.Contains(s.Problem, "path") || s.NextAt != nil {
			t.Errorf("%s: %+v", path, s)
		}
	}
	w.write("in/a.md", "a")
	w.ok(os.Symlink("/etc", filepath.Join(w.root, "out")))
	w.add("out", "folder", map[string]string{"path": w.root + "/out"})
	if s := w.state("out", schema.SourceInvalid); !strings.Contains(s.Problem, "leads through a link out") || s.Documents != 0 || s.Items != 0 {
		t.Errorf("%+v", s)
	}
	w.do(http.MethodPatch, "/v1/sources/s0", api.SourceChange{Settings: map[string]string{"path": w.root + "/in"}}, http.StatusOK, nil)
	w.wantCounts(w.ended("s0", 2), "done: seen 1 added 1 changed 0 unchanged 0 moved 0 deleted 0 skipped 0 fetched 1")
}

func TestAPreviewWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.write("docs/a.md", "a")
	w.write("docs/b.tmp", "b")
	w.start()
	w.add("docs", "folder", map[string]string{"path": w.root + "/docs"}, func(s *api.NewSource) { s.Paused, s.Include = true, []string{"*.md"} })
	var p schema.SourcePreview
	w.do(http.MethodGet, "/v1/sources/docs/preview", nil, http.StatusOK, &p)
	if len(p.Items) != 1 || p.Items[0].Path != "a.md" || p.Items[0].Would != "add" || len(p.Skipped) != 1 || p.More {
		t.Errorf("%+v", p)
	}
	if s := w.source("docs"); s.State != schema.SourcePaused || s.Items != 0 || s.Run != nil || w.documents() != 0 {
		t.Errorf("%+v", s)
	}
	w.act("docs", "resume")
	w.ended("docs", 1)
	w.do(http.MethodGet, "/v1/sources/docs/preview", nil, http.StatusOK, &p)
	if len(p.Items) != 1 || p.Items[0].Would != "keep" {
		t.Errorf("%+v", p)
	}

	// Removing a source keeps its documents or deletes them.
	w.write("docs/c.md", "c")
	w.add("again", "folder", map[string]string{"path": w.root + "/docs"})
	w.ended("again", 1)
	w.do(http.MethodDelete, "/v1/sources/docs?keep_documents=true", nil, http.StatusAccepted, nil)
	w.until(w.gone("docs"))
	if n := w.documents(); n != 4 { // with b.tmp of the second source
		t.Errorf("%d documents", n)
	}
	w.do(http.MethodDelete, "/v1/sources/again", nil, http.StatusAccepted, nil)
	w.until(w.gone("again"))
	if n := w.documents(); n != 1 {
		t.Errorf("%d documents", n)
	}

	// Deleting a collection removes its sources, whatever their state.
	for name, paused := range map[string]bool{"paused": true, "followed": false} {
		w.add(name, "folder", map[string]string{"path": w.root + "/docs"}, func(s *api.NewSource) { s.Paused = paused })
	}
	w.ended("followed", 1)
	w.do(http.MethodDelete, "/v1/collections/docs", nil, http.StatusNoContent, nil)
	w.until(w.gone("paused"))
	w.until(w.gone("followed"))
}
