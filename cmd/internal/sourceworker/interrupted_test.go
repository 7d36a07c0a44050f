package sourceworker

// Synchronisations that are interrupted: by changes of the source, its removal, and other workers.

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// TestNewLabelsReachItemsThatWaitToBeFetched: the place lists no versions, and says of each item
// that it has not changed.
func TestNewLabelsReachItemsThatWaitToBeFetched(t *testing.T) {
	w := newWorld(t)
	w.place.set(func() {
		w.place.tags = map[string]string{}
		for i := range 3 {
			id := fmt.Sprint(i)
			w.place.items[id] = scriptedItem{id + ".txt", "", "Item " + id}
			w.place.tags[id] = "tag " + id
		}
	})
	w.start()
	w.addScripted(func(s *api.NewSource) { s.Labels = []string{"staff"} })
	w.wantCounts(w.ended("place", 1), "done: seen 3 added 3 changed 0 unchanged 0 moved 0 deleted 0 skipped 0 fetched 3")
	w.place.set(func() { w.place.fetch = func(string) error { return &source.RateLimitError{After: time.Hour} } })
	w.act("place", "run")
	if s := w.state("place", schema.SourceLimited); s.Pending != 3 {
		t.Fatalf("%d items wait to be fetched", s.Pending)
	}
	w.place.set(func() { w.place.fetch = nil })
	w.do(http.MethodPatch, "/v1/sources/place", api.SourceChange{Labels: &[]string{"board"}}, http.StatusOK, nil)
	w.ended("place", 3)
	if got := scalar[string](w, `SELECT string_agg(l.label, ' ') FROM documents d JOIN version_labels l ON l.version_id = d.last_version_id`); got != "board board board" {
		t.Errorf("the labels of the documents are %s", got)
	}
}
