package bus

// This file gives up requests that nobody wants the reply to any more. Only who says so ends a request: one whose
// caller is killed, or loses its connection, goes on.

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/signature"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

var (
	// ErrUnwanted is the cause of the end of a handler's context: the caller wants the reply no more.
	ErrUnwanted = errors.New("nobody waits for it any more")
	// ErrStopping is the cause of the end of a handler's context: the service stops, and the request had its time.
	ErrStopping = errors.New("the service is stopping")
)

type cancelsKey struct{}

// Cancels returns a context whose requests are cancelled at the service, too, when it ends for such a cause. Those made
// with a handler's context always are when the handler's own caller has cancelled.
func Cancels(ctx context.Context, cause func(error) bool) context.Context {
	return context.WithValue(ctx, cancelsKey{}, cause)
}

// unwanted reports whether the end of a context means that its requests are to be cancelled.
func unwanted(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrUnwanted) {
		return true
	}
	counts, ok := ctx.Value(cancelsKey{}).(func(error) bool)
	return ok && counts(cause)
}

// cancel tells a service that a request is not wanted any more, if that is why its context ended.
func (x sending) cancel(ctx context.Context, msg *nats.Msg) {
	subject := wire.CancelSubject(msg.Subject)
	if subject == "" || !unwanted(ctx) {
		return
	}
	data, err := wire.Encode(wire.Cancel{Envelope: wire.Header(), Request: msg.Header.Get(wire.HeaderRequest)})
	if err == nil {
		// A name of its own, by which a second one like it is refused.
		c := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{wire.HeaderRequest: []string{schema.NewID().String()}}}
		x.sign(c)
		err = x.nc.PublishMsg(c)
	}
	if err != nil {
		slog.WarnContext(ctx, "a request was not cancelled at its service", "subject", msg.Subject, "error", err)
	}
}

const (
	// early is how long a cancellation that comes before its request is remembered, mostEarly how many are: nearly all
	// of them are of requests that another process holds.
	early     = 10 * time.Second
	mostEarly = 4096
)

// openRequests are the requests that a service holds, waiting and running, by their names.
type openRequests struct {
	checker *signature.Checker
	mu      sync.Mutex
	by      map[string]context.CancelCauseFunc
	early   map[string]time.Time
}

func newHeld(checker *signature.Checker) *openRequests {
	return &openRequests{checker: checker, by: map[string]context.CancelCauseFunc{}, early: map[string]time.Time{}}
}

// hold returns a request's context and what to call at its end.
func (h *openRequests) hold(ctx context.Context, name string) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if name == "" {
		return ctx, func() { cancel(nil) }
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, over := h.early[name]; over {
		delete(h.early, name)
		cancel(ErrUnwanted)
	}
	h.by[name] = cancel
	return ctx, func() {
		h.mu.Lock()
		delete(h.by, name)
		h.mu.Unlock()
		cancel(nil)
	}
}

// cancel takes a message of a cancel subject. It may come before its request: they are two subscriptions.
func (h *openRequests) cancel(msg *nats.Msg) {
	if err := h.checker.Check(statement(msg), msg.Header.Get(wire.HeaderSignature)); err != nil {
		slog.Warn("a cancellation is refused", "subject", msg.Subject, "error", err)
		return
	}
	c, err := wire.Decode[wire.Cancel](msg.Data)
	if err != nil || c.Request == "" {
		slog.Warn("a cancellation cannot be read", "subject", msg.Subject, "error", err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if cancel, ok := h.by[c.Request]; ok {
		cancel(ErrUnwanted)
		return
	}
	now := time.Now()
	for name, at := range h.early {
		if now.Sub(at) > early {
			delete(h.early, name)
		}
	}
	if len(h.early) < mostEarly {
		h.early[c.Request] = now
	}
}

// gaveUp is the reply to a request that never had a slot.
func gaveUp(subject string, why error) *schema.RemoteError {
	if errors.Is(why, context.DeadlineExceeded) {
		return &schema.RemoteError{Code: schema.CodeDeadline, Message: subject + ": " + why.Error()}
	}
	return &schema.RemoteError{Code: schema.CodeUnavailable, Message: subject + ": " + why.Error()}
}
