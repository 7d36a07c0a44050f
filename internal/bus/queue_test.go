package bus_test

// This file tests how a request leaves a service's queue without a slot, over a real NATS server.

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// busy is a service with one slot, which a request of tenant holds until proceed is closed.
type busy struct {
	*testing.T
	began   chan string
	proceed chan struct{}
	first   chan error
	send    func(ctx context.Context, r wire.SearchRequest) error
}

func occupy(t *testing.T, o bus.ServeOptions, tenant uuid.UUID) *busy {
	t.Helper()
	nc := connect(t)
	b := &busy{T: t, began: make(chan string, 10), proceed: make(chan struct{}), first: make(chan error, 1)}
	o.Concurrency, o.Queue = 1, 10
	serveSearches(t, nc, o, b.began, b.proceed)
	b.send = func(ctx context.Context, r wire.SearchRequest) error {
		reply, err := bus.Request[wire.SearchReply](ctx, nc, wire.SearchSubject, r)
		if err == nil && reply.Error != nil {
			err = reply.Error
		}
		return err
	}
	go func() { b.first <- b.send(t.Context(), searchOf(tenant, "first")) }()
	if got := <-b.began; got != "first" {
		t.Fatal(got)
	}
	return b
}

// end lets the first request end and checks that another one begins next.
func (b *busy) end() {
	b.Helper()
	close(b.proceed)
	if err := <-b.first; err != nil {
		b.Errorf("the one that ran got %v", err)
	}
	if err := b.send(b.Context(), searchOf(schema.NewID(), "another")); err != nil {
		b.Error(err)
	}
	if got := <-b.began; got != "another" {
		b.Errorf("%q was run, though its time was over", got)
	}
}

// TestARequestWhoseTimeIsOverIsNotRun: its deadline passes while it waits.
func TestARequestWhoseTimeIsOverIsNotRun(t *testing.T) {
	tenant := schema.NewID()
	b := occupy(t, bus.ServeOptions{}, tenant)
	late := searchOf(tenant, "late")
	late.Deadline = time.Now().Add(20 * time.Millisecond)
	ctx, cancel := context.WithDeadline(t.Context(), late.Deadline) //house:clock the deadline is what is tested
	defer cancel()
	if err := b.send(ctx, late); !errors.Is(err, context.DeadlineExceeded) && schema.ToRemote(err).Code != schema.CodeDeadline {
		t.Errorf("got %v", err)
	}
	b.end()
}

// TestWaitingCountsTowardsAServicesTimeout: a caller without a deadline is told when the timeout is
// over.
func TestWaitingCountsTowardsAServicesTimeout(t *testing.T) {
	nc := connect(t)
	began, proceed := make(chan string, 10), make(chan struct{})
	serveSearches(t, nc, bus.ServeOptions{Concurrency: 1, Timeout: 20 * time.Millisecond}, began, proceed)
	defer close(proceed)
	tenant := schema.NewID()
	first := make(chan error, 1)
	go func() {
		_, err := bus.Request[wire.SearchReply](t.Context(), nc, wire.SearchSubject, searchOf(tenant, "first"))
		first <- err
	}()
	<-began
	reply, err := bus.Request[wire.SearchReply](t.Context(), nc, wire.SearchSubject, searchOf(tenant, "second"))
	if err != nil || reply.Error == nil || reply.Error.Code != schema.CodeDeadline {
		t.Errorf("got %+v, %v, want that its time is over", reply.Error, err)
	}
	proceed <- struct{}{}
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// TestARequestThatWaitedTooLongIsRefused: with the tenant's own overload if its tenant holds the
// slot, otherwise with a general one.
func TestARequestThatWaitedTooLongIsRefused(t *testing.T) {
	loud := schema.NewID()
	b := occupy(t, bus.ServeOptions{Wait: 20 * time.Millisecond}, loud)
	if err := b.send(t.Context(), searchOf(loud, "loud")); !errors.Is(err, schema.ErrTenantOverloaded) {
		t.Errorf("the tenant that holds the slot got %v", err)
	}
	err := b.send(t.Context(), searchOf(schema.NewID(), "quiet"))
	if !errors.Is(err, schema.ErrOverloaded) || errors.Is(err, schema.ErrTenantOverloaded) {
		t.Errorf("another tenant got %v", err)
	}
	b.end()
}
