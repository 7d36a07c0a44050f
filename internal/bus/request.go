package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

var tracer = otel.Tracer("github.com/sluice-rag/sluice/internal/bus")

// Request sends request to a service and waits for its reply until ctx ends. A
// service that no one runs gives schema.ErrUnavailable. An error inside the
// reply is the caller's to look at. When ctx ends because nobody wants the reply
// any more (Cancels), the service is told.
func Request[Reply any](ctx context.Context, nc *nats.Conn, subject string, request any) (Reply, error) {
	var reply Reply
	ctx, span := tracer.Start(ctx, "request "+subject, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("messaging.system", "nats"), attribute.String("messaging.destination.name", subject)))
	defer span.End()
	fail := func(err error) (Reply, error) {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		return reply, err
	}
	msg, err := newRequest(ctx, subject, request)
	if err != nil {
		return fail(err)
	}
	answer, err := nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		cancelAt(ctx, nc, msg)
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fail(fmt.Errorf("request %s: no worker answers; start one: %w", subject, schema.ErrUnavailable))
	case err != nil:
		return fail(fmt.Errorf("request %s: %w", subject, err))
	}
	if err := json.Unmarshal(answer.Data, &reply); err != nil {
		return fail(fmt.Errorf("request %s: decode the reply: %w", subject, err))
	}
	return reply, nil
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
	if wire.CancelSubject(subject) != "" {
		msg.Header.Set(wire.HeaderRequest, schema.NewID().String())
	}
	return msg, nil
}

// tenantOf reads whose turn a request takes. What does not say it, such as a request of an older build, shares one
// queue with the likes of it.
func tenantOf(msg *nats.Msg) uuid.UUID {
	id, err := uuid.Parse(msg.Header.Get(wire.HeaderTenant))
	if err != nil {
		return uuid.Nil
	}
	return id
}

// checkTenant reports a request that took the turn of another tenant than its own.
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
