package bus_test

// Tests of connections and workers that disappear silently.

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// detectTime is how soon a dead connection must be noticed.
const detectTime = 30 * time.Second

// connectThrough connects through a proxy.
func connectThrough(t *testing.T, nc *nats.Conn) (*nats.Conn, *proxy) {
	t.Helper()
	u, err := url.Parse(nc.ConnectedUrl())
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, u.Host)
	u.Host = p.listener.Addr().String()
	far, err := bus.Connect(t.Context(), bus.Options{URL: u.String(), Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(far.Close)
	return far, p
}

// TestADeadConnectionIsNoticed: the caller's connection to NATS silently stops carrying data. Its
// request fails, and soon after that the connection ends.
func TestADeadConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	near := connect(t)
	far, p := connectThrough(t, near)
	c := complete(t, near, bus.ServeOptions{})
	lost := far.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED)
	defer far.RemoveStatusListener(lost)
	cancel, got := startRequest(t, far, "hangs", false)
	defer cancel(nil)
	<-c.began
	began := time.Now()
	p.drop()
	if err := <-got; !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > detectTime { //house:clock it is to be noticed by then
		t.Errorf("the request failed after %s", took)
	}
	<-lost
	if took := time.Since(began); took > detectTime { //house:clock it is to be noticed by then
		t.Errorf("the connection was lost after %s", took)
	}
}

// TestARequestOfADeadWorkerFails: the worker is gone, while NATS and the connection to it work.
// Meanwhile, a request to a worker that is alive waits as long as it takes.
func TestARequestOfADeadWorkerFails(t *testing.T) {
	t.Parallel()
	near := connect(t)
	far, p := connectThrough(t, near)
	living, dead := completeAs(t, near, wire.LLMSubject), completeAs(t, far, wire.AskSubject)
	cancel, slow := startRequest(t, near, "slow", false)
	<-living.began
	got := make(chan error, 1)
	go func() {
		_, err := bus.Request[wire.LLMReply](t.Context(), near, wire.AskSubject, wire.LLMRequest{Envelope: wire.Header()})
		got <- err
	}()
	<-dead.began
	began := time.Now()
	p.drop()
	if err := <-got; !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > detectTime { //house:clock it is to be noticed by then
		t.Errorf("it failed after %s", took)
	}
	select {
	case err := <-slow:
		t.Errorf("the request of a worker that lives ended: %v", err)
	default:
	}
	cancel(errDisconnected)
	<-slow
}

func TestAProcessThatLostNATSForGoodEnds(t *testing.T) {
	s := serverOf(t)
	nc, err := bus.Connect(t.Context(), bus.Options{URL: s.ClientURL(), Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	patient, watch := bus.WatchConnection(nc, time.Hour), bus.WatchConnection(nc, 50*time.Millisecond)
	for _, w := range []interface{ Start(context.Context) error }{patient, watch} {
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.Shutdown()
	<-watch.Done()
	if err := watch.Err(); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("it ended with %v", err)
	}
	select {
	case <-patient.Done():
		t.Error("one that waits for longer ended, too")
	default:
	}
	if err := patient.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
