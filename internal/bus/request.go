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

// Request sends a request to a service and waits for its reply until ctx ends. It returns
// schema.ErrUnavailable when no worker listens, or the worker's heartbeats stop. The caller has to
// check for errors inside the reply. When ctx ends for a cause of Cancels, the request is cancelled
// at the service.
func Request[Reply any](ctx context.Context, nc *nats.Conn, subject string, request any, options ...RequestOption) (Reply, error) {
	return RequestStream[Reply](ctx, nc, subject, func(string) any { return request }, func(string, []byte) {}, options...)
}

// RequestOption changes how a request is sent.
type RequestOption func(*requester)

// SignedBy signs the request with s, or not at all if s is nil.
func SignedBy(s *signature.Signer) RequestOption { return func(x *requester) { x.signer = s } }

// requester sends one request.
type requester struct {
	nc     *nats.Conn
	signer *signature.Signer
}

// sign adds the signature of a message.
func (x requester) sign(msg *nats.Msg) {
	if signed := x.signer.Sign(statement(msg)); signed != "" {
		msg.Header.Set(wire.HeaderSignature, signed)
	}
}

// statement returns the parts of a message that are signed.
func statement(msg *nats.Msg) signature.Statement {
	return signature.Statement{Subject: msg.Subject, Reply: msg.Reply, Request: msg.Header.Get(wire.HeaderRequest), Data: msg.Data}
}

// RequestStream is Request for a service that streams. request makes the request from the name of a
// stream. Until the reply arrives, receive gets the messages to the parts of the stream
// (wire.StreamSubject), in order. It must not block.
func RequestStream[Reply any](ctx context.Context, nc *nats.Conn, subject string, request func(stream string) any, receive func(part string, data []byte), options ...RequestOption) (reply Reply, err error) {
	x := requester{nc: nc}
	for _, h := range options {
		h(&x)
	}
	ctx, span := tracer.Start(ctx, "request "+subject, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("messaging.system", "nats"), attribute.String("messaging.destination.name", subject)))
	defer span.End()
	data, err := x.exchange(ctx, subject, request, receive)
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
func (x requester) exchange(ctx context.Context, subject string, request func(stream string) any, receive func(part string, data []byte)) ([]byte, error) {
	in, err := inboxOf(x.nc)
	if err != nil {
		return nil, err
	}
	stream, incoming, err := in.open()
	if err != nil {
		return nil, err
	}
	defer in.forget(stream)
	msg, err := newRequest(ctx, subject, request(stream))
	if err != nil {
		return nil, err
	}
	msg.Reply = wire.StreamSubject(stream, wire.PartReply)
	x.sign(msg)
	if err := x.nc.PublishMsg(msg); err != nil {
		return nil, translate(err)
	}
	timeout := time.NewTimer(heartbeatTimeout)
	defer timeout.Stop()
	for {
		parts, err := incoming.read(ctx, timeout)
		switch {
		case errors.Is(err, errHeartbeatTimeout):
			// The request is not cancelled: if the worker is alive, the next try finds its result.
			return nil, err
		case err != nil:
			x.cancel(ctx, msg)
			return nil, translate(err)
		}
		timeout.Reset(heartbeatTimeout)
		for _, part := range parts {
			switch part.name {
			case wire.PartReply:
				if len(part.Data) == 0 && part.Header.Get("Status") == noResponders {
					return nil, ErrNoWorker
				}
				return part.Data, nil
			case wire.PartAlive:
			default:
				receive(part.name, part.Data)
			}
		}
	}
}

// noResponders is the status of a server's reply to a request that has no subscriber.
const noResponders = "503"

// A service sends a heartbeat for each open request. A caller that gets none for heartbeatTimeout
// gives up: the worker, its machine or the connection is gone, or the reply was lost.
const (
	heartbeatInterval = 3 * time.Second
	heartbeatTimeout  = 5 * heartbeatInterval
)

// ErrNoWorker is the error of a request to a service without workers.
var ErrNoWorker = fmt.Errorf("no worker answers; start one: %w", schema.ErrUnavailable)

var errHeartbeatTimeout = fmt.Errorf("no heartbeat from the worker for %s: it is gone, or the connection to NATS is; try again: %w", heartbeatTimeout, schema.ErrUnavailable)

// translate wraps NATS' errors about the connection in schema.ErrUnavailable.
func translate(err error) error {
	for _, unavailable := range []error{nats.ErrConnectionClosed, nats.ErrConnectionDraining, nats.ErrReconnectBufExceeded, nats.ErrBadSubscription,
		nats.ErrDisconnected, nats.ErrStaleConnection} {
		if errors.Is(err, unavailable) {
			return fmt.Errorf("%w: %w", schema.ErrUnavailable, err)
		}
	}
	return err
}

// newRequest returns the message of a request.
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

// tenantOf returns the tenant in whose queue a request waits. Requests that name none, such as
// those of an older build, share one queue.
func tenantOf(msg *nats.Msg) uuid.UUID {
	id, err := uuid.Parse(msg.Header.Get(wire.HeaderTenant))
	if err != nil {
		return uuid.Nil
	}
	return id
}

// checkTenant refuses a request whose header names another tenant than its body.
func checkTenant(msg *nats.Msg, request any) error {
	of, ok := request.(wire.OfTenant)
	header := msg.Header.Get(wire.HeaderTenant)
	if ok && header != "" && header != of.TenantID().String() {
		return schema.Invalid(wire.HeaderTenant, "is %q, the request is of tenant %s", header, of.TenantID())
	}
	return nil
}

// redact returns an address without its user, which may be a token.
func redact(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the given address"
	}
	u.User = nil
	return u.String()
}
