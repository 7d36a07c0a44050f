//go:build cgo

package queryworker

import (
	"testing"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/lifecycle/lifecycletest"
)

func TestTheWorkerKeepsTheLifecycleContract(t *testing.T) {
	w := newWorld(t)
	w.run(w.worker(nil).service())() // creates streams and consumer, which start goroutines of the NATS server
	lifecycletest.Stress(t, func(*testing.T) lifecycle.Service {
		s, err := New(w.settings, Deps{Store: w.store.Store, NATS: w.nats, Temporal: w.client})
		w.ok(err)
		return s
	})
}
