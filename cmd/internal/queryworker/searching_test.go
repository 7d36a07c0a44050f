//go:build cgo

package queryworker

import (
	"testing"
	"time"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestASearchIsToldOf: ingestion hears of it, and of many not more often than it needs to.
func TestASearchIsToldOf(t *testing.T) {
	w := newWorld(t)
	heard, err := w.nats.SubscribeSync(wire.SearchingSubject)
	w.ok(err)
	made := w.worker(nil)
	w.run(made.service())
	w.search(wire.SearchQuery{Query: schema.Query{Text: carryOver}})
	_, err = heard.NextMsgWithContext(w.context())
	w.ok(err)
	later := time.Now().Add(time.Hour)
	made.searching.last.Store(&later) // told a moment ago, for as long as this test may take
	made.searching.notify()
	w.ok(w.nats.Flush())
	if n, _, err := heard.Pending(); err != nil || n > 1 { // the search's end may have been told, too
		t.Errorf("%d more were told, %v", n, err)
	}
}
