package queryworker

// This file tells ingestion that somebody searches. What is lost on the way costs time alone.

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/lifecycle/machine"
	"github.com/sluice-rag/sluice/schema/wire"
)

// tellEvery is how often it is told at most.
const tellEvery = 250 * time.Millisecond

// searching tells that somebody searches.
type searching struct {
	nc   *nats.Conn
	last atomic.Pointer[time.Time] // when it was told; whole, so that a wall clock that is set changes nothing
}

// tell is called when a search begins and when it ends.
func (s *searching) tell() {
	now, last := time.Now(), s.last.Load()
	if last != nil && now.Sub(*last) < tellEvery || !s.last.CompareAndSwap(last, &now) {
		return
	}
	data, err := wire.Encode(wire.Searching{Envelope: wire.Header(), Machine: machine.ID()})
	if err == nil {
		err = s.nc.Publish(wire.SearchingSubject, data)
	}
	if err != nil {
		slog.Debug("cannot tell that somebody searches", "error", err)
	}
}
