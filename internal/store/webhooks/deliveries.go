package webhooks

// This file assigns deliveries to senders.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/internal/webhook"
	"github.com/sluice-rag/sluice/schema"
)

var _ webhook.Store = (*WebhookStore)(nil)

// Due deliveries are searched for each webhook separately, so that none starves another, and
// locked: concurrent senders skip them. A claimed delivery is not due.
const claimDeliveriesSQL = `
WITH RECURSIVE endpoints AS (
    (SELECT tenant_id, webhook_id FROM webhook_deliveries WHERE state = 'waiting' ORDER BY tenant_id, webhook_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id, n.webhook_id FROM endpoints e, LATERAL (
        SELECT d.tenant_id, d.webhook_id FROM webhook_deliveries d
        WHERE d.state = 'waiting' AND (d.tenant_id, d.webhook_id) > (e.tenant_id, e.webhook_id)
        ORDER BY d.tenant_id, d.webhook_id LIMIT 1) n
), due AS (
    SELECT e.tenant_id, e.webhook_id, d.id, r.document, d.next_at, coalesce(k.proven, false) AS proven,
           min(r.document::int) OVER w = r.document::int AS first,
           row_number() OVER (PARTITION BY e.tenant_id, e.webhook_id ORDER BY r.document, d.next_at) AS turn
    FROM endpoints e
    LEFT JOIN unnest($5::uuid[], $6::int[], $7::bool[]) AS k (webhook_id, room, proven) ON k.webhook_id = e.webhook_id
    CROSS JOIN (VALUES (false), (true)) AS r (document)
    CROSS JOIN LATERAL (
        SELECT d.id, d.next_at FROM webhook_deliveries d
        WHERE d.tenant_id = e.tenant_id AND d.webhook_id = e.webhook_id AND d.state = 'waiting'
          AND (d.kind LIKE 'version.%') = r.document AND d.next_at <= $1
        ORDER BY d.next_at LIMIT coalesce(k.room, 1) FOR UPDATE SKIP LOCKED) d
    WINDOW w AS (PARTITION BY e.tenant_id, e.webhook_id)
), placed AS (
    SELECT *, row_number() OVER (PARTITION BY tenant_id ORDER BY turn, document, next_at) AS place FROM due WHERE first
), chosen AS (
    SELECT * FROM (
        SELECT *, row_number() OVER (PARTITION BY proven ORDER BY place, document, next_at) AS n FROM placed) p
    WHERE proven OR n <= $4
    ORDER BY place, document, next_at LIMIT $3
), claimed AS (
    UPDATE webhook_deliveries d SET attempts = d.attempts + 1, claimed_until = $2, next_at = $2
    FROM chosen c WHERE d.tenant_id = c.tenant_id AND d.webhook_id = c.webhook_id AND d.id = c.id
    RETURNING d.tenant_id, d.webhook_id, d.id, d.attempts, d.since, c.place, c.document
)
SELECT tenant_id, webhook_id, id, attempts, since FROM claimed ORDER BY place, document`

// Clock implements webhook.Store.
func (s *WebhookStore) Clock(ctx context.Context) (now time.Time, err error) {
	err = s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now)
	})
	return now, store.Wrap(err, "read the database's clock")
}

// ClaimDeliveries implements webhook.Store.
func (s *WebhookStore) ClaimDeliveries(ctx context.Context, now, until time.Time, r webhook.Room) ([]webhook.Claimed, error) {
	var out []webhook.Claimed
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, claimDeliveriesSQL, now, until, r.Limit, r.Unproven, r.Webhooks, r.Each, r.Proven)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[webhook.Claimed])
		return err
	})
	return out, store.Wrap(err, "claim deliveries to webhooks")
}

// Delivery implements webhook.Store.
func (s *WebhookStore) Delivery(ctx context.Context, c webhook.Claimed, now time.Time) (webhook.Delivery, error) {
	var d webhook.Delivery
	err := s.db.AsTenant(ctx, c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
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
		if d.Kind == schema.WebhookPlanBetter {
			return readBetterPlan(ctx, tx, c.Tenant, subject, &d)
		}
		return readJob(ctx, tx, c.Tenant, subject, &d)
	})
	return d, store.Wrap(err, "read delivery %s", c.ID)
}

func readJob(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID, d *webhook.Delivery) error {
	j := webhook.Job{ID: id}
	var code, message *string
	if err := tx.QueryRow(ctx, `SELECT collection_id, state, reason_code, reason FROM questions WHERE tenant_id = $1 AND id = $2`, tenant, id).
		Scan(&j.Collection, &j.State, &code, &message); err != nil {
		return err
	}
	j.Reason = store.ReasonOf(code, message)
	d.Job = &j
	if j.State != schema.JobAnswered || !d.Webhook.Includes(schema.IncludeResult) {
		return nil
	}
	result, err := questions.ReadAnswer(ctx, tx, schema.Principal{Tenant: tenant, Groups: d.Webhook.Groups}, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	result.Trace = []schema.StageReport{} // some 70 KB of stage reports, which the linked answer has
	j.Result = &result
	return err
}

func readBetterPlan(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID, d *webhook.Delivery) error {
	b := webhook.BetterPlan{Choice: id}
	d.Better = &b
	return tx.QueryRow(ctx, `SELECT collection_id, result->>'plan', current_plan FROM plan_choices WHERE tenant_id = $1 AND id = $2`, tenant, id).
		Scan(&b.Collection, &b.Plan, &b.Current)
}

func readVersion(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID, d *webhook.Delivery) error {
	v := webhook.Version{ID: id, State: schema.StateReady}
	var code, message *string
	if err := tx.QueryRow(ctx, `SELECT document_id, collection_id, reason_code, reason FROM versions WHERE tenant_id = $1 AND id = $2`, tenant, id).
		Scan(&v.Document, &v.Collection, &code, &message); err != nil {
		return err
	}
	// The state is the event's: the version may have changed since.
	if d.Kind == schema.WebhookVersionFailed {
		v.State, v.Reason = schema.StateFailed, store.ReasonOf(code, message)
	}
	d.Version = &v
	return nil
}

// SettleDelivery implements webhook.Store.
func (s *WebhookStore) SettleDelivery(ctx context.Context, c webhook.Claimed, o webhook.Outcome) error {
	var next, finished *time.Time
	if o.State == schema.DeliveryWaiting {
		next = &o.Next
	} else {
		finished = &o.At
	}
	err := s.db.AsTenant(ctx, c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE webhook_deliveries SET state = $5, status = nullif($6, 0), problem = nullif($7, ''), next_at = coalesce($8, next_at),
			       claimed_until = NULL, finished_at = $9
			WHERE tenant_id = $1 AND webhook_id = $2 AND id = $3 AND state = 'waiting' AND attempts = $4 AND claimed_until IS NOT NULL`,
			c.Tenant, c.Webhook, c.ID, c.Attempt, string(o.State), o.Status, o.Problem, next, finished)
		return err
	})
	return store.Wrap(err, "note what came of delivery %s", c.ID)
}

// The outer condition is checked again after a wait for a replay of the delivery.
const forgetDeliveriesSQL = `
DELETE FROM webhook_deliveries WHERE state <> 'waiting' AND finished_at < $1 AND (tenant_id, webhook_id, id) IN (
    SELECT tenant_id, webhook_id, id FROM webhook_deliveries WHERE state <> 'waiting' AND finished_at < $1 ORDER BY finished_at LIMIT $2)`

// ForgetDeliveries implements webhook.Store.
func (s *WebhookStore) ForgetDeliveries(ctx context.Context, before time.Time, limit int) (int, error) {
	n := 0
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, forgetDeliveriesSQL, before, limit)
		n = int(tag.RowsAffected())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("forget deliveries to webhooks: %w", err)
	}
	return n, nil
}
