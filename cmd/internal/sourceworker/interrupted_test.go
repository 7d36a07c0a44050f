package sourceworker

// Synchronisations that are interrupted: by changes of the source, its removal, and other workers.

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestNewLabelsReachItemsThatWaitToBeFetched: the place lists no versions, and says of each item
// that it has not changed.
func TestNewLabelsReachItemsThatWaitToBeFetched(t *testing.T) {
	w := newWorld(t)
	w.scripted.set(func() {
		w.scripted.tags = map[string]string{}
		for i := range 3 {
			id := fmt.Sprint(i)
			w.scripted.items[id] = scriptedItem{id + ".txt", "", "Item " + id}
			w.scripted.tags[id] = "tag " + id
		}
	})
	w.start()
	w.addScripted(func(s *api.NewSource) { s.Labels = []string{"staff"} })
	w.wantCounts(w.ended("place", 1), "done: seen 3 added 3 changed 0 unchanged 0 moved 0 deleted 0 skipped 0 fetched 3")
	w.scripted.set(func() { w.scripted.fetch = func(string) error { return &source.RateLimitError{After: time.Hour} } })
	w.act("place", "run")
	if s := w.state("place", schema.SourceLimited); s.Pending != 3 {
		t.Fatalf("%d items wait to be fetched", s.Pending)
	}
	w.scripted.set(func() { w.scripted.fetch = nil })
	w.do(http.MethodPatch, "/v1/sources/place", api.SourceChange{Labels: &[]string{"board"}}, http.StatusOK, nil)
	w.ended("place", 3)
	if got := scalar[string](w, `SELECT string_agg(l.label, ' ') FROM documents d JOIN version_labels l ON l.version_id = d.last_version_id`); got != "board board board" {
		t.Errorf("the labels of the documents are %s", got)
	}
}

// fetching makes the place hold the first fetch until release is closed, whatever becomes of the
// worker. begun then receives.
func (p *scriptedSource) fetching() (begun <-chan struct{}, release chan<- struct{}) {
	one, let := make(chan struct{}, 1), make(chan struct{})
	p.set(func() {
		p.fetch = func(string) error {
			p.fetch = nil
			one <- struct{}{}
			<-let
			return nil
		}
	})
	return one, let
}

// newWorldThatFetches returns a world that synchronises a source of one item, whose fetch has begun
// and does not end until release is closed.
func newWorldThatFetches(t *testing.T, change ...func(*world)) (w *world, s schema.Source, release chan<- struct{}) {
	w = newWorld(t)
	for _, c := range change {
		c(w)
	}
	w.scripted.fill(1)
	begun, release := w.scripted.fetching()
	w.start()
	s = w.addScripted()
	waittest.Receive(t, begun, "the fetch")
	return w, s, release
}

// unsettled makes a change of the source that is committed after a held fetch has uploaded its
// document, and before the outcome is recorded. then runs between the two.
func (w *world) unsettled(release chan<- struct{}, change string, then func()) {
	w.t.Helper()
	w.ok(w.store.AsTenant(w.context(), scalar[uuid.UUID](w, `SELECT tenant_id FROM sources`), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, change); err != nil {
			return err
		}
		close(release)
		w.until(func() string {
			if n := w.documents(); n != 1 {
				return fmt.Sprintf("%d documents", n)
			}
			return ""
		})
		then()
		return nil
	}))
}

// TestARemovedSourceLeavesNoDocuments removes a source while one of its items is fetched.
func TestARemovedSourceLeavesNoDocuments(t *testing.T) {
	t.Run("uploaded before", func(t *testing.T) {
		w, _, release := newWorldThatFetches(t)
		// As RemoveSource does, but for the audit log, which the upload writes to.
		w.unsettled(release, `UPDATE sources SET state = 'removing', attempt = attempt + 1, due_at = now()`, func() {})
		w.until(w.gone("place"))
		if n := w.documents(); n != 0 {
			t.Errorf("%d documents are left", n)
		}
	})
	t.Run("uploaded after", func(t *testing.T) {
		// With so long a lease the worker doesn't notice that it lost the source.
		w, s, release := newWorldThatFetches(t, func(w *world) { w.settings.SourceLease = time.Hour })
		in := wire.SourceSync{Tenant: scalar[uuid.UUID](w, `SELECT tenant_id FROM sources`), Source: s.ID}
		w.do(http.MethodDelete, "/v1/sources/place", nil, http.StatusAccepted, nil)
		// Temporal takes a step for lost and repeats it while it still runs.
		other, err := w.client.ExecuteWorkflow(w.context(), client.StartWorkflowOptions{ID: "other", TaskQueue: wire.TaskQueueSources}, wire.WorkflowSyncSource, in)
		w.ok(err)
		w.ok(other.Get(w.context(), nil))
		w.until(w.gone("place"))
		close(release)
		w.ok(w.client.GetWorkflow(w.context(), wire.SourceWorkflowID(s.ID), "").Get(w.context(), nil))
		if n := w.documents(); n != 0 {
			t.Errorf("%d documents are left", n)
		}
	})
}

// TestAnItemThatGoesBeforeItIsSettledLeavesNoDocument: its document is uploaded, the worker loses
// the source before it records that, and the item is gone when the next worker fetches it.
func TestAnItemThatGoesBeforeItIsSettledLeavesNoDocument(t *testing.T) {
	w, _, release := newWorldThatFetches(t)
	w.unsettled(release, `UPDATE sources SET attempt = attempt + 1, due_at = now()`, func() {
		w.scripted.set(func() { clear(w.scripted.items) })
	})
	w.ended("place", 1)
	if n := w.documents(); n != 0 {
		t.Errorf("%d documents are left", n)
	}
}
