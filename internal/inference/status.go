package inference

// This file reports the state of a server: what it holds, and what it did since it started.

import (
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// requestCounts counts the requests of one run of a server.
type requestCounts struct {
	id                               uuid.UUID
	since                            time.Time
	inFlight, served, refused, nanos atomic.Int64
}

// begin counts a request as held until done is called.
func (c *requestCounts) begin() (done func()) {
	start := time.Now()
	c.inFlight.Add(1)
	return func() {
		c.nanos.Add(int64(time.Since(start)))
		c.served.Add(1)
		c.inFlight.Add(-1)
	}
}

// State returns the state of the server's last run. Running is the number of batches that run.
// Waiting is the number of requests that are held, including those whose items run.
func (s *Server) State() schema.ServiceState {
	r := s.current.Load()
	if r == nil {
		return schema.ServiceState{Service: wire.ModelService}
	}
	graphs, running, workers := r.pool.State()
	load := r.load.InUse()
	return schema.ServiceState{
		ID: r.counts.id, Service: wire.ModelService, Since: r.counts.since, Places: workers, Running: running, Waiting: int(r.counts.inFlight.Load()),
		Served: r.counts.served.Load(), Refused: r.counts.refused.Load(), Millis: float64(r.counts.nanos.Load()) / 1e6,
		Model: &schema.ModelState{Pack: r.model.manifest.Name, Provider: string(r.model.provider), HeldBytes: load.Bytes, HeldSequences: load.Count,
			MaxSequences: r.load.bound.Count, Graphs: graphs},
	}
}
