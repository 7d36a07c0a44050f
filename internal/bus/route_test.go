package bus_test

// Tests that requests about one collection are routed to one worker.

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// startWorkers starts n workers of searches with slots slots each, which answer with their number
// as the plan. If hold is not nil, it is called before each answer. It returns Workers that know
// all of them, a connection, and a function that stops one.
func startWorkers(t *testing.T, n, slots int, hold func(worker int)) (w *bus.Workers, nc *nats.Conn, stop func(worker int)) {
	t.Helper()
	nc = connect(t)
	w = bus.NewWorkers(nc)
	unsubscribe, err := w.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unsubscribe)
	var services []*bus.Service
	for i := range n {
		s := bus.Serve(nc, bus.ServeOptions{Subject: wire.SearchSubject, Group: wire.QueryGroup, At: schema.NewID(), Concurrency: slots},
			func(context.Context, wire.SearchRequest) wire.SearchReply {
				if hold != nil {
					hold(i)
				}
				return wire.SearchReply{Envelope: wire.Header(), SearchResult: schema.SearchResult{Plan: fmt.Sprint(i)}}
			}, func(e *schema.RemoteError) wire.SearchReply {
				return wire.SearchReply{Envelope: wire.Header(), Error: e}
			})
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Stop(context.Background()) })
		services = append(services, s)
	}
	for w.Known(wire.SearchSubject) < n && t.Context().Err() == nil {
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return w, nc, func(worker int) {
		if err := services[worker].Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// searchNear returns which worker answered about a collection.
func searchNear(t *testing.T, w *bus.Workers, nc *nats.Conn, collection uuid.UUID) string {
	t.Helper()
	reply, err := bus.Route(w, wire.SearchSubject, collection, func(at string) (wire.SearchReply, error) {
		return bus.Request[wire.SearchReply](t.Context(), nc, at, searchFor(uuid.New(), "q"))
	})
	if err != nil || reply.Error != nil {
		t.Fatal(err, reply.Error)
	}
	return reply.Plan
}

// TestACollectionHasItsWorker: a collection always has the same worker, and workers have about the
// same number of collections. When one stops, only its own collections move.
func TestACollectionHasItsWorker(t *testing.T) {
	w, nc, stop := startWorkers(t, 4, 2, nil)
	at, shares := map[uuid.UUID]string{}, map[string]int{}
	for range 200 {
		c := schema.NewID()
		at[c] = searchNear(t, w, nc, c)
		shares[at[c]]++
	}
	for worker, n := range shares {
		if n < 25 || n > 75 { // 50, plus or minus four standard deviations
			t.Errorf("worker %s has %d of 200 collections", worker, n)
		}
	}
	for c, worker := range at {
		if got := searchNear(t, w, nc, c); got != worker {
			t.Errorf("collection %s went to worker %s, then to %s", c, worker, got)
		}
	}
	stop(0)
	for c, worker := range at {
		if got := searchNear(t, w, nc, c); got == "0" || worker != "0" && got != worker {
			t.Errorf("collection %s of worker %s went to %s when worker 0 had left", c, worker, got)
		}
	}
}

// TestABusyWorkerIsPassedOver: a request for which its worker has no slot is sent to the next
// worker, and if none has a slot, to any. It never waits for the busy one.
func TestABusyWorkerIsPassedOver(t *testing.T) {
	const workers, slots = 2, 2
	begun, release := make(chan int, workers*slots), make(chan struct{})
	w, nc, _ := startWorkers(t, workers, slots, func(worker int) { begun <- worker; <-release })
	collection := schema.NewID()
	var asked []chan error
	got := map[int]int{}
	for range workers * slots {
		done := make(chan error, 1)
		asked = append(asked, done)
		go func() {
			_, err := bus.Route(w, wire.SearchSubject, collection, func(at string) (wire.SearchReply, error) {
				return bus.Request[wire.SearchReply](t.Context(), nc, at, searchFor(uuid.New(), "q"))
			})
			done <- err
		}()
		got[<-begun]++
	}
	if len(got) != workers || got[0] != slots {
		t.Errorf("searches of one collection ran as %v: all slots of all workers were to have one", got)
	}
	_, err := bus.Route(w, wire.SearchSubject, collection, func(at string) (struct{}, error) {
		if at != wire.SearchSubject {
			t.Errorf("with no slot free a search goes to %s", at)
		}
		return struct{}{}, nil
	})
	if err != nil {
		t.Error(err)
	}
	close(release)
	for _, done := range asked {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestAWorkerThatIsGoneIsNotAskedAgain: a worker that ended silently costs one repeated request.
func TestAWorkerThatIsGoneIsNotAskedAgain(t *testing.T) {
	w, nc, _ := startWorkers(t, 2, 2, nil)
	for _, ghost := range []uuid.UUID{schema.NewID(), schema.NewID()} { // they have announced themselves
		data, err := wire.Encode(wire.WorkerAnnouncement{Envelope: wire.Header(), Service: wire.SearchSubject, Worker: ghost, Slots: 2})
		if err == nil {
			err = nc.Publish(wire.WorkersSubject, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for w.Known(wire.SearchSubject) < 4 && t.Context().Err() == nil {
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		searchNear(t, w, nc, schema.NewID())
	}
	if n := w.Known(wire.SearchSubject); n != 2 {
		t.Errorf("%d workers are known, not the 2 that there are", n)
	}
}

// TestNobodyIsNear: without workers a routed request fails like any other.
func TestNobodyIsNear(t *testing.T) {
	nc := connect(t)
	_, err := bus.Route(bus.NewWorkers(nc), wire.SearchSubject, schema.NewID(), func(at string) (wire.SearchReply, error) {
		return bus.Request[wire.SearchReply](t.Context(), nc, at, searchFor(uuid.New(), "q"))
	})
	if !errors.Is(err, bus.ErrNoWorker) || !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
