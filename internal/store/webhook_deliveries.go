package store

// This file writes deliveries to webhooks in the transaction of their event, and
// gives them to who sends them.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/webhook"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

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

// Webhooking is the store as package webhook needs it.
type Webhooking struct{ *Store }

// Webhooking returns the store as package webhook needs it.
func (s *Store) Webhooking() Webhooking { return Webhooking{s} }

var _ webhook.Store = Webhooking{}

// claimLock is the key of the lock that makes the limit per tenant exact.
const claimLock = 0x51C1CEB0

// What is due is looked for tenant by tenant, so that none hides another's.
const claimDeliveriesSQL = `
WITH RECURSIVE tenants AS (
    (SELECT tenant_id FROM webhook_deliveries WHERE state = 'waiting' ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT d.tenant_id FROM webhook_deliveries d WHERE d.state = 'waiting' AND d.tenant_id > t.tenant_id ORDER BY d.tenant_id LIMIT 1)
    FROM tenants t WHERE t.tenant_id IS NOT NULL
), due AS (
    SELECT c.* FROM tenants t, LATERAL (
        SELECT d.tenant_id, d.webhook_id, d.id, d.next_at FROM webhook_deliveries d
        WHERE d.tenant_id = t.tenant_id AND d.state = 'waiting' AND d.next_at <= $1
        ORDER BY d.next_at
        LIMIT greatest(0, $4 - (SELECT count(*) FROM webhook_deliveries b
                                WHERE b.tenant_id = t.tenant_id AND b.state = 'waiting' AND b.next_at > $1 AND b.claimed_until > $1))
    ) c
    WHERE t.tenant_id IS NOT NULL ORDER BY c.next_at LIMIT $3
)
UPDATE webhook_deliveries d SET attempts = d.attempts + 1, claimed_until = $2, next_at = $2
FROM due WHERE d.tenant_id = due.tenant_id AND d.webhook_id = due.webhook_id AND d.id = due.id
RETURNING d.tenant_id, d.webhook_id, d.id, d.attempts, d.since`

// ClaimDeliveries implements webhook.Store.
func (s Webhooking) ClaimDeliveries(ctx context.Context, now, until time.Time, limit, perTenant int) ([]webhook.Claimed, error) {
	var out []webhook.Claimed
	err := s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, claimLock); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, claimDeliveriesSQL, now, until, limit, perTenant)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[webhook.Claimed])
		return err
	})
	return out, wrap(err, "claim deliveries to webhooks")
}

// Delivery implements webhook.Store.
func (s Webhooking) Delivery(ctx context.Context, c webhook.Claimed, now time.Time) (webhook.Delivery, error) {
	var d webhook.Delivery
	err := s.AsTenant(ctx, c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		d = webhook.Delivery{}
		w := &d.Webhook
		var secret, old []byte
		var until *time.Time
		var subject uuid.UUID
		if err := tx.QueryRow(ctx, `
			SELECT w.id, w.url, w.include, w.groups, w.secret, w.old_secret, w.old_until, d.kind, d.subject_id, d.created_at
			FROM webhook_deliveries d JOIN webhooks w ON w.tenant_id = d.tenant_id AND w.id = d.webhook_id
			WHERE d.tenant_id = $1 AND d.webhook_id = $2 AND d.id = $3`, c.Tenant, c.Webhook, c.ID).
			Scan(&w.ID, &w.URL, &w.Include, &w.Groups, &secret, &old, &until, &d.Kind, &subject, &d.At); err != nil {
			return err
		}
		d.Secrets = [][]byte{secret}
		if until != nil && until.After(now) {
			d.Secrets = append(d.Secrets, old)
		}
		if d.Kind == schema.WebhookVersionReady || d.Kind == schema.WebhookVersionFailed {
			return readVersion(ctx, tx, c.Tenant, subject, &d)
		}
		return readJob(ctx, tx, c.Tenant, subject, &d)
	})
	return d, wrap(err, "read delivery %s", c.ID)
}

func readJob(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID, d *webhook.Delivery) error {
	j := webhook.Job{ID: id}
	var code, message *string
	if err := tx.QueryRow(ctx, `SELECT collection_id, state, reason_code, reason FROM questions WHERE tenant_id = $1 AND id = $2`, tenant, id).
		Scan(&j.Collection, &j.State, &code, &message); err != nil {
		return err
	}
	j.Reason = reasonFrom(code, message)
	d.Job = &j
	if j.State != schema.JobAnswered || !d.Webhook.Includes(schema.IncludeResult) {
		return nil
	}
	result, err := readAnswer(ctx, tx, schema.Principal{Tenant: tenant, Groups: d.Webhook.Groups}, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	j.Result = &result
	return err
}

func readVersion(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID, d *webhook.Delivery) error {
	v := webhook.Version{ID: id, State: schema.StateReady}
	var code, message *string
	if err := tx.QueryRow(ctx, `SELECT document_id, collection_id, reason_code, reason FROM versions WHERE tenant_id = $1 AND id = $2`, tenant, id).
		Scan(&v.Document, &v.Collection, &code, &message); err != nil {
		return err
	}
	// The event's state: the version may have moved on since.
	if d.Kind == schema.WebhookVersionFailed {
		v.State, v.Reason = schema.StateFailed, reasonFrom(code, message)
	}
	d.Version = &v
	return nil
}

func reasonFrom(code, message *string) *schema.Reason {
	if code == nil {
		return nil
	}
	r := &schema.Reason{Code: *code}
	if message != nil {
		r.Message = *message
	}
	return r
}

// SettleDelivery implements webhook.Store.
func (s Webhooking) SettleDelivery(ctx context.Context, c webhook.Claimed, o webhook.Outcome) error {
	var next, finished *time.Time
	if o.State == schema.DeliveryWaiting {
		next = &o.Next
	} else {
		finished = &o.At
	}
	err := s.AsTenant(ctx, c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE webhook_deliveries SET state = $5, status = nullif($6, 0), problem = nullif($7, ''), next_at = coalesce($8, next_at),
			       claimed_until = NULL, finished_at = $9
			WHERE tenant_id = $1 AND webhook_id = $2 AND id = $3 AND state = 'waiting' AND attempts = $4 AND claimed_until IS NOT NULL`,
			c.Tenant, c.Webhook, c.ID, c.Attempt, string(o.State), o.Status, o.Problem, next, finished)
		return err
	})
	return wrap(err, "note what came of delivery %s", c.ID)
}

// ForgetDeliveries implements webhook.Store.
func (s Webhooking) ForgetDeliveries(ctx context.Context, before time.Time, limit int) (int, error) {
	n := 0
	err := s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			DELETE FROM webhook_deliveries WHERE (tenant_id, webhook_id, id) IN (
			    SELECT tenant_id, webhook_id, id FROM webhook_deliveries WHERE state <> 'waiting' AND finished_at < $1 ORDER BY finished_at LIMIT $2)`, before, limit)
		n = int(tag.RowsAffected())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("forget deliveries to webhooks: %w", err)
	}
	return n, nil
}
