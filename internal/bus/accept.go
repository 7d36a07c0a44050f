package bus

// How a request gets into the queue, and how it leaves it without a slot: it is cancelled, its
// deadline passes, or it has waited for too long.

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
	// errDeadline is the cause with which a request's context ends when its deadline passes.
	errDeadline = fmt.Errorf("the request's deadline has passed: %w", context.DeadlineExceeded)
	// errQueueTimeout is the reason for not running a request that has waited for
	// ServeOptions.Wait.
	errQueueTimeout = errors.New("the request waited too long for a slot")
)

// queuedRequest is a request that waits for a slot, or has one.
type queuedRequest struct {
	msg      *nats.Msg
	tenant   uuid.UUID
	received time.Time
	// ctx ends when the request is cancelled or its deadline passes; release frees its resources.
	ctx     context.Context
	release func()
	// dequeue is called when the request leaves the queue: from then on only ctx ends it.
	dequeue func()
}

// accept queues a request. NATS calls it for one message at a time.
func (r *serviceRun) accept(msg *nats.Msg) {
	if err := r.checker.Check(statement(msg), msg.Header.Get(wire.HeaderSignature)); err != nil {
		slog.Warn("refused a request whose signature is not valid", "subject", r.options.Subject, "error", err)
		r.reply(msg, r.failure(schema.ToRemote(err)))
		return
	}
	// Before Put: the request may have left the queue when Put returns.
	r.meters.waiting.Add(context.Background(), 1, r.meters.of)
	q := r.newQueuedRequest(msg)
	queued, closed := r.queue.Put(q.tenant, q)
	if queued {
		return
	}
	q.dequeue()
	q.release()
	r.meters.waiting.Add(context.Background(), -1, r.meters.of)
	if closed { // a last message may arrive while the queue closes
		r.reply(msg, r.failure(&schema.RemoteError{Code: schema.CodeUnavailable, Message: r.options.Subject + " is stopping"}))
		return
	}
	r.refuse(q, true, "too many requests of this tenant run and wait")
}

// newQueuedRequest makes the context of a request and limits its time in the queue.
func (r *serviceRun) newQueuedRequest(msg *nats.Msg) *queuedRequest {
	q := &queuedRequest{msg: msg, tenant: tenantOf(msg), received: time.Now()}
	ctx, closeRequest := r.open.add(r.work, msg.Header.Get(wire.HeaderRequest))
	cancelDeadline := func() {}
	if deadline := r.deadline(q); !deadline.IsZero() {
		ctx, cancelDeadline = context.WithDeadlineCause(ctx, deadline, errDeadline)
	}
	stopHeartbeat := r.heartbeats.start(msg)
	q.ctx, q.release = ctx, func() { stopHeartbeat(); cancelDeadline(); closeRequest() }

	waiting, cancelWaiting := ctx, context.CancelFunc(func() {})
	if r.options.Wait > 0 {
		waiting, cancelWaiting = context.WithDeadlineCause(ctx, q.received.Add(r.options.Wait), errQueueTimeout)
	}
	stopWithdrawal := context.AfterFunc(waiting, func() { r.withdraw(q, context.Cause(waiting)) })
	q.dequeue = func() { stopWithdrawal(); cancelWaiting() }
	return q
}

// deadline returns when a request must be answered; zero: there is no limit.
func (r *serviceRun) deadline(q *queuedRequest) time.Time {
	var body struct {
		Deadline time.Time `json:"deadline"`
	}
	if json.Unmarshal(q.msg.Data, &body) != nil {
		body.Deadline = time.Time{} // the handler's decoder reports the error
	}
	if r.options.Timeout <= 0 {
		return body.Deadline
	}
	if latest := q.received.Add(r.options.Timeout); body.Deadline.IsZero() || body.Deadline.After(latest) {
		return latest
	}
	return body.Deadline
}

// withdraw removes a request from the queue, unless it has a slot already, and answers it with the
// reason.
func (r *serviceRun) withdraw(q *queuedRequest, reason error) {
	r.queue.Withdraw(q.tenant, q, func(running int) {
		q.dequeue()
		q.release()
		r.meters.waiting.Add(context.Background(), -1, r.meters.of)
		r.meters.waited.Record(context.Background(), time.Since(q.received).Seconds(), r.meters.of)
		if errors.Is(reason, errQueueTimeout) {
			r.refuse(q, running > 0, reason.Error())
			return
		}
		r.reply(q.msg, r.failure(cancelledReply(r.options.Subject, reason)))
	})
}

// refuse answers a request with an overload. ofTenant says that the tenant's own requests are the
// cause.
func (r *serviceRun) refuse(q *queuedRequest, ofTenant bool, reason string) {
	r.counts.refused.Add(1)
	r.meters.refused.Add(context.Background(), 1, r.meters.of)
	ofTenant = ofTenant && q.tenant != uuid.Nil // requests without a tenant share one queue
	r.reply(q.msg, r.failure(&schema.RemoteError{Code: schema.CodeOverloaded, OfTenant: ofTenant,
		Message: fmt.Sprintf("%s is overloaded: %s", r.options.Subject, reason)}))
}
