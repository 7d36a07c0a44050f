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
	nc      *nats.Conn
	options ServeOptions
	handle  func(context.Context, []byte) (any, error)
	failure func(*schema.RemoteError) any

	mu      sync.Mutex // guards starting and stopping
	sub     *nats.Subscription
	stopped bool
	cancel  context.CancelFunc
	workers sync.WaitGroup

	// A last message may arrive while the queue closes.
	queueMu sync.RWMutex
	queue   chan *nats.Msg
	closed  bool
}

// Serve makes a service. handle runs once per request; failure makes the reply
// that carries an error (a malformed request, an overload).
func Serve[Req, Reply any, P interface {
	*Req
	wire.Message
}](nc *nats.Conn, o ServeOptions, handle func(context.Context, Req) Reply, failure func(*schema.RemoteError) Reply) *Service {
	o.Concurrency = int(positive(int64(o.Concurrency), 16))
	return &Service{
		nc: nc, options: o,
		handle: func(ctx context.Context, data []byte) (any, error) {
			request, err := wire.Decode[Req, P](data)
			if err != nil {
				return nil, err
			}
			return handle(ctx, request), nil
		},
		failure: func(e *schema.RemoteError) any { return failure(e) },
	}
}

// Start subscribes.
func (s *Service) Start(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.sub != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.queue = make(chan *nats.Msg, s.options.Concurrency)
	for range s.options.Concurrency {
		s.workers.Go(func() {
			for msg := range s.queue {
				s.answer(ctx, msg)
			}
		})
	}
	sub, err := s.nc.QueueSubscribe(s.options.Subject, s.options.Group, s.accept)
	if err == nil {
		err = s.nc.Flush()
	}
	if err != nil {
		s.closeQueue()
		cancel()
		return fmt.Errorf("serve %s: %w", s.options.Subject, err)
	}
	s.sub = sub
	return nil
}

// accept runs on the subscription's own goroutine, one message at a time.
func (s *Service) accept(msg *nats.Msg) {
	s.queueMu.RLock()
	defer s.queueMu.RUnlock()
	if s.closed {
		s.reply(msg, s.failure(&schema.RemoteError{Code: schema.CodeUnavailable, Message: s.options.Subject + " is stopping"}))
		return
	}
	select {
	case s.queue <- msg:
	default:
		s.reply(msg, s.failure(&schema.RemoteError{Code: schema.CodeOverloaded,
			Message: fmt.Sprintf("%s is overloaded: %d requests run and as many wait", s.options.Subject, s.options.Concurrency)}))
	}
}

func (s *Service) answer(ctx context.Context, msg *nats.Msg) {
	ctx, span := tracer.Start(Extract(ctx, msg.Header), "serve "+s.options.Subject, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("messaging.system", "nats"), attribute.String("messaging.destination.name", s.options.Subject)))
	defer span.End()
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

func (s *Service) closeQueue() {
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	s.closed = true
	close(s.queue)
}

// Stop takes no new requests, finishes those it holds, and cancels them when
// ctx ends first.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.sub == nil {
		s.stopped = true
		return nil
	}
	s.stopped = true
	drained := s.sub.StatusChanged(nats.SubscriptionClosed)
	if err := s.sub.Drain(); err == nil {
		select {
		case <-drained:
		case <-ctx.Done():
		}
	}
	s.closeQueue()
	done := make(chan struct{})
	go func() { s.workers.Wait(); close(done) }()
	select {
	case <-done:
		s.cancel()
		return nil
	case <-ctx.Done():
		s.cancel()
		<-done
		return fmt.Errorf("stop %s: cancelled what was running: %w", s.options.Subject, ctx.Err())
	}
}
