package queryworker

// Notifications to ingestion that searches run, so that it yields to them. Lost ones only cost
// time.

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/lifecycle/machine"
	"github.com/sluice-rag/sluice/schema/wire"
)

// minInterval is the minimum time between two notifications.
const minInterval = 250 * time.Millisecond

// searching notifies ingestion of searches.
type searching struct {
	nc   *nats.Conn
	last atomic.Pointer[time.Time] // time of the last notification, with its monotonic clock reading
}

// notify is called when a search begins and when it ends.
func (s *searching) notify() {
	now, last := time.Now(), s.last.Load()
	if last != nil && now.Sub(*last) < minInterval || !s.last.CompareAndSwap(last, &now) {
		return
	}
	data, err := wire.Encode(wire.Searching{Envelope: wire.Header(), Machine: machine.ID()})
	if err == nil {
		err = s.nc.Publish(wire.SearchingSubject, data)
	}
	if err != nil {
		slog.Debug("could not notify ingestion of a search", "error", err)
	}
}
