package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// completions serves LLMSubject with a handler that ends with its context. began receives the step
// of each request, ended the cause with which its context ended.
type completions struct {
	service *bus.Service
	began   chan string
	ended   chan error
}

func complete(t *testing.T, nc *nats.Conn, o bus.ServeOptions) *completions {
	t.Helper()
	o.Subject = wire.LLMSubject
	return completeBy(t, nc, o)
}

// completeAs is complete for another subject.
func completeAs(t *testing.T, nc *nats.Conn, subject string) *completions {
	t.Helper()
	return completeBy(t, nc, bus.ServeOptions{Subject: subject})
}

func completeBy(t *testing.T, nc *nats.Conn, o bus.ServeOptions) *completions {
	t.Helper()
	c := &completions{began: make(chan string, 8), ended: make(chan error, 8)}
	o.Group = wire.LLMGroup
	c.service = bus.Serve(nc, o, func(ctx context.Context, r wire.LLMRequest) wire.LLMReply {
		c.began <- r.Step.Step
		<-ctx.Done()
		c.ended <- context.Cause(ctx)
		return wire.LLMReply{Envelope: wire.Header(), Error: schema.ToRemote(context.Cause(ctx))}
	}, func(e *schema.RemoteError) wire.LLMReply { return wire.LLMReply{Envelope: wire.Header(), Error: e} })
	if err := c.service.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.service.Stop(over)
	})
	return c
}

var errDisconnected = errors.New("the asker left")

// startRequest sends a request. cancel cancels the caller's context with a cause, and got receives
// the result.
func startRequest(t *testing.T, nc *nats.Conn, step string, streams bool) (cancel context.CancelCauseFunc, got chan error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(bus.Cancels(t.Context(), func(cause error) bool { return errors.Is(cause, errDisconnected) }))
	r := wire.LLMRequest{Envelope: wire.Header(), Tenant: uuid.New(), Step: wire.Step{Step: step}}
	got = make(chan error, 1)
	go func() {
		var reply wire.LLMReply
		var err error
		if streams {
			reply, err = bus.RequestStream[wire.LLMReply](ctx, nc, wire.LLMSubject, func(string) any { return r }, func(string, []byte) {})
		} else {
			reply, err = bus.Request[wire.LLMReply](ctx, nc, wire.LLMSubject, r)
		}
		if err == nil {
			err = reply.Error
		}
		got <- err
	}()
	return cancel, got
}

func TestACallerThatSaysSoEndsItsRequestAlone(t *testing.T) {
	nc := connect(t)
	two := []*completions{complete(t, nc, bus.ServeOptions{}), complete(t, nc, bus.ServeOptions{})}
	began := func() string {
		select {
		case step := <-two[0].began:
			return step
		case step := <-two[1].began:
			return step
		}
	}
	for _, streams := range []bool{false, true} {
		stays, other := startRequest(t, nc, "stays", streams)
		began()
		cancel, got := startRequest(t, nc, "goes", streams)
		began()
		cancel(errDisconnected)
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("who left got %v", err)
		}
		var cause error
		select {
		case cause = <-two[0].ended:
		case cause = <-two[1].ended:
		}
		if !errors.Is(cause, bus.ErrCallerGone) {
			t.Errorf("its request ended for %v", cause)
		}
		// A caller that leaves for another reason, such as a worker that stops, cancels nothing:
		// only the cancellation of another caller, which is sent later, arrives.
		stays(errors.New("the worker stops"))
		<-other
		cancel, got = startRequest(t, nc, "goes", streams)
		began()
		cancel(errDisconnected)
		<-got
		select {
		case cause = <-two[0].ended:
		case cause = <-two[1].ended:
		}
		if n := len(two[0].ended) + len(two[1].ended); n != 0 || !errors.Is(cause, bus.ErrCallerGone) {
			t.Errorf("%d more ended, the first for %v", n, cause)
		}
	}
}

// TestARequestThatWaitsIsGivenUp: it never runs, and neither does a request whose cancellation
// arrives before it.
func TestARequestThatWaitsIsGivenUp(t *testing.T) {
	nc := connect(t)
	c := complete(t, nc, bus.ServeOptions{Concurrency: 1})
	first, _ := startRequest(t, nc, "first", false)
	<-c.began
	cancel, got := startRequest(t, nc, "waits", false)
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	cancel(errDisconnected)
	<-got
	early, err := wire.Encode(wire.Cancel{Envelope: wire.Header(), Request: "early"})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish(wire.CancelSubject(wire.LLMSubject), early); err != nil {
		t.Fatal(err)
	}
	data, err := wire.Encode(wire.LLMRequest{Envelope: wire.Header(), Step: wire.Step{Step: "early"}})
	if err != nil {
		t.Fatal(err)
	}
	first(errDisconnected)
	<-c.ended
	reply, err := nc.RequestMsgWithContext(t.Context(), &nats.Msg{Subject: wire.LLMSubject, Data: data, Header: nats.Header{wire.HeaderRequest: []string{"early"}}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := wire.Decode[wire.LLMReply](reply.Data); err != nil || !errors.Is(m.Error, schema.ErrUnavailable) {
		t.Errorf("got %+v, %v", m, err)
	}
	last, got := startRequest(t, nc, "last", false)
	if step := <-c.began; step != "last" {
		t.Errorf("%s ran", step)
	}
	last(errDisconnected)
	<-got
}

// TestWhatHangsIsCancelledWhenAServiceStops: this happens after StopShare of the time, and is no
// failure.
func TestWhatHangsIsCancelledWhenAServiceStops(t *testing.T) {
	nc := connect(t)
	c := complete(t, nc, bus.ServeOptions{StopShare: 0.001})
	_, got := startRequest(t, nc, "hangs", false)
	<-c.began
	//house:clock its share is what the step is given
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.service.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err, cause := <-got, <-c.ended; err == nil || !errors.Is(cause, bus.ErrStopping) {
		t.Errorf("got %v, and it ended for %v", err, cause)
	}
	// Stop fails when all of its time is over.
	c = complete(t, nc, bus.ServeOptions{StopShare: 0.5})
	_, got = startRequest(t, nc, "hangs", false)
	<-c.began
	cancel()
	if err := c.service.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-got
}
