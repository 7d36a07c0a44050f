package ingestworker

// Shares of tenants in the work streams.

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema/wire"
)

// queueMessages adds messages to the outbox, n of each subject, numbered by subject.
func (w *world) queueMessages(n int, subjects ...string) {
	w.t.Helper()
	w.admin(`INSERT INTO outbox (tenant_id, subject, message_id, payload)
		SELECT $1::uuid, s, s || ':' || n, to_jsonb(n) FROM unnest($2::text[]) s, generate_series(1, $3::int) n ORDER BY n, s`,
		w.principal.Tenant, subjects, n)
}

// TestATenantWaitsForFewMessagesOfOthers: a document that is uploaded behind thousands of other
// tenants' comes behind few of them in JetStream, and all reach a consumer in the order of their
// subjects.
func TestATenantWaitsForFewMessagesOfOthers(t *testing.T) {
	w := newWorld(t)
	const bulk, each = 4, 1500
	subjects := make([]string, bulk)
	for i := range subjects {
		subjects[i] = wire.IngestSubject(uuid.New())
	}
	w.queueMessages(each, subjects...)
	w.relay()
	// The relay has gone through the outbox as many times as there are events.
	for i := range 20 {
		w.queueMessages(1, wire.EventSubject(w.principal.Tenant, fmt.Sprintf("round-%d", i)))
		w.events(w.principal.Tenant, i+1)
	}
	late := wire.IngestSubject(w.principal.Tenant)
	w.queueMessages(1, late)
	consumer, err := w.jetstream().CreateConsumer(w.context(), wire.StreamIngest, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 10_000})
	w.ok(err)
	w.poll("the late message", func() bool { return w.waiting(w.principal.Tenant) == 1 })

	messages, err := consumer.Messages()
	w.ok(err)
	defer messages.Stop()
	last := map[string]int{}
	for n := range bulk*each + 1 {
		m, err := messages.Next(jetstream.NextContext(waittest.Context(t)))
		w.ok(err)
		w.ok(m.Ack())
		if m.Subject() == late && n > 200 {
			t.Errorf("the late message came behind %d others", n)
		}
		var number int
		if _, err := fmt.Sscan(string(m.Data()), &number); err != nil || number != last[m.Subject()]+1 {
			t.Fatalf("message %s of %s came behind %d: %v", m.Data(), m.Subject(), last[m.Subject()], err)
		}
		last[m.Subject()] = number
	}
	w.poll("an empty outbox", func() bool { return w.count(`SELECT count(*) FROM outbox`) == 0 })
}
