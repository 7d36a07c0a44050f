//go:build cgo

package queryworker

import (
	"testing"
	"time"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestASearchIsToldOf: the worker notifies ingestion of searches, and of many searches only as
// often as necessary.
func TestASearchIsToldOf(t *testing.T) {
	w := newWorld(t)
	sub, err := w.nats.SubscribeSync(wire.SearchingSubject)
	w.ok(err)
	made := w.worker(nil)
	w.run(made.service())
	w.search(wire.SearchQuery{Query: schema.Query{Text: carryOver}})
	_, err = sub.NextMsgWithContext(w.context())
	w.ok(err)
	later := time.Now().Add(time.Hour)
	made.searching.last.Store(&later) // as if it had just notified, for as long as this test takes
	made.searching.notify()
	w.ok(w.nats.Flush())
	if n, _, err := sub.Pending(); err != nil || n > 1 { // the search's end may have been told, too
		t.Errorf("%d more were told, %v", n, err)
	}
}
