package store_test

// This file tests that calls of language models hold leases, not connections.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/ledger"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestManyCallsHoldNoConnection: many more calls are with their providers at once than there are
// connections.
func TestManyCallsHoldNoConnection(t *testing.T) {
	const calls = 200
	f := setUp(t, store.Options{MaxConns: 4})
	_, in := f.question(t, f.a, true)
	var begun, all sync.WaitGroup
	begun.Add(calls)
	for i := range calls {
		all.Go(func() {
			c := call(f, in)
			c.Step.Item = i
			reply, err := f.LedgerStore.Once(t.Context(), c, func(context.Context) (wire.LLMReply, error) {
				begun.Done()
				begun.Wait()
				return wire.LLMReply{Text: fmt.Sprint(i)}, nil
			})
			if err != nil || reply.Text != fmt.Sprint(i) {
				t.Errorf("call %d: %+v, %v", i, reply, err)
			}
		})
	}
	all.Wait()
	if n := one[int](t, f, f.a, `SELECT count(*) FROM llm_calls`); n != calls {
		t.Errorf("%d replies are kept, not %d", n, calls)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM llm_leases`); n != 0 {
		t.Errorf("%d leases are left", n)
	}
}

// TestALeaseIsRenewedWhileItsCallRuns: during a slow call its holder keeps the lease.
func TestALeaseIsRenewedWhileItsCallRuns(t *testing.T) {
	f := setUp(t, store.Options{})
	_, in := f.question(t, f.a, true)
	_, err := f.LedgerStore.Once(t.Context(), call(f, in), func(ctx context.Context) (wire.LLMReply, error) {
		execute(t, localAdmin(t, f), `UPDATE llm_leases SET expires_at = clock_timestamp() + interval '1 second'`)
		for !one[bool](t, f, f.a, `SELECT expires_at > clock_timestamp() + interval '5 seconds' FROM llm_leases`) {
			if ctx.Err() != nil {
				t.Fatal("it was not renewed")
			}
		}
		return wire.LLMReply{Text: "late"}, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestTheFirstReplyCounts: when a lease expires although its process lives, another process calls
// for the step, too. Both get the reply that was committed first.
func TestTheFirstReplyCounts(t *testing.T) {
	f := setUp(t, store.Options{})
	_, in := f.question(t, f.a, true)
	other := ledger.New(f.Store)
	first, err := f.LedgerStore.Once(t.Context(), call(f, in), func(ctx context.Context) (wire.LLMReply, error) {
		// Later renewals find that another holder has the lease.
		execute(t, localAdmin(t, f), `UPDATE llm_leases SET holder = gen_random_uuid(), expires_at = clock_timestamp()`)
		c := call(f, in)
		second, err := other.Once(ctx, c, func(context.Context) (wire.LLMReply, error) { return wire.LLMReply{Text: "second"}, nil })
		if err != nil || second.Text != "second" {
			t.Errorf("the second got %+v, %v", second, err)
		}
		return wire.LLMReply{Text: "first"}, nil
	})
	if err != nil || first.Text != "second" || !first.Repeated {
		t.Errorf("the first got %+v, %v, not the second's reply", first, err)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM llm_leases`); n != 0 {
		t.Errorf("%d leases are left", n)
	}
}

// TestACallerThatLeavesWhileItWaitsTakesNoLease: the step is free for the next one.
func TestACallerThatLeavesWhileItWaitsTakesNoLease(t *testing.T) {
	f := setUp(t, store.Options{})
	_, in := f.question(t, f.a, true)
	_, err := f.LedgerStore.Once(t.Context(), call(f, in), func(ctx context.Context) (wire.LLMReply, error) {
		//house:clock the caller's own patience, which is over while it waits
		waiting, leave := context.WithTimeout(ctx, 100*time.Millisecond)
		defer leave()
		c := call(f, in)
		if _, err := f.LedgerStore.Once(waiting, c, nil); err == nil {
			t.Error("it did not wait")
		}
		return wire.LLMReply{}, context.Canceled
	})
	if err == nil {
		t.Error("a failed call gave a reply")
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM llm_leases`); n != 0 {
		t.Errorf("%d leases are left", n)
	}
}

// TestALostLeaseExpires: a lease that could not be ended after its call is not renewed with those
// of calls that go on.
func TestALostLeaseExpires(t *testing.T) {
	f := setUp(t, store.Options{})
	_, in := f.question(t, f.a, true)
	down := errors.New("down")
	_, err := f.LedgerStore.Once(t.Context(), call(f, in), func(ctx context.Context) (wire.LLMReply, error) {
		lost := call(f, in)
		lost.Step.Item = 1
		execute(t, localAdmin(t, f), `REVOKE DELETE ON llm_leases FROM sluice_app`)
		if _, err := f.LedgerStore.Once(ctx, lost, func(context.Context) (wire.LLMReply, error) { return wire.LLMReply{}, down }); !errors.Is(err, down) {
			t.Errorf("the lost call: %v", err)
		}
		execute(t, localAdmin(t, f), `GRANT DELETE ON llm_leases TO sluice_app; UPDATE llm_leases SET expires_at = clock_timestamp() + interval '1 second'`)
		for !one[bool](t, f, f.a, `SELECT expires_at > clock_timestamp() + interval '5 seconds' FROM llm_leases WHERE item = 0`) {
			if ctx.Err() != nil {
				t.Fatal("the call's own lease was not renewed")
			}
		}
		if apart := one[bool](t, f, f.a, `SELECT max(expires_at) - min(expires_at) > interval '5 seconds' FROM llm_leases`); !apart {
			t.Fatal("the lost lease was renewed, too")
		}
		again := lost
		again.ID = schema.NewID()
		if reply, err := f.LedgerStore.Once(ctx, again, func(context.Context) (wire.LLMReply, error) { return wire.LLMReply{Text: "again"}, nil }); err != nil || reply.Text != "again" {
			t.Errorf("the next call of the step: %+v, %v", reply, err)
		}
		return wire.LLMReply{Text: "late"}, nil
	})
	if err != nil {
		t.Error(err)
	}
}
