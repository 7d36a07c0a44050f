package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// ServeOptions of a request/reply service.
type ServeOptions struct {
	Subject string
	Group   string
	// Concurrency is how many requests run at once; as many again may wait, and
	// more are answered with "overloaded". 0: 16.
	Concurrency int
}

// Service answers requests on a subject, as one of a queue group.
type Service struct {
	*lifecycle.Func

	nc      *nats.Conn
	options ServeOptions
	handle  func(context.Context, []byte) (any, error)
	failure func(*schema.RemoteError) any
	meters  meters
}

// Serve makes a service. handle runs once per request; failure makes the reply
// that carries an error (a malformed request, an overload).
func Serve[Req, Reply any, P interface {
	*Req
	wire.Message
}](nc *nats.Conn, o ServeOptions, handle func(context.Context, Req) Reply, failure func(*schema.RemoteError) Reply) *Service {
	o.Concurrency = int(positive(int64(o.Concurrency), 16))
	s := &Service{
		nc: nc, options: o, meters: newMeters(o.Subject),
		handle: func(ctx context.Context, data []byte) (any, error) {
			request, err := wire.Decode[Req, P](data)
			if err != nil {
				return nil, err
			}
			return handle(ctx, request), nil
		},
		failure: func(e *schema.RemoteError) any { return failure(e) },
	}
	s.Func = lifecycle.NewFunc("serve "+o.Subject, s.run)
	return s
}

// serving is one run of a service.
type serving struct {
	*Service
	sub     *nats.Subscription
	workers sync.WaitGroup

	// A last message may arrive while the queue closes.
	mu     sync.RWMutex
	queue  chan *nats.Msg
	closed bool
}

func (s *Service) run(ctx context.Context) (lifecycle.Run, error) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &serving{Service: s, queue: make(chan *nats.Msg, s.options.Concurrency)}
	for range s.options.Concurrency {
		r.workers.Go(func() {
			for msg := range r.queue {
				s.answer(work, msg)
			}
		})
	}
	sub, err := s.nc.QueueSubscribe(s.options.Subject, s.options.Group, r.accept)
	if err == nil {
		err = s.nc.Flush()
	}
	if err != nil {
		if sub != nil {
			_ = sub.Unsubscribe()
		}
		r.close()
		cancel()
		r.workers.Wait()
		return lifecycle.Run{}, fmt.Errorf("subscribe: %w", err)
	}
	r.sub = sub
	over := make(chan struct{})
	return lifecycle.Run{Done: over, Stop: func(ctx context.Context) error {
		defer close(over)
		defer cancel()
		return r.stop(ctx, cancel)
	}}, nil
}

// accept runs on the subscription's own goroutine, one message at a time.
func (r *serving) accept(msg *nats.Msg) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		r.reply(msg, r.failure(&schema.RemoteError{Code: schema.CodeUnavailable, Message: r.options.Subject + " is stopping"}))
		return
	}
	select {
	case r.queue <- msg:
		r.meters.waiting.Add(context.Background(), 1, r.meters.of)
	default:
		r.meters.refused.Add(context.Background(), 1, r.meters.of)
		r.reply(msg, r.failure(&schema.RemoteError{Code: schema.CodeOverloaded,
			Message: fmt.Sprintf("%s is overloaded: %d requests run and as many wait", r.options.Subject, r.options.Concurrency)}))
	}
}

func (r *serving) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	close(r.queue)
}

// stop takes no new requests and finishes those it holds; it cancels them when
// ctx ends first.
func (r *serving) stop(ctx context.Context, cancel context.CancelFunc) error {
	drained := r.sub.StatusChanged(nats.SubscriptionClosed)
	if err := r.sub.Drain(); err == nil {
		select {
		case <-drained:
		case <-ctx.Done():
		}
	}
	r.close()
	done := make(chan struct{})
	go func() { r.workers.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		cancel()
		<-done
		return fmt.Errorf("cancelled what was running: %w", ctx.Err())
	}
}

func (s *Service) answer(ctx context.Context, msg *nats.Msg) {
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
	reply, err := s.handle(ctx, msg.Data)
	if err != nil {
		span.RecordError(err)
		reply = s.failure(schema.ToRemote(err))
	}
	s.reply(msg, reply)
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
