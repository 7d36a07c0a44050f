package bus

// Cancellation of requests. Only its caller's cancellation ends a request early: a request whose
// caller dies, or loses its connection, goes on.

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
	// ErrCallerGone is the cause with which a handler's context ends when the caller has cancelled
	// the request.
	ErrCallerGone = errors.New("the caller cancelled the request")
	// ErrStopping is the cause with which a handler's context ends when the service stops and its
	// grace is over.
	ErrStopping = errors.New("the service is stopping")
)

type cancelsKey struct{}

// Cancels returns a context whose requests are also cancelled at the service when it ends with a
// cause for which cause returns true. Requests made with a handler's context are always cancelled
// when the handler's own caller has cancelled.
func Cancels(ctx context.Context, cause func(error) bool) context.Context {
	return context.WithValue(ctx, cancelsKey{}, cause)
}

// isCallerGone reports whether a context has ended for a cause that cancels its requests.
func isCallerGone(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrCallerGone) {
		return true
	}
	counts, ok := ctx.Value(cancelsKey{}).(func(error) bool)
	return ok && counts(cause)
}

// cancel cancels a request at the service, if the context ended for a cause that cancels requests.
func (x requester) cancel(ctx context.Context, msg *nats.Msg) {
	subject := wire.CancelSubject(msg.Subject)
	if subject == "" || !isCallerGone(ctx) {
		return
	}
	data, err := wire.Encode(wire.Cancel{Envelope: wire.Header(), Request: msg.Header.Get(wire.HeaderRequest)})
	if err == nil {
		// The message has its own id, by which a replay is recognised.
		c := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{wire.HeaderRequest: []string{schema.NewID().String()}}}
		x.sign(c)
		err = x.nc.PublishMsg(c)
	}
	if err != nil {
		slog.WarnContext(ctx, "could not cancel a request", "subject", msg.Subject, "error", err)
	}
}

const (
	// earlyCancelTTL and maxEarlyCancels limit the cancellations that are remembered because their
	// requests have not arrived yet. Nearly all of them are for requests of another process.
	earlyCancelTTL  = 10 * time.Second
	maxEarlyCancels = 4096
)

// openRequests are the requests of a service that wait or run, by their ids.
type openRequests struct {
	checker *signature.Checker
	mu      sync.Mutex
	cancels map[string]context.CancelCauseFunc
	early   map[string]time.Time
}

func newOpenRequests(checker *signature.Checker) *openRequests {
	return &openRequests{checker: checker, cancels: map[string]context.CancelCauseFunc{}, early: map[string]time.Time{}}
}

// add returns a context for a request; a cancellation of the request ends it. release must be
// called when the request is answered.
func (o *openRequests) add(ctx context.Context, id string) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if id == "" {
		return ctx, func() { cancel(nil) }
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, cancelled := o.early[id]; cancelled {
		delete(o.early, id)
		cancel(ErrCallerGone)
	}
	o.cancels[id] = cancel
	return ctx, func() {
		o.mu.Lock()
		delete(o.cancels, id)
		o.mu.Unlock()
		cancel(nil)
	}
}

// cancel handles a cancellation. It may arrive before its request, since the two have different
// subscriptions.
func (o *openRequests) cancel(msg *nats.Msg) {
	if err := o.checker.Check(statement(msg), msg.Header.Get(wire.HeaderSignature)); err != nil {
		slog.Warn("refused a cancellation whose signature is not valid", "subject", msg.Subject, "error", err)
		return
	}
	c, err := wire.Decode[wire.Cancel](msg.Data)
	if err != nil || c.Request == "" {
		slog.Warn("could not read a cancellation", "subject", msg.Subject, "error", err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if cancel, ok := o.cancels[c.Request]; ok {
		cancel(ErrCallerGone)
		return
	}
	now := time.Now()
	for id, at := range o.early {
		if now.Sub(at) > earlyCancelTTL {
			delete(o.early, id)
		}
	}
	if len(o.early) < maxEarlyCancels {
		o.early[c.Request] = now
	}
}

// cancelledReply returns the reply to a request that ended before it had a slot.
func cancelledReply(subject string, cause error) *schema.RemoteError {
	code := schema.CodeUnavailable
	if errors.Is(cause, context.DeadlineExceeded) {
		code = schema.CodeDeadline
	}
	return &schema.RemoteError{Code: code, Message: subject + ": " + cause.Error()}
}
