// Package sourcetest is the conformance test of the connectors of package source, run against a
// real server of each kind.
package sourcetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// Fixture is a source that a driver opens, at first empty, and the means to change its content.
type Fixture struct {
	Driver   source.Driver
	Settings source.Settings
	// Put writes a file, and Remove removes one.
	Put    func(t testing.TB, path string, content []byte)
	Remove func(t testing.TB, path string)
	// Name returns the path at which an item was put, if it isn't the item's own.
	Name func(source.Item) string
	// Same reports whether fetched content is what was put, if that isn't a comparison of bytes.
	Same func(put, fetched []byte) bool

	// WrongCredentials changes settings to credentials that the source refuses; nil if it accepts
	// everybody.
	WrongCredentials func(values map[string]string)
	// Faults is the proxy in front of the source that the settings use; nil if there is none.
	Faults *Faults
	// TCPProxy is the same for a source that isn't reached by HTTP.
	TCPProxy *TCPProxy
	// Listing and Content match the requests that list and fetch, for faults; nil matches all.
	Listing, Content func(*http.Request) bool
	// NoRetryAfter says that the client library does not report how long the source asks to wait.
	NoRetryAfter bool
	// Snapshot says that a connector fetches from what its listing loaded, so that only a new
	// connector sends requests to the source.
	Snapshot bool
	// OnePage says that the source always lists everything in one page.
	OnePage bool
}

// name returns the path at which an item was put.
func (p Fixture) name(item source.Item) string {
	if p.Name != nil {
		return p.Name(item)
	}
	return item.Path
}

func (p Fixture) same(put, fetched []byte) bool {
	if p.Same != nil {
		return p.Same(put, fetched)
	}
	return bytes.Equal(put, fetched)
}

// faulty is a proxy in front of a server that injects faults.
type faulty interface {
	Set(*Fault)
	Blocked() <-chan struct{}
}

// faults returns the proxy of the source, or nil if it has none.
func (p Fixture) faults() faulty {
	switch {
	case p.Faults != nil:
		return p.Faults
	case p.TCPProxy != nil:
		return p.TCPProxy
	}
	return nil
}

// open opens the source, or fails the test.
func (p Fixture) open(t testing.TB) source.Connector {
	t.Helper()
	c, err := p.Driver.Open(t.Context(), p.Settings)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// fill puts the files of most tests and returns them: more than a page, in folders, with names that
// are difficult in paths and URLs.
func (p Fixture) fill(t testing.TB) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for i := range 8 {
		files[fmt.Sprintf("minutes-%02d.txt", i)] = fmt.Appendf(nil, "Minutes of meeting %d.\n", i)
		files[fmt.Sprintf("reports/q%d.txt", i)] = fmt.Appendf(nil, "Report %d of the year.\n", i)
		files[fmt.Sprintf("reports/old/year %d/summary.txt", i)] = fmt.Appendf(nil, "The year %d in short.\n", i)
	}
	files["reports/Übersicht #1, 100%.txt"] = []byte("Overview.\n")
	files["reports.txt"] = []byte("About the reports.\n")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		p.Put(t, name, files[name])
	}
	return files
}

// page is a listed page, and the cursor that led to it.
type page struct {
	cursor string
	source.Listing
}

// list lists from a cursor to the end.
func list(t testing.TB, c source.Connector, cursor string) []page {
	t.Helper()
	var out []page
	for {
		found, err := c.List(t.Context(), cursor)
		if err != nil {
			t.Fatalf("list page %d: %v", len(out), err)
		}
		out = append(out, page{cursor: cursor, Listing: found})
		if found.Next == "" {
			return out
		}
		if cursor = found.Next; len(out) > 10_000 {
			t.Fatal("the listing has no end")
		}
	}
}

// byName returns the items of pages by name, and fails the test if one occurs twice.
func (p Fixture) byName(t testing.TB, pages []page) map[string]source.Item {
	t.Helper()
	out, ids := map[string]source.Item{}, map[string]bool{}
	for _, page := range pages {
		for _, item := range page.Items {
			name := p.name(item)
			if _, twice := out[name]; twice || ids[item.ID] {
				t.Fatalf("%s (id %s) is listed twice", name, item.ID)
			}
			out[name], ids[item.ID] = item, true
		}
		for _, s := range page.Skipped {
			t.Errorf("%s is skipped: %s", s.Path, s.Reason)
		}
	}
	return out
}

// listFirst lists a first page with a connector that has to ask the source.
func (p Fixture) listFirst(ctx context.Context, c source.Connector) error {
	c, done, err := p.reopened(ctx, c)
	if err != nil {
		return err
	}
	defer done()
	_, err = c.List(ctx, "")
	return err
}

// fetch reads an item with a connector that has to ask the source.
func (p Fixture) fetch(ctx context.Context, c source.Connector, item source.Item) ([]byte, source.Download, error) {
	c, done, err := p.reopened(ctx, c)
	if err != nil {
		return nil, source.Download{}, err
	}
	defer done()
	return fetch(ctx, c, item)
}

// reopened returns a connector that has to ask the source: a new one if p.Snapshot, otherwise c.
func (p Fixture) reopened(ctx context.Context, c source.Connector) (source.Connector, func(), error) {
	if !p.Snapshot {
		return c, func() {}, nil
	}
	opened, err := p.Driver.Open(ctx, p.Settings)
	if err != nil {
		return nil, nil, err
	}
	return opened, func() { _ = opened.Close() }, nil
}

// fetch reads an item.
func fetch(ctx context.Context, c source.Connector, item source.Item) ([]byte, source.Download, error) {
	download, err := c.Fetch(ctx, item)
	if err != nil {
		return nil, download, err
	}
	if download.Body == nil {
		return nil, download, errors.New("the download has no body")
	}
	defer download.Body.Close()
	content, err := io.ReadAll(download.Body)
	return content, download, err
}

// Run runs the suite. Each part gets its own source from make.
func Run(t *testing.T, make func(t *testing.T) Fixture) {
	for _, part := range []struct {
		name string
		test func(*testing.T, Fixture)
	}{
		{"ListsEverythingOnce", listsEverythingOnce},
		{"ResumesFromEveryCursor", resumesFromEveryCursor},
		{"RefusesForeignCursors", refusesForeignCursors},
		{"SeesChanges", seesChanges},
		{"SeesDeletions", seesDeletions},
		{"FetchesAtOnce", fetchesAtOnce},
		{"StopsWithItsContext", stopsWithItsContext},
		{"ChecksSettings", checksSettings},
		{"RefusesPrivateAddresses", refusesPrivateAddresses},
		{"ReportsRefusedCredentials", reportsRefusedCredentials},
		{"ReportsRateLimit", reportsRateLimit},
		{"SurvivesOutages", survivesOutages},
		{"FailsOnTruncatedFile", failsOnTruncatedFile},
		{"FailsOnTruncatedListing", failsOnTruncatedListing},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, make(t)) })
	}
}

func listsEverythingOnce(t *testing.T, p Fixture) {
	files := p.fill(t)
	c := p.open(t)
	pages := list(t, c, "")
	if len(pages) < 3 && !p.OnePage {
		t.Errorf("the listing has %d pages; the test needs more", len(pages))
	}
	found := p.byName(t, pages)
	if got, want := slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Fatalf("listed\n%q, want\n%q", got, want)
	}
	again := p.byName(t, list(t, p.open(t), ""))
	for name, item := range found {
		if item.ID == "" || len(item.ID) > 1024 || strings.HasPrefix(item.Path, "/") || item.Path == "" {
			t.Errorf("%s has the id %q and the path %q", name, item.ID, item.Path)
		}
		if other := again[name]; other.ID != item.ID || other.Path != item.Path || other.Version != item.Version {
			t.Errorf("%s is %+v, and then %+v", name, item, other)
		}
		content, download, err := fetch(t.Context(), c, item)
		if err != nil {
			t.Fatalf("fetch %s: %v", name, err)
		}
		if !p.same(files[name], content) {
			t.Errorf("%s is %q, want %q", name, content, files[name])
		}
		if item.Size >= 0 && item.Size != int64(len(content)) {
			t.Errorf("%s has %d bytes, and is listed with %d", name, len(content), item.Size)
		}
		if item.Version == "" && download.Version == "" {
			t.Errorf("%s has no version", name)
		}
		if item.Version != "" && download.Version != "" && item.Version != download.Version {
			t.Errorf("%s is listed as version %q and fetched as %q", name, item.Version, download.Version)
		}
	}
}

func resumesFromEveryCursor(t *testing.T, p Fixture) {
	p.fill(t)
	pages := list(t, p.open(t), "")
	ids := func(pages []page) (out []string) {
		for _, item := range p.byName(t, pages) {
			out = append(out, item.ID)
		}
		slices.Sort(out)
		return out
	}
	for i, page := range pages {
		got := ids(list(t, p.open(t), page.cursor))
		if want := ids(pages[i:]); !slices.Equal(got, want) {
			t.Errorf("from the cursor of page %d, another connector lists %q, want %q", i, got, want)
		}
	}
}

func refusesForeignCursors(t *testing.T, p Fixture) {
	p.Put(t, "one.txt", []byte("One.\n"))
	if _, err := p.open(t).List(t.Context(), "no cursor of this source"); !errors.Is(err, source.ErrCursorExpired) {
		t.Errorf("a cursor of another form gives %v, want ErrCursorExpired", err)
	}
}

// versionOf returns an item's version, which some sources only report when the item is fetched.
func versionOf(t testing.TB, c source.Connector, item source.Item) string {
	t.Helper()
	if item.Version != "" {
		return item.Version
	}
	_, download, err := fetch(t.Context(), c, item)
	if err != nil {
		t.Fatal(err)
	}
	return download.Version
}

func seesChanges(t *testing.T, p Fixture) {
	p.Put(t, "a.txt", []byte("The first text.\n"))
	p.Put(t, "b/c.txt", []byte("It stays.\n"))
	c := p.open(t)
	pages := list(t, c, "")
	before := p.byName(t, pages)
	versions := map[string]string{}
	for name, item := range before {
		versions[name] = versionOf(t, c, item)
	}
	p.Put(t, "a.txt", []byte("The second text, which is longer.\n"))
	p.Put(t, "d.txt", []byte("It is new.\n"))
	after := p.byName(t, list(t, p.open(t), ""))
	switch {
	case len(after) != 3:
		t.Fatalf("after a change there are %d items, want 3", len(after))
	case after["b/c.txt"].ID != before["b/c.txt"].ID || versionOf(t, c, after["b/c.txt"]) != versions["b/c.txt"]:
		t.Errorf("what didn't change was %+v, and is %+v", before["b/c.txt"], after["b/c.txt"])
	case versionOf(t, c, after["a.txt"]) == versions["a.txt"]:
		t.Errorf("what changed has the version %q before and after", versions["a.txt"])
	}
	content, download, err := fetch(t.Context(), c, after["a.txt"])
	if err != nil || !p.same([]byte("The second text, which is longer.\n"), content) {
		t.Errorf("the new content is %q (%+v, %v)", content, download, err)
	}
	if changes := pages[len(pages)-1].Changes; changes != "" {
		changed := p.byName(t, list(t, p.open(t), changes))
		if got := slices.Sorted(maps.Keys(changed)); !slices.Equal(got, []string{"a.txt", "d.txt"}) {
			t.Errorf("the changes are %q, want a.txt and d.txt", got)
		}
	}
}

func seesDeletions(t *testing.T, p Fixture) {
	p.Put(t, "a.txt", []byte("It goes.\n"))
	p.Put(t, "b/c.txt", []byte("It stays.\n"))
	c := p.open(t)
	pages := list(t, c, "")
	before := p.byName(t, pages)
	p.Remove(t, "a.txt")
	after := p.byName(t, list(t, p.open(t), ""))
	if got := slices.Sorted(maps.Keys(after)); !slices.Equal(got, []string{"b/c.txt"}) {
		t.Errorf("after a removal there are %q", got)
	}
	if _, _, err := p.fetch(t.Context(), c, before["a.txt"]); !errors.Is(err, source.ErrGone) {
		t.Errorf("fetching what was removed gives %v, want ErrGone", err)
	}
	if changes := pages[len(pages)-1].Changes; changes != "" {
		var deleted []string
		for _, page := range list(t, p.open(t), changes) {
			deleted = append(deleted, page.Deleted...)
			if len(page.Items) > 0 {
				t.Errorf("the changes have items: %+v", page.Items)
			}
		}
		if !slices.Equal(deleted, []string{before["a.txt"].ID}) {
			t.Errorf("the changes say that %q are gone, want %q", deleted, before["a.txt"].ID)
		}
	}
}

func fetchesAtOnce(t *testing.T, p Fixture) {
	files := p.fill(t)
	c := p.open(t)
	items := p.byName(t, list(t, c, ""))
	failed := make(chan error, len(items))
	for name, item := range items {
		go func() {
			content, _, err := fetch(t.Context(), c, item)
			if err == nil && !p.same(files[name], content) {
				err = fmt.Errorf("%s is %q", name, content)
			}
			failed <- err
		}()
	}
	for range items {
		if err := waittest.Receive(t, failed, "an item that is fetched with others"); err != nil {
			t.Error(err)
		}
	}
}
