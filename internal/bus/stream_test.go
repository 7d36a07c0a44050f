package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestAStreamComesInOrderBeforeItsReply: the caller receives all parts in the order in which they
// were sent, also those of another connection than the replier's.
func TestAStreamComesInOrderBeforeItsReply(t *testing.T) {
	nc := connect(t)
	other, err := bus.Connect(t.Context(), bus.Options{URL: nc.ConnectedUrl(), Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	const pieces = 2000
	text := bus.Serve(other, bus.ServeOptions{Subject: wire.LLMSubject, Group: "test"}, func(_ context.Context, r wire.LLMRequest) wire.LLMReply {
		for i := range pieces {
			if err := other.Publish(r.Stream, []byte(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		}
		return wire.LLMReply{Envelope: wire.Header()}
	}, func(e *schema.RemoteError) wire.LLMReply { return wire.LLMReply{Error: e} })
	ask := bus.Serve(nc, bus.ServeOptions{Subject: wire.AskSubject, Group: "test"}, func(ctx context.Context, r wire.AskRequest) wire.AskReply {
		if err := nc.Publish(wire.StreamSubject(r.Stream, wire.PartStage), []byte("begin")); err != nil {
			t.Error(err)
		}
		if _, err := bus.Request[wire.LLMReply](ctx, nc, wire.LLMSubject, wire.LLMRequest{Envelope: wire.Header(), Stream: wire.StreamSubject(r.Stream, wire.PartText)}); err != nil {
			t.Error(err)
		}
		if err := nc.Publish(wire.StreamSubject(r.Stream, wire.PartStage), []byte("end")); err != nil {
			t.Error(err)
		}
		return wire.AskReply{Envelope: wire.Header(), Answer: &schema.Answer{Answer: "a"}}
	}, func(e *schema.RemoteError) wire.AskReply { return wire.AskReply{Error: e} })
	for _, s := range []*bus.Service{text, ask} {
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Stop(context.Background()) })
	}
	var got []string
	reply, err := bus.RequestStream[wire.AskReply](t.Context(), nc, wire.AskSubject,
		func(stream string) any { return wire.AskRequest{Envelope: wire.Header(), Stream: stream} },
		func(part string, data []byte) { got = append(got, part+" "+string(data)) })
	if err != nil || reply.Answer == nil || reply.Answer.Answer != "a" {
		t.Fatalf("got %+v, %v", reply, err)
	}
	want := []string{"stage begin"}
	for i := range pieces {
		want = append(want, fmt.Sprint("text ", i))
	}
	if want = append(want, "stage end"); !slices.Equal(got, want) {
		t.Errorf("told %d parts, from %q to %q", len(got), got[0], got[len(got)-1])
	}
}

func TestAStreamWithoutServiceIsUnavailableAndEndsWithItsCaller(t *testing.T) {
	nc := connect(t)
	ask := func(ctx context.Context) error {
		_, err := bus.RequestStream[wire.AskReply](ctx, nc, wire.AskSubject,
			func(stream string) any { return wire.AskRequest{Envelope: wire.Header(), Stream: stream} }, func(string, []byte) {})
		return err
	}
	if err := ask(t.Context()); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("nobody there gave %v", err)
	}
	asked := make(chan struct{}, 1)
	silent, err := nc.QueueSubscribe(wire.AskSubject, "test", func(_ *nats.Msg) { asked <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Unsubscribe() //nolint:errcheck // the connection ends anyway
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if err := ask(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that went gave %v", err)
	}
}
