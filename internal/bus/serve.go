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

// ServeOptions of a request/reply service.
type ServeOptions struct {
	Subject string
	Group   string
	// At is the worker that also answers at a subject of its own, wire.AtWorker, and tells
	// of it; nil: it does not.
	At uuid.UUID
	// Concurrency is how many requests run at once. 0: 16.
	// Tenants that wait alternate. The tenant is that of a wire.OfTenant;
	// requests of other types share one queue, and its excess is schema.ErrOverloaded.
	Concurrency int
	// Queue is how many requests of each tenant may wait; more of that tenant are
	// answered with schema.ErrTenantOverloaded. 0: Concurrency.
	Queue int
	// Wait is how long a request may wait for a slot. Then it is answered with schema.ErrTenantOverloaded if others
	// of its tenant run, else with schema.ErrOverloaded. 0: as long as its deadline allows.
	Wait time.Duration
	// Timeout is the longest time of a request since it came. The deadline that a request names, if any, may end it
	// before. 0: there is none.
	Timeout time.Duration
	// Share is how many requests of one tenant run at once, on average over a few
	// seconds, while others have asked within the last minute; those who use less
	// than theirs go first. A tenant that is alone may take up to three quarters
	// of Concurrency, so that a newcomer begins at once. 0: all.
	Share int
	// StopShare is the part of the time which Stop has that requests in hand get to
	// end by themselves. Then their contexts end, with ErrStopping as the cause, and
	// Stop is no failure. 0: all of it, and when that is over Stop fails.
	StopShare float64
	// Trusted are the keys of those who may speak for tenants (wire.Signers of the subject); requests and cancellations
	// that none of them signed are refused. nil: all are taken, signed or not.
	Trusted *signature.Trusted
}

// Service answers requests on a subject, as one of a queue group.
type Service struct {
	*lifecycle.Func

	nc      *nats.Conn
	options ServeOptions
	handle  func(context.Context, Slot, *nats.Msg) (any, error)
	failure func(*schema.RemoteError) any
	meters  meters
}

// Slot is what a request has while its handler runs: with it the handler gives way to other tenants. nil never does.
type Slot = *fairness.Slot[*arrival]

// Serve makes a service. handle runs once per request; failure makes the reply
// that carries an error (a malformed request, an overload).
func Serve[Req, Reply any, P interface {
	*Req
	wire.Message
}](nc *nats.Conn, o ServeOptions, handle func(context.Context, Req) Reply, failure func(*schema.RemoteError) Reply) *Service {
	return ServeSlots[Req, Reply, P](nc, o, func(ctx context.Context, _ Slot, request Req) Reply { return handle(ctx, request) }, failure)
}

// ServeSlots is Serve with a handler that gives way to other tenants.
func ServeSlots[Req, Reply any, P interface {
	*Req
	wire.Message
}](nc *nats.Conn, o ServeOptions, handle func(context.Context, Slot, Req) Reply, failure func(*schema.RemoteError) Reply) *Service {
	o.Concurrency = int(positive(int64(o.Concurrency), 16))
	o.Queue = int(positive(int64(o.Queue), int64(o.Concurrency)))
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

// serving is one run of a service.
type serving struct {
	*Service
	subs    []*nats.Subscription
	work    context.Context
	workers sync.WaitGroup
	queue   *fairness.Scheduler[*arrival]
	id      uuid.UUID
	since   time.Time
	counts  counts
	held    *openRequests
	alive   *alive
	checker *signature.Checker
}

func (s *Service) run(ctx context.Context) (lifecycle.Run, error) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	checker := s.options.Trusted.Checker(signers(s.options.Subject)...)
	r := &serving{work: work, checker: checker, held: newHeld(checker), alive: &alive{nc: s.nc, at: map[*nats.Msg]string{}}, Service: s,
		queue: fairness.NewScheduler[*arrival](s.options.Concurrency, s.options.Share, s.options.Queue, time.Now),
		id:    schema.NewID(), since: time.Now().UTC()}
	telling, silence := context.WithCancel(work)
	var announcing sync.WaitGroup
	announcing.Go(func() { r.alive.run(telling) })
	away, leave := context.WithCancel(work)
	var here sync.WaitGroup
	depart := func() { leave(); here.Wait() }
	quiet := func() { silence(); announcing.Wait() }
	for range s.options.Concurrency {
		r.workers.Go(func() {
			for {
				next, slot, more := r.queue.Next()
				if !more {
					return
				}
				next.begin()
				s.meters.waited.Record(work, time.Since(next.came).Seconds(), s.meters.of)
				began := time.Now()
				s.answer(next.ctx, slot, next.msg)
				next.release()
				r.counts.ran(began)
				slot.End()
			}
		})
	}
	untell, err := Tell(s.nc, r.state)
	if err != nil {
		untell = func() {}
	}
	var cancels *nats.Subscription
	if subject := wire.CancelSubject(s.options.Subject); err == nil && subject != "" {
		cancels, err = s.nc.Subscribe(subject, r.held.cancel)
	}
	listen := func(subject, group string) {
		if err == nil {
			var sub *nats.Subscription
			if sub, err = s.nc.QueueSubscribe(subject, group, r.accept); err == nil {
				r.subs = append(r.subs, sub)
			}
		}
	}
	listen(s.options.Subject, s.options.Group)
	if s.options.At != uuid.Nil {
		listen(wire.AtWorker(s.options.Subject, s.options.At), s.options.Group)
	}
	if err == nil {
		err = s.nc.Flush()
	}
	if err != nil {
		untell()
		for _, sub := range r.subs {
			end(sub)
		}
		end(cancels)
		r.queue.Close()
		cancel(nil)
		r.workers.Wait()
		r.queue.Wait()
		quiet()
		leave()
		return lifecycle.Run{}, fmt.Errorf("subscribe: %w", err)
	}
	if s.options.At != uuid.Nil {
		here.Go(func() { r.tellHere(away) })
	}
	over := make(chan struct{})
	return lifecycle.Run{Done: over, Stop: func(ctx context.Context) error {
		defer close(over)
		defer quiet()
		defer cancel(nil)
		defer end(cancels)
		defer untell()
		depart()
		return r.stop(ctx, cancel)
	}}, nil
}

// end ends a subscription, if there is one.
func end(sub *nats.Subscription) {
	if sub != nil {
		_ = sub.Unsubscribe() // the connection's end ends it too
	}
}

// signers are the names of those who may sign requests to a service.
func signers(subject string) (out []string) {
	for _, p := range wire.Signers(subject) {
		out = append(out, string(p))
	}
	return out
}

// stop takes no new requests and finishes those it holds; it cancels them when
// their share of the time is over, or ctx ends first.
func (r *serving) stop(ctx context.Context, cancel context.CancelCauseFunc) error {
	inTime, giveUp := lifecycle.Share(ctx, r.options.StopShare)
	defer giveUp()
	for _, sub := range r.subs {
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
	case <-inTime.Done():
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
	if why := over(ctx); why != nil {
		s.reply(msg, s.failure(gaveUp(s.options.Subject, why)))
		return
	}
	reply, err := s.handle(ctx, slot, msg)
	if err != nil {
		span.RecordError(err)
		reply = s.failure(schema.ToRemote(err))
	}
	s.reply(msg, reply)
}

// over is why a request that has a slot is not run: it was given up, or its time is over, which its context may learn
// a moment later.
func over(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return errLate
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
