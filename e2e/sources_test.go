package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// sourceRoot returns the folder below which a server with this data directory may follow folders.
func sourceRoot(data string) string { return filepath.Join(data, "followed") }

// testSources keeps a collection in step with a folder, by API and command line.
func testSources(t *testing.T, s *server) {
	const n = 40
	dir := filepath.Join(sourceRoot(s.data), "towns")
	town := func(i int, metres int) {
		put(t, dir, fmt.Sprintf("part%d/town%02d.md", i%3, i), fmt.Sprintf("# Town %d\n\nThe bridge of town%dville is %d metres long.\n", i, i, metres))
	}
	for i := range n {
		town(i, 100+i)
	}
	put(t, dir, "draft.tmp", "not to be seen")
	put(t, sourceRoot(s.data), "outside.md", "The vault code is heliotrope.")
	if err := os.Symlink("../outside.md", filepath.Join(dir, "link.md")); err != nil {
		t.Fatal(err)
	}
	s.call(t, http.MethodPost, "/v1/collections", api.NewCollection{Name: "followed"}).want(t, http.StatusCreated)
	never := 0
	made := as[schema.Source](t, s.call(t, http.MethodPost, "/v1/sources", api.NewSource{Name: "towns", Collection: "followed", Driver: "folder", Paused: true,
		Settings: map[string]string{"path": dir}, SourceRules: api.SourceRules{Exclude: []string{"*.tmp"}, Every: &never}}).want(t, http.StatusCreated))
	preview := as[schema.SourcePreview](t, s.call(t, http.MethodGet, "/v1/sources/towns/preview", nil).want(t, http.StatusOK))
	if len(preview.Items) != n || len(preview.Skipped) != 2 || preview.More {
		t.Errorf("a preview shows %+v", preview)
	}

	// run waits until a number of runs have ended, and compares the newest with want.
	run := func(number int, want string) {
		t.Helper()
		var r schema.SourceRun
		waittest.Until(t, func() string {
			runs := as[api.Page[schema.SourceRun]](t, s.call(t, http.MethodGet, "/v1/sources/towns/runs", nil).want(t, http.StatusOK)).Items
			if len(runs) != number || runs[0].FinishedAt == nil {
				return fmt.Sprintf("%d runs have ended: %+v", len(runs), runs)
			}
			r = runs[0]
			return ""
		})
		got := fmt.Sprintf("%s: %d seen, %d added, %d changed, %d unchanged, %d deleted, %d skipped, %d fetched", r.State, r.Seen, r.Added, r.Changed, r.Unchanged,
			r.Deleted, r.Skipped, r.Fetched)
		if got != want {
			t.Errorf("run %d is\n%s, want\n%s", number, got, want)
		}
	}
	settled := func(want int64) {
		t.Helper()
		waittest.Until(t, func() string {
			c := counts(t, s, "followed")
			if unfinished(c) != 0 || c[schema.StateReady] != want {
				return fmt.Sprintf("documents are %v, want %d ready", c, want)
			}
			return ""
		})
	}
	s.sluice(t, "sources", "resume", "towns").ok(t)
	run(1, "done: 40 seen, 40 added, 0 changed, 0 unchanged, 0 deleted, 2 skipped, 40 fetched")
	settled(n)
	s.sluice(t, "sources", "show", "towns", "--skipped").ok(t).has(t, "link.md", "is a link", "draft.tmp", "excluded")
	found := search(t, s, "followed", "How long is the bridge of town7ville?")
	if len(found) == 0 || found[0].ExternalID != "source:"+made.ID.String()+"/part1/town07.md" {
		t.Errorf("found %v", names(found))
	}
	s.sluice(t, "sources", "sync", "towns", "--wait").ok(t).has(t, "40 unchanged", "0 fetched")
	run(2, "done: 40 seen, 0 added, 0 changed, 40 unchanged, 0 deleted, 2 skipped, 0 fetched")

	// One file is added, one changed and one deleted.
	town(n, 777)
	town(7, 999)
	remove := func(i int) {
		t.Helper()
		if err := os.Remove(filepath.Join(dir, fmt.Sprintf("part%d/town%02d.md", i%3, i))); err != nil {
			t.Fatal(err)
		}
	}
	remove(8)
	s.sluice(t, "sources", "sync", "towns", "--wait").ok(t)
	run(3, "done: 40 seen, 1 added, 1 changed, 38 unchanged, 1 deleted, 2 skipped, 2 fetched")
	settled(n)
	for question, want := range map[string]string{"How long is the bridge of town7ville?": "999 metres", "How long is the bridge of town40ville?": "777 metres"} {
		if found := search(t, s, "followed", question); len(found) == 0 || !strings.Contains(found[0].Text, want) {
			t.Errorf("%s: found %v", question, names(found))
		}
	}
	for _, c := range search(t, s, "followed", "How long is the bridge of town8ville?") {
		if strings.Contains(c.Text, "town8ville") || strings.Contains(c.Text, "heliotrope") {
			t.Errorf("%s is found: %q", c.ExternalID, c.Text)
		}
	}

	// More than a fifth of the files is deleted at once, so the source asks first.
	for i := 20; i < 30; i++ {
		remove(i)
	}
	s.sluice(t, "sources", "sync", "towns", "--wait").fails(t)
	s.sluice(t, "sources", "show", "towns").ok(t).has(t, "asking", "30 items", "there were 40")
	settled(n)
	s.sluice(t, "sources", "confirm", "towns").ok(t)
	run(4, "done: 30 seen, 0 added, 0 changed, 30 unchanged, 10 deleted, 2 skipped, 0 fetched")
	settled(n - 10)

	// A folder outside of the allowed ones is refused.
	s.sluice(t, "sources", "change", "towns", "--set", "path=/etc").ok(t)
	waittest.Until(t, func() string {
		now := as[schema.Source](t, s.call(t, http.MethodGet, "/v1/sources/towns", nil).want(t, http.StatusOK))
		if now.State != schema.SourceInvalid {
			return fmt.Sprintf("a source of /etc is %s", now.State)
		}
		return ""
	})
	settled(n - 10)
	other := s.withKey(into[api.TenantCreated](t, s.sluice(t, "tenants", "create", "sources-other", "--json").ok(t)).APIKey)
	other.call(t, http.MethodGet, "/v1/sources/"+made.ID.String(), nil).problem(t, http.StatusNotFound, "")
	s.sluice(t, "sources", "remove", "towns").ok(t)
	settled(0)
}
