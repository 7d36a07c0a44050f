package bus_test

// This file tests a service that several tenants share, over a real NATS server.

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// searches runs a service of two slots. Each search sends its text to began, and then waits for
// proceed.
func searches(t *testing.T, nc *nats.Conn, began chan<- string, proceed <-chan struct{}) {
	t.Helper()
	serveSearches(t, nc, bus.ServeOptions{Concurrency: 2, Share: 1}, began, proceed)
}

func serveSearches(t *testing.T, nc *nats.Conn, o bus.ServeOptions, began chan<- string, proceed <-chan struct{}) {
	t.Helper()
	o.Subject, o.Group = wire.SearchSubject, wire.QueryGroup
	s := bus.Serve(nc, o,
		func(_ context.Context, r wire.SearchRequest) wire.SearchReply {
			began <- r.Text
			<-proceed
			return wire.SearchReply{Envelope: wire.Header(), SearchResult: schema.SearchResult{Plan: r.Text}}
		}, func(e *schema.RemoteError) wire.SearchReply {
			return wire.SearchReply{Envelope: wire.Header(), Error: e}
		})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
}

func searchOf(tenant uuid.UUID, text string) wire.SearchRequest {
	return wire.SearchRequest{Envelope: wire.Header(), SearchQuery: wire.SearchQuery{Principal: schema.Principal{Tenant: tenant}, Query: schema.Query{Text: text}}}
}

// TestAFloodIsRefusedToItsOwnTenant: one tenant sends a thousand requests, and a request of another
// tenant begins at once.
func TestAFloodIsRefusedToItsOwnTenant(t *testing.T) {
	nc := connect(t)
	began, proceed := make(chan string, 1100), make(chan struct{})
	searches(t, nc, began, proceed)
	end := sync.OnceFunc(func() { close(proceed) })
	defer end() // also when the test fails, because the service waits for its running requests
	loud, quiet := schema.NewID(), schema.NewID()
	const flood = 1000
	refused := make(chan error, flood)
	var senders sync.WaitGroup
	for range flood {
		senders.Go(func() {
			reply, err := bus.Request[wire.SearchReply](t.Context(), nc, wire.SearchSubject, searchOf(loud, "loud"))
			switch {
			case err != nil:
				t.Error(err)
			case reply.Error != nil:
				refused <- reply.Error
			}
		})
	}
	for range flood - 3 { // one request runs and two wait
		if err := <-refused; !errors.Is(err, schema.ErrOverloaded) || !errors.Is(err, schema.ErrTenantOverloaded) {
			t.Fatalf("got %v, want the tenant's own overload", err)
		}
	}
	if got := <-began; got != "loud" {
		t.Fatal(got)
	}
	answered := make(chan wire.SearchReply, 1)
	senders.Go(func() {
		reply, err := bus.Request[wire.SearchReply](t.Context(), nc, wire.SearchSubject, searchOf(quiet, "quiet"))
		if err != nil {
			t.Error(err)
		}
		answered <- reply
	})
	if got := <-began; got != "quiet" {
		t.Fatalf("%s began next, want the other tenant's", got)
	}
	end()
	if reply := <-answered; reply.Error != nil || reply.Plan != "quiet" {
		t.Errorf("got %+v", reply)
	}
	senders.Wait()
}

// TestAForeignQueueIsRefused: the header selects the queue, so it must name the request's tenant.
func TestAForeignQueueIsRefused(t *testing.T) {
	nc := connect(t)
	proceed := make(chan struct{})
	close(proceed)
	searches(t, nc, make(chan string, 10), proceed)
	tenant := schema.NewID()
	data, err := wire.Encode(searchOf(tenant, "x"))
	if err != nil {
		t.Fatal(err)
	}
	for header, code := range map[string]schema.Code{
		tenant.String():         "",
		"":                      "", // from an older build
		schema.NewID().String(): schema.CodeInvalid,
		"nobody":                schema.CodeInvalid,
	} {
		msg := &nats.Msg{Subject: wire.SearchSubject, Data: data, Header: nats.Header{}}
		if header != "" {
			msg.Header.Set(wire.HeaderTenant, header)
		}
		answer, err := nc.RequestMsgWithContext(t.Context(), msg)
		if err != nil {
			t.Fatal(err)
		}
		var reply wire.SearchReply
		if err := json.Unmarshal(answer.Data, &reply); err != nil {
			t.Fatal(err)
		}
		var got schema.Code
		if reply.Error != nil {
			got = reply.Error.Code
		}
		if got != code {
			t.Errorf("header %q gave %q, want %q", header, got, code)
		}
	}
}
