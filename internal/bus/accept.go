package bus

// How a request gets into the queue, and how it leaves it without a slot: its caller gives up, its deadline is
// over, or it has waited as long as it may.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

var (
	// errLate is the cause of the end of a request's context when its deadline is over.
	errLate = fmt.Errorf("the request's time is over: %w", context.DeadlineExceeded)
	// errWaited is why a request that waited as long as it may is not run.
	errWaited = errors.New("it waited for its turn as long as it may")
)

// arrival is a message that waits since it came.
type arrival struct {
	msg    *nats.Msg
	tenant uuid.UUID
	came   time.Time
	// ctx ends when the request is given up or its deadline is over; release is called when it has ended.
	ctx     context.Context
	release func()
	// begin is called when it has a slot: from then on only ctx ends it.
	begin func()
}

// accept runs on the subscription's own goroutine, one message at a time.
func (r *serving) accept(msg *nats.Msg) {
	if err := r.checker.Check(statement(msg), msg.Header.Get(wire.HeaderSignature)); err != nil {
		slog.Warn("a request is refused", "subject", r.options.Subject, "error", err)
		r.reply(msg, r.failure(schema.ToRemote(err)))
		return
	}
	// Before put: the request may have left the queue when put returns.
	r.meters.waiting.Add(context.Background(), 1, r.meters.of)
	a := r.arrive(msg)
	taken, closed := r.queue.Put(a.tenant, a)
	if taken {
		return
	}
	a.begin()
	a.release()
	r.meters.waiting.Add(context.Background(), -1, r.meters.of)
	if closed { // a last message may arrive while the queue closes
		r.reply(msg, r.failure(&schema.RemoteError{Code: schema.CodeUnavailable, Message: r.options.Subject + " is stopping"}))
		return
	}
	r.refuse(a, true, "as many requests of this tenant run and wait as may")
}

// arrive gives a message its context and its time in the queue.
func (r *serving) arrive(msg *nats.Msg) *arrival {
	a := &arrival{msg: msg, tenant: tenantOf(msg), came: time.Now()}
	ctx, give := r.held.hold(r.work, msg.Header.Get(wire.HeaderRequest))
	end := func() {}
	if deadline := r.deadline(a); !deadline.IsZero() {
		ctx, end = context.WithDeadlineCause(ctx, deadline, errLate)
	}
	silence := r.alive.hold(msg)
	a.ctx, a.release = ctx, func() { silence(); end(); give() }
	queued, stop := ctx, context.CancelFunc(func() {})
	if r.options.Wait > 0 {
		queued, stop = context.WithDeadlineCause(ctx, a.came.Add(r.options.Wait), errWaited)
	}
	leave := context.AfterFunc(queued, func() { r.withdraw(a, context.Cause(queued)) })
	a.begin = func() { leave(); stop() }
	return a
}

// deadline is when a request's time is over; zero: never.
func (r *serving) deadline(a *arrival) time.Time {
	var named struct {
		Deadline time.Time `json:"deadline"`
	}
	if json.Unmarshal(a.msg.Data, &named) != nil {
		named.Deadline = time.Time{} // who decodes all of it says what is wrong
	}
	if r.options.Timeout <= 0 {
		return named.Deadline
	}
	if latest := a.came.Add(r.options.Timeout); named.Deadline.IsZero() || named.Deadline.After(latest) {
		return latest
	}
	return named.Deadline
}

// withdraw ends a request that still waits.
func (r *serving) withdraw(a *arrival, why error) {
	r.queue.Withdraw(a.tenant, a, func(running int) {
		a.begin()
		a.release()
		r.meters.waiting.Add(context.Background(), -1, r.meters.of)
		r.meters.waited.Record(context.Background(), time.Since(a.came).Seconds(), r.meters.of)
		if errors.Is(why, errWaited) {
			r.refuse(a, running > 0, why.Error())
			return
		}
		r.reply(a.msg, r.failure(gaveUp(r.options.Subject, why)))
	})
}

// refuse answers a request that is not run because too many are; own says that these are its tenant's.
func (r *serving) refuse(a *arrival, own bool, why string) {
	r.counts.refused.Add(1)
	r.meters.refused.Add(context.Background(), 1, r.meters.of)
	own = own && a.tenant != uuid.Nil // requests that name no tenant share one queue
	r.reply(a.msg, r.failure(&schema.RemoteError{Code: schema.CodeOverloaded, OfTenant: own,
		Message: fmt.Sprintf("%s is overloaded: %s", r.options.Subject, why)}))
}
