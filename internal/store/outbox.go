package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/propagation"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// This file writes messages into the outbox, in the transaction of the change
// they tell of. The relay publishes them.

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

// outboxRows gathers rows for one INSERT.
type outboxRows struct {
	tenants                      []uuid.UUID
	subjects, ids, bodies, trace []string
	told                         toldRows
}

func (o *outboxRows) add(tenant uuid.UUID, subject, id string, message any, trace string) error {
	body, err := wire.Encode(message)
	if err != nil {
		return err
	}
	o.tenants = append(o.tenants, tenant)
	o.subjects = append(o.subjects, subject)
	o.ids = append(o.ids, id)
	o.bodies = append(o.bodies, string(body))
	o.trace = append(o.trace, trace)
	o.told.add(message)
	return nil
}

const insertOutboxSQL = `
INSERT INTO outbox (tenant_id, subject, message_id, payload, trace)
SELECT tenant, subject, id, body::jsonb, nullif(trace, '')
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[]) AS r(tenant, subject, id, body, trace)`

func (o *outboxRows) insert(ctx context.Context, tx pgx.Tx) error {
	if len(o.ids) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	o.queue(b)
	return tx.SendBatch(ctx, b).Close()
}

// queue adds the statement that writes the rows, if there are any.
func (o *outboxRows) queue(b *pgx.Batch) {
	if len(o.ids) > 0 {
		b.Queue(insertOutboxSQL, o.tenants, o.subjects, o.ids, o.bodies, o.trace)
		o.told.queue(b)
	}
}

// toldRows are the events of one transaction that webhooks may hear of.
type toldRows struct {
	tenants, ids, subjects []uuid.UUID
	kinds                  []string
}

// add takes note of a message of the outbox, if it is such an event.
func (t *toldRows) add(message any) {
	switch e := message.(type) {
	case wire.QuestionEvent:
		t.event(e.Tenant, e.Kind, e.ID, e.Question)
	case wire.Event:
		t.event(e.Tenant, e.Kind, e.ID, e.Version)
	}
}

func (t *toldRows) event(tenant uuid.UUID, kind string, id, subject uuid.UUID) {
	if slices.Contains(schema.WebhookKinds, kind) {
		t.tenants, t.kinds = append(t.tenants, tenant), append(t.kinds, kind)
		t.ids, t.subjects = append(t.ids, id), append(t.subjects, subject)
	}
}

const insertDeliveriesSQL = `
INSERT INTO webhook_deliveries (tenant_id, webhook_id, id, kind, subject_id)
SELECT w.tenant_id, w.id, e.id, e.kind, e.subject
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[]) AS e (tenant, kind, id, subject)
JOIN webhooks w ON w.tenant_id = e.tenant AND e.kind = ANY (w.kinds)`

// queue adds the statement that writes a delivery for every event and webhook
// that hears of it.
func (t *toldRows) queue(b *pgx.Batch) {
	if len(t.ids) > 0 {
		b.Queue(insertDeliveriesSQL, t.tenants, t.kinds, t.ids, t.subjects)
	}
}
