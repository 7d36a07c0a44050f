package store

// This file writes messages to the outbox, in the transaction of the change that they announce. The
// relay publishes them.

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

const (
	outboxSQL = `
INSERT INTO outbox (tenant_id, subject, message_id, payload, trace)
SELECT tenant, subject, id, body::jsonb, nullif(trace, '')
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[]) AS r(tenant, subject, id, body, trace)`

	// deliveriesSQL writes a delivery for each event and each webhook that is notified of it.
	deliveriesSQL = `
INSERT INTO webhook_deliveries (tenant_id, webhook_id, id, kind, subject_id)
SELECT w.tenant_id, w.id, e.id, e.kind, e.subject
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[]) AS e (tenant, kind, id, subject)
JOIN webhooks w ON w.tenant_id = e.tenant AND e.kind = ANY (w.kinds)`
)

// Outbox collects the messages of one transaction: work to be queued, and events, of which webhooks
// are notified too. The zero value is empty. traceparent, here and below, is the W3C one; it is
// empty without a trace.
type Outbox struct {
	// NoWebhooks suppresses notifying webhooks of the events.
	NoWebhooks bool

	tenants                            []uuid.UUID
	subjects, ids, bodies, traceparent []string

	webhookTenants  []uuid.UUID // tenants of the events that webhooks are notified of
	webhookKinds    []string
	webhookIDs      []uuid.UUID
	webhookSubjects []uuid.UUID // a version, a question or a plan choice
}

// Ingest queues an attempt at a version of m's tenant.
func (o *Outbox) Ingest(m wire.IngestMessage) error {
	m.Envelope = wire.Header()
	return o.add(m.Tenant, wire.IngestSubject(m.Tenant), wire.IngestMessageID(m.Version, m.Attempt), m, m.Trace)
}

// Event adds an event about a change of e's tenant. It sets the event's id and time.
func (o *Outbox) Event(e wire.Event, traceparent string) error {
	e.Envelope, e.ID, e.At = wire.Header(), schema.NewID(), time.Now().UTC()
	o.notifyWebhooks(e.Tenant, e.Kind, e.ID, e.Version)
	return o.add(e.Tenant, wire.EventSubject(e.Tenant, e.Kind), e.ID.String(), e, traceparent)
}

// Question queues an attempt at a question, and adds the event that it is queued.
func (o *Outbox) Question(tenant, collection, question uuid.UUID, attempt int, traceparent string) error {
	m := wire.QuestionMessage{Envelope: wire.Header(), Tenant: tenant, Question: question, Attempt: attempt, Trace: traceparent}
	if err := o.add(tenant, wire.QuestionsSubject(tenant), wire.QuestionMessageID(question, attempt), m, traceparent); err != nil {
		return err
	}
	return o.QuestionEvent(wire.QuestionEvent{Kind: wire.EventQuestionQueued, State: schema.JobQueued,
		Tenant: tenant, Collection: collection, Question: question, Attempt: attempt}, traceparent)
}

// QuestionEvent adds an event about a change of a question of e's tenant. It sets the event's id
// and time.
func (o *Outbox) QuestionEvent(e wire.QuestionEvent, traceparent string) error {
	e.Envelope, e.ID, e.At = wire.Header(), schema.NewID(), time.Now().UTC()
	o.notifyWebhooks(e.Tenant, e.Kind, e.ID, e.Question)
	return o.add(e.Tenant, wire.EventSubject(e.Tenant, e.Kind), e.ID.String(), e, traceparent)
}

// BetterPlan notifies webhooks that a repeated choice found a better plan for its collection.
func (o *Outbox) BetterPlan(tenant, choice uuid.UUID) {
	o.notifyWebhooks(tenant, schema.WebhookPlanBetter, schema.NewID(), choice)
}

func (o *Outbox) add(tenant uuid.UUID, subject, id string, message any, traceparent string) error {
	body, err := wire.Encode(message)
	if err != nil {
		return err
	}
	o.tenants, o.subjects, o.ids = append(o.tenants, tenant), append(o.subjects, subject), append(o.ids, id)
	o.bodies, o.traceparent = append(o.bodies, string(body)), append(o.traceparent, traceparent)
	return nil
}

// notifyWebhooks has webhooks notified of an event, if its kind is one that they can subscribe to.
func (o *Outbox) notifyWebhooks(tenant uuid.UUID, kind string, id, of uuid.UUID) {
	if !o.NoWebhooks && slices.Contains(schema.WebhookKinds, kind) {
		o.webhookTenants, o.webhookKinds = append(o.webhookTenants, tenant), append(o.webhookKinds, kind)
		o.webhookIDs, o.webhookSubjects = append(o.webhookIDs, id), append(o.webhookSubjects, of)
	}
}

// Queue adds the statements that write the messages to b, if there are any. ctx is the context of
// the transaction in which they run: relays are woken when it commits.
func (o *Outbox) Queue(ctx context.Context, b *pgx.Batch) {
	if len(o.ids) > 0 {
		markOutbox(ctx)
		b.Queue(outboxSQL, o.tenants, o.subjects, o.ids, o.bodies, o.traceparent)
	}
	if len(o.webhookIDs) > 0 {
		b.Queue(deliveriesSQL, o.webhookTenants, o.webhookKinds, o.webhookIDs, o.webhookSubjects)
	}
}

// Write writes the messages.
func (o *Outbox) Write(ctx context.Context, tx pgx.Tx) error {
	if len(o.ids) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	o.Queue(ctx, b)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("write %d messages to the outbox: %w", len(o.ids), err)
	}
	return nil
}

// Traceparent returns the W3C traceparent of ctx's span, empty without one.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}
