package bus

// Requests about the same collection are sent to the same worker, which has it in its cache. Each
// worker of a service announces its own subject. Callers choose one by rendezvous hashing, so that
// all of them choose the same.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-rag/sluice/schema/wire"
)

// workerTimeout is how long after its last announcement a worker counts as gone.
const workerTimeout = 3 * heartbeatInterval

// Workers are the workers that have announced themselves. It is safe for concurrent use.
type Workers struct {
	nc     *nats.Conn
	routed metric.Int64Counter
	now    func() time.Time

	mu       sync.Mutex
	services map[string]map[uuid.UUID]*workerState // by subject
}

// workerState is what this process knows about a worker.
type workerState struct {
	id       uuid.UUID
	slots    int // requests that it runs at once
	lastSeen time.Time
	open     int // requests of this process that it has not answered
}

// NewWorkers returns Workers that know none until Listen is called.
func NewWorkers(nc *nats.Conn) *Workers {
	routed, _ := otel.Meter("github.com/sluice-rag/sluice/internal/bus").Int64Counter("sluice.service.routed", metric.WithUnit("{request}"),
		metric.WithDescription("Requests by the worker that they went to."))
	return &Workers{nc: nc, routed: routed, now: time.Now, services: map[string]map[uuid.UUID]*workerState{}}
}

// Listen receives announcements until stop is called.
func (w *Workers) Listen() (stop func(), err error) {
	sub, err := w.nc.Subscribe(wire.WorkersSubject, w.update)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", wire.WorkersSubject, err)
	}
	return func() { unsubscribe(sub) }, nil
}

func (w *Workers) update(msg *nats.Msg) {
	announced, err := wire.Decode[wire.WorkerAnnouncement](msg.Data)
	if err != nil { // from a newer build
		slog.Debug("could not read the announcement of a worker", "error", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	workers := w.services[announced.Service]
	if announced.Slots <= 0 { // the worker stops
		delete(workers, announced.Worker)
		return
	}
	if workers == nil {
		workers = map[uuid.UUID]*workerState{}
		w.services[announced.Service] = workers
	}
	state := workers[announced.Worker]
	if state == nil {
		state = &workerState{id: announced.Worker}
		workers[announced.Worker] = state
	}
	state.slots, state.lastSeen = announced.Slots, w.now()
}

// Known counts the workers of a service that have announced themselves.
func (w *Workers) Known(service string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.services[service])
}

// Route sends a request about key to the first worker, in the order of rendezvous hashing, that has
// a free slot as far as this process knows. send gets the subject. If no worker has a free slot,
// fewer than two are known, or the chosen one is gone, the subject is the service's, and any worker
// may answer.
func Route[Reply any](w *Workers, service string, key uuid.UUID, send func(subject string) (Reply, error)) (Reply, error) {
	worker := w.choose(service, key)
	if worker == nil {
		return send(service)
	}
	reply, err := send(wire.AtWorker(service, worker.id))
	gone := errors.Is(err, ErrNoWorker)
	w.release(service, worker, gone)
	if gone {
		return send(service)
	}
	return reply, err
}

// choose takes a slot of the worker for a key, until release. It returns nil if any worker may
// answer.
func (w *Workers) choose(service string, key uuid.UUID) *workerState {
	w.mu.Lock()
	defer w.mu.Unlock()
	workers := w.services[service]
	var candidates []ranked
	for id, state := range workers {
		if w.now().Sub(state.lastSeen) > workerTimeout {
			delete(workers, id)
			continue
		}
		candidates = append(candidates, ranked{state, sha256.Sum256(slices.Concat(id[:], key[:]))})
	}
	if len(candidates) >= 2 {
		slices.SortFunc(candidates, func(a, b ranked) int { return bytes.Compare(a.rank[:], b.rank[:]) })
		for i, c := range candidates {
			if c.open >= c.slots {
				continue
			}
			c.open++
			if i == 0 {
				w.count(service, "first")
			} else {
				w.count(service, "next")
			}
			return c.workerState
		}
	}
	w.count(service, "any")
	return nil
}

// count counts a request by its rank: first, next or any.
func (w *Workers) count(service, rank string) {
	w.routed.Add(context.Background(), 1, metric.WithAttributes(attribute.String("subject", service), attribute.String("to", rank)))
}

// release gives a worker's slot back, and forgets the worker if it is gone.
func (w *Workers) release(service string, worker *workerState, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	worker.open--
	if gone {
		delete(w.services[service], worker.id)
	}
}

// ranked is a worker with its rank for a key, which is the hash of both: when a worker appears or
// disappears, only its own keys move.
type ranked struct {
	*workerState
	rank [sha256.Size]byte
}

// announce announces the worker of a service until ctx ends, and then announces that it stops.
func (r *serviceRun) announce(ctx context.Context) {
	publish := func(slots int) {
		data, err := wire.Encode(wire.WorkerAnnouncement{Envelope: wire.Header(), Service: r.options.Subject, Worker: r.options.At, Slots: slots})
		if err == nil {
			err = r.nc.Publish(wire.WorkersSubject, data)
		}
		if err != nil {
			slog.Debug("could not announce a worker", "subject", r.options.Subject, "error", err)
		}
	}
	publish(r.options.Concurrency)
	ticker := time.NewTicker(heartbeatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			publish(0)
			return
		case <-ticker.C:
			publish(r.options.Concurrency)
		}
	}
}
