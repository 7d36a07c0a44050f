package store

// This file writes messages into the outbox, in the transaction of the change
// they tell of. The relay publishes them.

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/propagation"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const outboxSQL = `
INSERT INTO outbox (tenant_id, subject, message_id, payload, trace)
SELECT $1, m.subject, m.message_id, m.payload, nullif($5::text, '')
FROM unnest($2::text[], $3::text[], $4::text[]::jsonb[]) AS m (subject, message_id, payload)`

// outbox collects the messages of one transaction.
type outbox struct {
	tenant                uuid.UUID
	trace                 string
	subjects, ids, bodies []string
}

// ingest queues an attempt at a version.
func (o *outbox) ingest(m wire.IngestMessage) error {
	m.Envelope, m.Tenant, m.Trace = wire.Header(), o.tenant, o.trace
	return o.add(wire.IngestSubject(o.tenant), wire.IngestMessageID(m.Version, m.Attempt), m)
}

// event tells of a state change. Its id and time are set here.
func (o *outbox) event(e wire.Event) error {
	e.Envelope, e.ID, e.Tenant, e.At = wire.Header(), schema.NewID(), o.tenant, time.Now().UTC()
	return o.add(wire.EventSubject(o.tenant, e.Kind), e.ID.String(), e)
}

func (o *outbox) add(subject, id string, message any) error {
	body, err := wire.Encode(message)
	if err != nil {
		return err
	}
	o.subjects, o.ids, o.bodies = append(o.subjects, subject), append(o.ids, id), append(o.bodies, string(body))
	return nil
}

func (o *outbox) args() []any { return []any{o.tenant, o.subjects, o.ids, o.bodies, o.trace} }

func (o *outbox) write(ctx context.Context, tx pgx.Tx) error {
	if len(o.ids) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, outboxSQL, o.args()...); err != nil {
		return fmt.Errorf("write %d messages to the outbox: %w", len(o.ids), err)
	}
	return nil
}

// traceparent returns the W3C traceparent of ctx's span, empty without one.
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}
