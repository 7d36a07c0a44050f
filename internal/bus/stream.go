package bus

// A request whose service tells of its progress before it replies.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// What may wait of one stream. Whoever reads it does not block, so this is
// never reached unless the process has no time at all.
const (
	streamMessages = 16 << 10
	streamBytes    = 16 << 20
)

// RequestStream sends a request that names a stream of its own and waits for
// the reply until ctx ends, as Request does. Meanwhile tell gets what is sent to
// the parts of the stream (wire.StreamSubject), in order and before the reply;
// it must not block.
func RequestStream[Reply any](ctx context.Context, nc *nats.Conn, subject string, request func(stream string) any, tell func(part string, data []byte)) (reply Reply, err error) {
	ctx, span := tracer.Start(ctx, "request "+subject, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("messaging.system", "nats"), attribute.String("messaging.destination.name", subject)))
	defer span.End()
	defer func() {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
	}()
	stream := nc.NewInbox()
	// One subscription for all parts: a subscription keeps the order.
	sub, err := nc.SubscribeSync(wire.StreamSubject(stream, "*"))
	if err != nil {
		return reply, fmt.Errorf("request %s: listen to its stream: %w", subject, err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection's end ends it too
	if err := sub.SetPendingLimits(streamMessages, streamBytes); err != nil {
		return reply, fmt.Errorf("request %s: bound its stream: %w", subject, err)
	}
	msg, err := newRequest(ctx, subject, request(stream))
	if err != nil {
		return reply, err
	}
	msg.Reply = wire.StreamSubject(stream, wire.PartReply)
	if err := nc.PublishMsg(msg); err != nil {
		return reply, fmt.Errorf("request %s: %w", subject, err)
	}
	for {
		got, err := sub.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return reply, fmt.Errorf("request %s: no worker answers; start one: %w", subject, schema.ErrUnavailable)
		case errors.Is(err, nats.ErrSlowConsumer):
			continue
		case err != nil:
			cancelAt(ctx, nc, msg)
			return reply, fmt.Errorf("request %s: %w", subject, err)
		}
		part := got.Subject[len(stream)+1:]
		if part != wire.PartReply {
			tell(part, got.Data)
			continue
		}
		if err := json.Unmarshal(got.Data, &reply); err != nil {
			return reply, fmt.Errorf("request %s: decode the reply: %w", subject, err)
		}
		return reply, nil
	}
}
