package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/internal/signature"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

var tracer = otel.Tracer("github.com/sluice-rag/sluice/internal/bus")

// Request sends request to a service and waits for its reply until ctx ends. A
// service that no one runs gives schema.ErrUnavailable, and so does one that is
// not heard of any more while the request is under way: its process or the way to
// it is gone. An error inside the reply is the caller's to look at. When ctx ends
// because nobody wants the reply any more (Cancels), the service is told.
func Request[Reply any](ctx context.Context, nc *nats.Conn, subject string, request any, how ...How) (Reply, error) {
	return RequestStream[Reply](ctx, nc, subject, func(string) any { return request }, func(string, []byte) {}, how...)
}

// How a request is sent.
type How func(*sending)

// SignedBy signs a request; nil doesn't.
func SignedBy(s *signature.Signer) How { return func(x *sending) { x.signer = s } }

// sending is a request on its way.
type sending struct {
	nc     *nats.Conn
	signer *signature.Signer
}

// sign signs a message as it is.
func (x sending) sign(msg *nats.Msg) {
	if signed := x.signer.Sign(statement(msg)); signed != "" {
		msg.Header.Set(wire.HeaderSignature, signed)
	}
}

// statement is what is signed of a message.
func statement(msg *nats.Msg) signature.Statement {
	return signature.Statement{Subject: msg.Subject, Reply: msg.Reply, Request: msg.Header.Get(wire.HeaderRequest), Data: msg.Data}
}

// What may wait of one stream. Whoever reads it does not block, so this is
// never reached unless the process has no time at all.
const (
	streamMessages = 4 << 10
	streamBytes    = 16 << 20
)

// RequestStream does what Request does, with a request that names a stream of its
// own. Until the reply comes tell gets what is sent to the parts of the stream
// (wire.StreamSubject), in order; it must not block.
func RequestStream[Reply any](ctx context.Context, nc *nats.Conn, subject string, request func(stream string) any, tell func(part string, data []byte), how ...How) (reply Reply, err error) {
	x := sending{nc: nc}
	for _, h := range how {
		h(&x)
	}
	ctx, span := tracer.Start(ctx, "request "+subject, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("messaging.system", "nats"), attribute.String("messaging.destination.name", subject)))
	defer span.End()
	data, err := x.exchange(ctx, subject, request, tell)
	if err == nil {
		err = json.Unmarshal(data, &reply)
	}
	if err != nil {
		err = fmt.Errorf("request %s: %w", subject, err)
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	return reply, err
}

// exchange sends a request and returns what the service replied.
func (x sending) exchange(ctx context.Context, subject string, request func(stream string) any, tell func(part string, data []byte)) ([]byte, error) {
	nc := x.nc
	stream := nc.NewInbox()
	// One subscription for all parts: a subscription keeps the order.
	sub, err := nc.SubscribeSync(wire.StreamSubject(stream, "*"))
	if err != nil {
		return nil, fmt.Errorf("listen for the reply: %w", meaning(err))
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection's end ends it too
	if err := sub.SetPendingLimits(streamMessages, streamBytes); err != nil {
		return nil, fmt.Errorf("bound what waits: %w", meaning(err))
	}
	msg, err := newRequest(ctx, subject, request(stream))
	if err != nil {
		return nil, err
	}
	msg.Reply = wire.StreamSubject(stream, wire.PartReply)
	x.sign(msg)
	if err := nc.PublishMsg(msg); err != nil {
		return nil, meaning(err)
	}
	for {
		heard, giveUp := context.WithTimeoutCause(ctx, silent, errSilent)
		got, err := sub.NextMsgWithContext(heard)
		quiet := context.Cause(heard)
		giveUp()
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return nil, ErrNobody
		case errors.Is(err, nats.ErrSlowConsumer):
			continue
		case err != nil && ctx.Err() == nil && errors.Is(quiet, errSilent):
			// It is not told to give up: should it live, its reply is there for who asks again.
			return nil, errSilent
		case err != nil:
			x.cancel(ctx, msg)
			return nil, meaning(err)
		}
		switch part := got.Subject[len(stream)+1:]; part {
		case wire.PartReply:
			return got.Data, nil
		case wire.PartAlive:
		default:
			tell(part, got.Data)
		}
	}
}

// A service says that it holds a request when it takes it, and then every beat. A caller that hears nothing for silent,
// of five beats, gives up: the worker or its machine is gone, or the way to it, or the reply got lost on the way.
const (
	beat   = 3 * time.Second
	silent = 5 * beat
)

// ErrNobody is the error of a request that nobody listens for.
var ErrNobody = fmt.Errorf("no worker answers; start one: %w", schema.ErrUnavailable)

var errSilent = fmt.Errorf("the worker that has it was not heard of for %s, or the connection to NATS is gone; ask again: %w", silent, schema.ErrUnavailable)

// meaning gives NATS' errors about the connection the sentinel that callers know.
func meaning(err error) error {
	for _, gone := range []error{nats.ErrConnectionClosed, nats.ErrConnectionDraining, nats.ErrReconnectBufExceeded, nats.ErrBadSubscription,
		nats.ErrDisconnected, nats.ErrStaleConnection} {
		if errors.Is(err, gone) {
			return fmt.Errorf("%w: %w", schema.ErrUnavailable, err)
		}
	}
	return err
}

// newRequest makes the message of a request.
func newRequest(ctx context.Context, subject string, request any) (*nats.Msg, error) {
	data, err := wire.Encode(request)
	if err != nil {
		return nil, err
	}
	msg := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	Inject(ctx, msg.Header)
	if of, ok := request.(wire.OfTenant); ok {
		msg.Header.Set(wire.HeaderTenant, of.TenantID().String())
	}
	msg.Header.Set(wire.HeaderAlive, "yes")
	if wire.CancelSubject(subject) != "" {
		msg.Header.Set(wire.HeaderRequest, schema.NewID().String())
	}
	return msg, nil
}

// tenantOf reads whose queue a request waits in. What does not say it, such as a request of an older build, shares one
// queue with the likes of it.
func tenantOf(msg *nats.Msg) uuid.UUID {
	id, err := uuid.Parse(msg.Header.Get(wire.HeaderTenant))
	if err != nil {
		return uuid.Nil
	}
	return id
}

// checkTenant reports a request that waited in the queue of another tenant than its own.
func checkTenant(msg *nats.Msg, request any) error {
	of, ok := request.(wire.OfTenant)
	said := msg.Header.Get(wire.HeaderTenant)
	if ok && said != "" && said != of.TenantID().String() {
		return schema.Invalid(wire.HeaderTenant, "is %q, the request is of tenant %s", said, of.TenantID())
	}
	return nil
}

// redact returns an address without its user: a token stands where the name
// does.
func redact(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the given address"
	}
	u.User = nil
	return u.String()
}
