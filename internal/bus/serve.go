package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/internal/fairness"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/signature"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// ServeOptions configures a request/reply service.
type ServeOptions struct {
	Subject string
	Group   string
	// At is the worker's id. If it is set, the service also answers at the worker's own subject,
	// wire.AtWorker, and announces it, so that Route finds it.
	At uuid.UUID
	// Concurrency is how many requests run at once. 0: 16. Tenants take turns. Requests that do not
	// implement wire.OfTenant share one queue; when that is full they are answered with
	// schema.ErrOverloaded.
	Concurrency int
	// Queue is how many requests of each tenant may wait; further ones are answered with
	// schema.ErrTenantOverloaded. 0: Concurrency.
	Queue int
	// Wait is how long a request may wait for a slot. After that it is answered with
	// schema.ErrTenantOverloaded if others of its tenant run, otherwise with schema.ErrOverloaded.
	// 0: as long as its deadline allows.
	Wait time.Duration
	// Timeout is the longest time of a request since it was received. A deadline in the request may
	// be earlier. 0: no limit.
	Timeout time.Duration
	// Share is how many requests of one tenant run at once, on average over a few seconds, while
	// other tenants have sent requests within the last minute; tenants below their share are served
	// first. The only active tenant may use three quarters of Concurrency, so that the next
	// tenant's request can begin at once. 0: no limit.
	Share int
	// StopShare is the part of Stop's time in which running requests may finish. After that their
	// contexts end with the cause ErrStopping, and Stop succeeds. 0: they have all of the time,
	// after which Stop fails.
	StopShare float64
	// Trusted are the keys of the programs that may sign for tenants (wire.Signers of the subject).
	// Requests and cancellations that none of them signed are refused. nil: signatures are not
	// checked.
	Trusted *signature.Trusted
}

// Service answers requests on a subject, as a member of a queue group.
type Service struct {
	*lifecycle.Func

	nc      *nats.Conn
	options ServeOptions
	handle  func(context.Context, Slot, *nats.Msg) (any, error)
	failure func(*schema.RemoteError) any
	meters  meters
}

// Slot is what a request occupies while its handler runs. A handler may give it up for a while to
// other tenants.
type Slot = *fairness.Slot[*queuedRequest]

// Serve returns a service. handle runs once per request; failure makes the reply that carries an
// error (a malformed request, an overload).
func Serve[Req, Reply any, P interface {
	*Req
	wire.Message
}](nc *nats.Conn, o ServeOptions, handle func(context.Context, Req) Reply, failure func(*schema.RemoteError) Reply) *Service {
	return ServeSlots[Req, Reply, P](nc, o, func(ctx context.Context, _ Slot, request Req) Reply { return handle(ctx, request) }, failure)
}

// ServeSlots is Serve with a handler that also gets its Slot.
func ServeSlots[Req, Reply any, P interface {
	*Req
	wire.Message
}](nc *nats.Conn, o ServeOptions, handle func(context.Context, Slot, Req) Reply, failure func(*schema.RemoteError) Reply) *Service {
	o.Concurrency = int(positiveOr(int64(o.Concurrency), 16))
	o.Queue = int(positiveOr(int64(o.Queue), int64(o.Concurrency)))
	s := &Service{
		nc: nc, options: o, meters: newMeters(o.Subject),
		handle: func(ctx context.Context, slot Slot, msg *nats.Msg) (any, error) {
			request, err := wire.Decode[Req, P](msg.Data)
			if err != nil {
				return nil, err
			}
			if err := checkTenant(msg, request); err != nil {
				return nil, err
			}
			return handle(ctx, slot, request), nil
		},
		failure: func(e *schema.RemoteError) any { return failure(e) },
	}
	s.Func = lifecycle.NewFunc("serve "+o.Subject, s.run)
	return s
}

// serviceRun is one run of a service, from its start to its stop.
type serviceRun struct {
	*Service
	id         uuid.UUID
	since      time.Time
	work       context.Context // parent of all requests' contexts
	queue      *fairness.Scheduler[*queuedRequest]
	workers    sync.WaitGroup
	open       *openRequests
	heartbeats *heartbeats
	checker    *signature.Checker
	counts     counts

	requests      []*nats.Subscription
	cancellations *nats.Subscription
	stopStatus    func()
}

func (s *Service) run(ctx context.Context) (lifecycle.Run, error) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := s.newRun(work)
	stopHeartbeats := start(work, r.heartbeats.run)
	r.startWorkers()
	if err := r.subscribe(); err != nil {
		r.stopStatus()
		for _, sub := range r.requests {
			unsubscribe(sub)
		}
		unsubscribe(r.cancellations)
		r.queue.Close()
		cancel(nil)
		r.workers.Wait()
		r.queue.Wait()
		stopHeartbeats()
		return lifecycle.Run{}, fmt.Errorf("subscribe: %w", err)
	}
	stopAnnouncing := func() {}
	if s.options.At != uuid.Nil {
		stopAnnouncing = start(work, r.announce)
	}
	done := make(chan struct{})
	return lifecycle.Run{Done: done, Stop: func(ctx context.Context) error {
		defer close(done)
		defer stopHeartbeats()
		defer cancel(nil)
		defer unsubscribe(r.cancellations)
		defer r.stopStatus()
		stopAnnouncing()
		return r.stop(ctx, cancel)
	}}, nil
}

func (s *Service) newRun(work context.Context) *serviceRun {
	o := s.options
	checker := o.Trusted.Checker(signers(o.Subject)...)
	return &serviceRun{
		Service:    s,
		id:         schema.NewID(),
		since:      time.Now().UTC(),
		work:       work,
		queue:      fairness.NewScheduler[*queuedRequest](o.Concurrency, o.Share, o.Queue, time.Now),
		open:       newOpenRequests(checker),
		heartbeats: &heartbeats{nc: s.nc, subjects: map[*nats.Msg]string{}},
		checker:    checker,
		stopStatus: func() {},
	}
}

// start runs f in a goroutine. stop ends its context and waits for it.
func start(ctx context.Context, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	return func() { cancel(); running.Wait() }
}

// startWorkers starts as many workers as requests may run at once. They end when the queue is
// closed and empty.
func (r *serviceRun) startWorkers() {
	for range r.options.Concurrency {
		r.workers.Go(func() {
			for {
				next, slot, more := r.queue.Next()
				if !more {
					return
				}
				r.serve(next, slot)
			}
		})
	}
}

// serve answers a request that has a slot.
func (r *serviceRun) serve(q *queuedRequest, slot Slot) {
	defer slot.End()
	q.dequeue()
	r.meters.waited.Record(r.work, time.Since(q.received).Seconds(), r.meters.of)
	began := time.Now()
	r.answer(q.ctx, slot, q.msg)
	q.release()
	r.counts.record(began)
}

// subscribe subscribes to requests, cancellations and status requests. After an error, r holds the
// subscriptions made so far.
func (r *serviceRun) subscribe() error {
	o := r.options
	stopStatus, err := ServeStatus(r.nc, r.state)
	if err != nil {
		return err
	}
	r.stopStatus = stopStatus
	if subject := wire.CancelSubject(o.Subject); subject != "" {
		if r.cancellations, err = r.nc.Subscribe(subject, r.open.cancel); err != nil {
			return err
		}
	}
	subjects := []string{o.Subject}
	if o.At != uuid.Nil {
		subjects = append(subjects, wire.AtWorker(o.Subject, o.At))
	}
	for _, subject := range subjects {
		sub, err := r.nc.QueueSubscribe(subject, o.Group, r.accept)
		if err != nil {
			return err
		}
		r.requests = append(r.requests, sub)
	}
	return r.nc.Flush()
}

// unsubscribe ends a subscription; nil is allowed.
func unsubscribe(sub *nats.Subscription) {
	if sub != nil {
		_ = sub.Unsubscribe() // closing the connection also ends it
	}
}

// signers returns the names of the programs that may sign requests to a service.
func signers(subject string) (out []string) {
	for _, p := range wire.Signers(subject) {
		out = append(out, string(p))
	}
	return out
}

// stop refuses new requests and waits for those that wait or run. It cancels them when StopShare of
// the time is over.
func (r *serviceRun) stop(ctx context.Context, cancel context.CancelCauseFunc) error {
	grace, cancelGrace := lifecycle.Share(ctx, r.options.StopShare)
	defer cancelGrace()
	for _, sub := range r.requests {
		drained := sub.StatusChanged(nats.SubscriptionClosed)
		if err := sub.Drain(); err == nil {
			select {
			case <-drained:
			case <-ctx.Done():
			}
		}
	}
	r.queue.Close()
	done := make(chan struct{})
	go func() { r.workers.Wait(); r.queue.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-grace.Done():
		cancel(ErrStopping)
	}
	if ctx.Err() == nil {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
		}
	}
	<-done
	return fmt.Errorf("cancelled what was running: %w", ctx.Err())
}

func (s *Service) answer(ctx context.Context, slot Slot, msg *nats.Msg) {
	ctx, span := tracer.Start(Extract(ctx, msg.Header), "serve "+s.options.Subject, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("messaging.system", "nats"), attribute.String("messaging.destination.name", s.options.Subject)))
	defer span.End()
	defer s.meters.begin(ctx)()
	defer func() {
		if p := recover(); p != nil {
			slog.ErrorContext(ctx, "a request handler panicked", "subject", s.options.Subject, "panic", p)
			s.reply(msg, s.failure(&schema.RemoteError{Code: schema.CodeInternal, Message: "internal error; the log has more"}))
		}
	}()
	if err := expired(ctx); err != nil {
		s.reply(msg, s.failure(cancelledReply(s.options.Subject, err)))
		return
	}
	reply, err := s.handle(ctx, slot, msg)
	if err != nil {
		span.RecordError(err)
		reply = s.failure(schema.ToRemote(err))
	}
	s.reply(msg, reply)
}

// expired returns why a request is not run although it has a slot: it was cancelled, or its
// deadline has passed. The timer of its context may be a moment late.
func expired(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return errDeadline
	}
	return nil
}

func (s *Service) reply(msg *nats.Msg, reply any) {
	data, err := json.Marshal(reply)
	if err == nil {
		err = msg.Respond(data)
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		data, err = json.Marshal(s.failure(&schema.RemoteError{Code: schema.CodeTooLarge, Message: "the reply is larger than NATS carries; ask for less"}))
		if err == nil {
			err = msg.Respond(data)
		}
	}
	if err != nil && !errors.Is(err, nats.ErrMsgNoReply) {
		slog.Warn("could not reply", "subject", s.options.Subject, "error", err)
	}
}
