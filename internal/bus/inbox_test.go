package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestManyRequestsShareASubscription: each of concurrent requests gets its own reply, at one
// subscription of the connection.
func TestManyRequestsShareASubscription(t *testing.T) {
	const callers, requests = 16, 50
	nc := connect(t)
	options := bus.ServeOptions{Subject: wire.LLMSubject, Group: "test", Concurrency: callers}
	echo := bus.Serve(nc, options, func(_ context.Context, r wire.LLMRequest) wire.LLMReply {
		return wire.LLMReply{Envelope: wire.Header(), Text: r.Question}
	}, func(e *schema.RemoteError) wire.LLMReply { return wire.LLMReply{Error: e} })
	if err := echo.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = echo.Stop(context.Background()) })
	before := nc.NumSubscriptions()
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range requests {
				want := fmt.Sprint(caller, " ", i)
				reply, err := bus.Request[wire.LLMReply](t.Context(), nc, wire.LLMSubject, wire.LLMRequest{Envelope: wire.Header(), Question: want})
				if err != nil || reply.Text != want {
					t.Errorf("%s got %q, %v", want, reply.Text, err)
				}
			}
		})
	}
	wg.Wait()
	if n := nc.NumSubscriptions() - before; n != 1 {
		t.Errorf("the requests left %d subscriptions, want 1", n)
	}
}

// TestARequestEndsWithItsConnection: it fails when the connection is closed, and so do later ones.
func TestARequestEndsWithItsConnection(t *testing.T) {
	server := connect(t)
	asked := make(chan struct{}, 1)
	silent, err := server.QueueSubscribe(wire.AskSubject, "test", func(*nats.Msg) { asked <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Unsubscribe() //nolint:errcheck // the connection ends anyway
	if err := server.Flush(); err != nil {
		t.Fatal(err)
	}
	nc, err := bus.Connect(t.Context(), bus.Options{URL: server.ConnectedUrl(), Name: "closing"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() error {
		_, err := bus.Request[wire.AskReply](t.Context(), nc, wire.AskSubject, wire.AskRequest{Envelope: wire.Header()})
		return err
	}
	go func() { <-asked; nc.Close() }()
	for _, when := range []string{"during", "after"} {
		if err := ask(); !errors.Is(err, schema.ErrUnavailable) {
			t.Errorf("a request %s the end gave %v", when, err)
		}
	}
}
