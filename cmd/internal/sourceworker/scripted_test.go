package sourceworker

// Sources whose servers limit requests, refuse them, list changes, or move items. scriptedSource
// replaces such a server.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/source/seal"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// fill gives the source n items.
func (p *scriptedSource) fill(n int) {
	p.set(func() {
		for i := range n {
			p.items[fmt.Sprintf("i%02d", i)] = scriptedItem{fmt.Sprintf("folder/%02d.txt", i), "1", fmt.Sprintf("Item %d.", i)}
		}
	})
}

func (w *world) addScripted(change ...func(*api.NewSource)) schema.Source {
	w.t.Helper()
	return w.add("place", "scripted", map[string]string{"user": "u", "token": "a token that is secret"}, change...)
}

func TestRateLimitsAreRespected(t *testing.T) {
	w := newWorld(t)
	w.scripted.fill(10)
	w.scripted.set(func() {
		w.scripted.list = func(string) (*source.Listing, error) { return nil, &source.RateLimitError{After: time.Hour} }
	})
	w.start()
	w.addScripted()
	s := w.state("place", schema.SourceLimited)
	if s.NextAt == nil || time.Until(*s.NextAt) < 50*time.Minute || !strings.Contains(s.Problem, "1h0m0s") || s.Run == nil || s.Run.FinishedAt != nil {
		t.Errorf("%+v", s)
	}
	// The run continues where it stopped. A rate limit for one item applies to the whole source.
	limited := 3
	w.scripted.set(func() {
		w.scripted.list = nil
		w.scripted.fetch = func(string) error {
			if limited--; limited >= 0 {
				return &source.RateLimitError{After: time.Millisecond}
			}
			return nil
		}
	})
	w.act("place", "run")
	w.wantCounts(w.ended("place", 1), "done: seen 10 added 10 changed 0 unchanged 0 moved 0 deleted 0 skipped 0 fetched 10")
	if s := w.source("place"); s.Problem != "" || s.Tries != 0 || w.documents() != 10 || w.versions() != 10 {
		t.Errorf("%d documents; %+v", w.documents(), s)
	}
}

func TestRefusedCredentialsStopTheSource(t *testing.T) {
	w := newWorld(t)
	w.scripted.fill(3)
	w.start()
	w.add("place", "scripted", map[string]string{"user": "u", "token": "expired"})
	if s := w.state("place", schema.SourceRefused); s.NextAt != nil || !strings.Contains(s.Problem, "the token has expired") || s.Run.State != "refused" {
		t.Errorf("%+v", s)
	}
	w.do(http.MethodPatch, "/v1/sources/place", api.SourceChange{Settings: map[string]string{"token": "a token that is secret"}}, http.StatusOK, nil)
	w.wantCounts(w.ended("place", 2), "done: seen 3 added 3 changed 0 unchanged 0 moved 0 deleted 0 skipped 0 fetched 3")

	// The secret is readable neither in replies nor in the database.
	for _, path := range []string{"/v1/sources", "/v1/sources/place", "/v1/audit"} {
		if status, body := w.call(w.key, http.MethodGet, path, nil, nil); status != http.StatusOK || strings.Contains(body, "that is secret") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if got := scalar[string](w, `SELECT settings::text || ' ' || encode(secrets, 'escape') FROM sources`); strings.Contains(got, "secret") || !strings.Contains(got, `"user": "u"`) {
		t.Errorf("stored is %s", got)
	}
	for setting, value := range map[string]string{"user": "", "mode": "c", "other": "x"} {
		status, body := w.call(w.key, http.MethodPatch, "/v1/sources/place", api.SourceChange{Settings: map[string]string{setting: value}}, nil)
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, "body.settings."+setting) {
			t.Errorf("%s=%q: %d %s", setting, value, status, body)
		}
	}
	w.do(http.MethodPatch, "/v1/sources/place", api.SourceChange{Settings: map[string]string{"user": "wrong"}}, http.StatusOK, nil)
	if s := w.state("place", schema.SourceInvalid); !strings.Contains(s.Problem, "user: is unknown") || s.Documents != 3 {
		t.Errorf("%+v", s)
	}
}

func TestSecretsOfAnotherKeyNameTheSetting(t *testing.T) {
	w := newWorld(t)
	w.scripted.fill(3)
	stop := w.start()
	w.addScripted(func(s *api.NewSource) { s.Paused = true })
	stop()
	w.settings.SourcesKey = strings.TrimSpace(seal.NewKey())
	w.start()
	w.act("place", "resume")
	if s := w.state("place", schema.SourceInvalid); !strings.Contains(s.Problem, seal.KeyFile) || s.Documents != 0 {
		t.Errorf("%+v", s)
	}
}

func TestOnlyListedChangesAreFetched(t *testing.T) {
	w := newWorld(t)
	w.scripted.fill(10)
	item := func(id string) source.Item {
		have := w.scripted.items[id]
		return source.Item{ID: id, Path: have.path, Version: have.version, Size: -1}
	}
	// Pages have four items. The cursor of a listing of changes is a number.
	var changed, deleted []string
	expired := false
	w.scripted.set(func() {
		w.scripted.list = func(cursor string) (*source.Listing, error) {
			var at struct{ Page, Changes int }
			if cursor != "" {
				if err := json.Unmarshal([]byte(cursor), &at); err != nil {
					return nil, err
				}
			}
			out := &source.Listing{Changes: fmt.Sprintf(`{"Changes":%d}`, at.Changes+1)}
			if at.Changes > 0 {
				if expired {
					return nil, source.ErrCursorExpired
				}
				for _, id := range changed {
					out.Items = append(out.Items, item(id))
				}
				out.Deleted = deleted
				return out, nil
			}
			for i := at.Page * 4; i < min(at.Page*4+4, 10); i++ {
				if id := fmt.Sprintf("i%02d", i); w.scripted.items[id].path != "" {
					out.Items = append(out.Items, item(id))
				}
			}
			if at.Page < 2 {
				out.Next = fmt.Sprintf(`{"Page":%d}`, at.Page+1)
			}
			return out, nil
		}
	})
	w.start()
	w.addScripted()
	first := w.ended("place", 1)
	w.wantCounts(first, "done: seen 10 added 10 changed 0 unchanged 0 moved 0 deleted 0 skipped 0 fetched 10")

	// One item is changed, one moved and one deleted. Only complete listings can ask for
	// confirmation.
	w.scripted.set(func() {
		w.scripted.items["i01"] = scriptedItem{"folder/01.txt", "2", "Item 1, changed."}
		w.scripted.items["i02"] = scriptedItem{"elsewhere/02.txt", "1", "Item 2."}
		delete(w.scripted.items, "i03")
		changed, deleted = []string{"i01", "i02"}, []string{"i03", "never seen"}
	})
	w.act("place", "run")
	second := w.ended("place", 2)
	w.wantCounts(second, "done: seen 2 added 0 changed 1 unchanged 0 moved 1 deleted 1 skipped 0 fetched 1")
	if !first.Whole || second.Whole || w.documents() != 9 || w.versions() != 11 {
		t.Errorf("%d documents, %d versions; %+v", w.documents(), w.versions(), second)
	}
	if got := scalar[string](w, `SELECT v.metadata->>'path' FROM documents d JOIN versions v ON v.id = d.last_version_id WHERE d.external_id LIKE '%/i02'`); got != "elsewhere/02.txt" {
		t.Errorf("what moved is at %s", got)
	}

	// The cursor has expired, so everything is listed, and items deleted in the meantime are found.
	w.scripted.set(func() { expired = true; delete(w.scripted.items, "i04") })
	w.act("place", "run")
	third := w.ended("place", 3)
	w.wantCounts(third, "done: seen 8 added 0 changed 0 unchanged 8 moved 0 deleted 1 skipped 0 fetched 0")
	if !third.Whole || w.documents() != 8 {
		t.Errorf("%d documents; %+v", w.documents(), third)
	}
}

func TestAnItemThatFailsLeavesTheOthersAlone(t *testing.T) {
	w := newWorld(t)
	w.scripted.fill(5)
	w.scripted.set(func() {
		w.scripted.fetch = func(id string) error {
			switch id {
			case "i01":
				return &source.ItemError{Reason: "is encrypted"}
			case "i02":
				return source.ErrGone
			case "i03":
				return fmt.Errorf("the server fails")
			}
			return nil
		}
	})
	w.start()
	w.addScripted()
	w.until(func() string {
		s := w.source("place")
		if s.State == schema.SourceRetrying { // it would wait for the next try
			w.act("place", "run")
		}
		if s.Run == nil || s.Run.FinishedAt == nil {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	w.wantCounts(w.ended("place", 1), "done: seen 5 added 2 changed 0 unchanged 0 moved 0 deleted 0 skipped 2 fetched 2")
	var skipped api.Page[schema.SourceSkipped]
	w.do(http.MethodGet, "/v1/sources/place/skipped", nil, http.StatusOK, &skipped)
	reasons := map[string]string{}
	for _, s := range skipped.Items {
		reasons[s.Path] = s.Reason
	}
	if len(reasons) != 2 || reasons["folder/01.txt"] != "is encrypted" || !strings.Contains(reasons["folder/03.txt"], "failed 6 times: the server fails") {
		t.Errorf("skipped are %v", reasons)
	}
	// Items whose fetching failed are tried again in the next run, items that cannot be read only
	// when they change.
	w.scripted.set(func() { w.scripted.fetch, w.scripted.fetches = nil, 0 })
	w.act("place", "run")
	w.wantCounts(w.ended("place", 2), "done: seen 5 added 2 changed 0 unchanged 2 moved 0 deleted 0 skipped 1 fetched 2")
	w.scripted.set(func() { w.scripted.items["i01"] = scriptedItem{"folder/01.txt", "2", "It is open now."} })
	w.act("place", "run")
	w.wantCounts(w.ended("place", 3), "done: seen 5 added 1 changed 0 unchanged 4 moved 0 deleted 0 skipped 0 fetched 1")
	if w.documents() != 5 {
		t.Errorf("%d documents", w.documents())
	}
}
