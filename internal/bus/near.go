package bus

// Of several workers that answer one service, the one is asked that has lately answered
// about the same thing, since it has that in memory. Each worker has a subject of its
// own beside the shared one, and says so; which one is asked follows from the thing's id,
// so that all callers choose the same.

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

// unheard is after how long without word a worker counts as gone.
const unheard = 3 * beat

// Workers are those that answer services, as far as they have told of themselves. It is
// safe for concurrent use.
type Workers struct {
	nc     *nats.Conn
	routed metric.Int64Counter
	now    func() time.Time

	mu      sync.Mutex
	serving map[string]map[uuid.UUID]*near // by the service's subject
}

// near is a worker.
type near struct {
	id    uuid.UUID
	slots int // requests that it runs at once
	heard time.Time
	open  int // requests of this process that it has
}

// NewWorkers returns workers that are still to be heard of; Listen hears of them.
func NewWorkers(nc *nats.Conn) *Workers {
	routed, _ := otel.Meter("github.com/sluice-rag/sluice/internal/bus").Int64Counter("sluice.service.routed", metric.WithUnit("{request}"),
		metric.WithDescription("Requests by the worker that they went to."))
	return &Workers{nc: nc, routed: routed, now: time.Now, serving: map[string]map[uuid.UUID]*near{}}
}

// Listen hears of workers until stop is called.
func (w *Workers) Listen() (stop func(), err error) {
	sub, err := w.nc.Subscribe(wire.HereSubject, w.hear)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", wire.HereSubject, err)
	}
	return func() { end(sub) }, nil
}

func (w *Workers) hear(m *nats.Msg) {
	told, err := wire.Decode[wire.Here](m.Data)
	if err != nil { // of a newer build
		slog.Debug("cannot read word of a worker", "error", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.serving[told.Service]
	if told.Slots <= 0 { // it leaves
		delete(of, told.Worker)
		return
	}
	if of == nil {
		of = map[uuid.UUID]*near{}
		w.serving[told.Service] = of
	}
	known := of[told.Worker]
	if known == nil {
		known = &near{id: told.Worker}
		of[told.Worker] = known
	}
	known.slots, known.heard = told.Slots, w.now()
}

// Known counts the workers of a service that were heard of.
func (w *Workers) Known(service string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.serving[service])
}

// Near asks the worker of a service that a key belongs to: ask is given the subject to
// send to. Where that worker has no slot free, as far as this process knows, it is the
// next one, by an order that follows from the key; where none has, or fewer than two are
// known, any of them. When the chosen one is gone, ask is called again for any.
func Near[Reply any](w *Workers, service string, key uuid.UUID, ask func(subject string) (Reply, error)) (Reply, error) {
	subject, leave, gone := w.choose(service, key)
	reply, err := ask(subject)
	leave()
	if subject != service && errors.Is(err, ErrNobody) {
		gone()
		return ask(service)
	}
	return reply, err
}

// choose returns the subject to send to, what to call when the reply is there, and what
// to call when nobody listens there.
func (w *Workers) choose(service string, key uuid.UUID) (subject string, leave, gone func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.serving[service]
	var there []ranked
	for id, x := range of {
		if w.now().Sub(x.heard) > unheard {
			delete(of, id)
			continue
		}
		there = append(there, ranked{x, sha256.Sum256(slices.Concat(id[:], key[:]))})
	}
	to := "any"
	defer func() {
		w.routed.Add(context.Background(), 1, metric.WithAttributes(attribute.String("subject", service), attribute.String("to", to)))
	}()
	if len(there) < 2 {
		return service, func() {}, func() {}
	}
	slices.SortFunc(there, func(a, b ranked) int { return bytes.Compare(a.rank[:], b.rank[:]) })
	for i, x := range there {
		if x.open >= x.slots {
			continue
		}
		if to = "next"; i == 0 {
			to = "first"
		}
		x.open++
		return wire.AtWorker(service, x.id), func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				x.open--
			}, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				delete(of, x.id)
			}
	}
	return service, func() {}, func() {}
}

// ranked is a worker with its place for a key, by the hash of both (rendezvous hashing):
// when a worker comes or goes, only its own keys change hands.
type ranked struct {
	*near
	rank [sha256.Size]byte
}

// tellHere says every beat that a service is there, until ctx ends; then that it leaves.
func (r *serving) tellHere(ctx context.Context) {
	tell := func(slots int) {
		data, err := wire.Encode(wire.Here{Envelope: wire.Header(), Service: r.options.Subject, Worker: r.options.At, Slots: slots})
		if err == nil {
			err = r.nc.Publish(wire.HereSubject, data)
		}
		if err != nil {
			slog.Debug("cannot tell that a worker is there", "subject", r.options.Subject, "error", err)
		}
	}
	tell(r.options.Concurrency)
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			tell(0)
			return
		case <-ticker.C:
			tell(r.options.Concurrency)
		}
	}
}
