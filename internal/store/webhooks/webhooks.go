// Package webhooks keeps webhooks and deliveries to them. Events become deliveries in the
// transaction of the change that they announce (store.Outbox); package webhook sends them.
package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// WebhookStore keeps the tenants' webhooks and their deliveries. It implements
// webhook.Store.
type WebhookStore struct{ db *store.Store }

// New returns the WebhookStore of a database.
func New(db *store.Store) *WebhookStore { return &WebhookStore{db} }

const (
	// maxWebhooks bounds the webhooks of a tenant: every event costs a delivery for each.
	maxWebhooks = 20
	// keepSecret is how long a secret still signs after its rotation.
	keepSecret = 24 * time.Hour

	webhookColumns = `id, url, description, kinds, include, groups, created_at, CASE WHEN old_until > now() THEN old_until END`
)

func scanWebhook(row pgx.CollectableRow) (schema.Webhook, error) {
	var w schema.Webhook
	err := row.Scan(&w.ID, &w.URL, &w.Description, &w.Kinds, &w.Include, &w.Groups, &w.CreatedAt, &w.OldSecretUntil)
	return w, err
}

// CreateWebhook stores a webhook of p's tenant, with its signing secret. The webhook reads answers
// with the groups of p, except those that permissions of sources add.
func (s *WebhookStore) CreateWebhook(ctx context.Context, p schema.Principal, n schema.NewWebhook, secret []byte) (schema.Webhook, error) {
	w := schema.Webhook{ID: schema.NewID(), URL: n.URL, Description: n.Description, Kinds: n.Kinds, Include: n.Include, Groups: p.OwnGroups()}
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('webhooks ' || $1::text, 0))`, p.Tenant); err != nil {
			return err
		}
		var have int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM webhooks WHERE tenant_id = $1`, p.Tenant).Scan(&have); err != nil {
			return err
		}
		if have >= maxWebhooks {
			return fmt.Errorf("a tenant may have at most %d webhooks: %w", maxWebhooks, schema.ErrQuota)
		}
		if err := tx.QueryRow(ctx, `
			INSERT INTO webhooks (tenant_id, id, url, description, kinds, include, secret, groups) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING created_at`,
			p.Tenant, w.ID, w.URL, w.Description, w.Kinds, store.EmptyNotNull(w.Include), secret, w.Groups).Scan(&w.CreatedAt); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "webhook.create", w.ID.String(), map[string]any{"url": w.URL, "kinds": w.Kinds})
	})
	return w, store.Wrap(err, "create a webhook")
}

// Webhooks lists a page of the tenant's webhooks, newest first.
func (s *WebhookStore) Webhooks(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Webhook, string, error) {
	pg, err := store.PageOf(q)
	if err != nil {
		return nil, "", err
	}
	var out []schema.Webhook
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+webhookColumns+` FROM webhooks WHERE tenant_id = $1 AND ($2::uuid IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
			p.Tenant, pg.After, pg.Limit+1)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scanWebhook)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list webhooks: %w", err)
	}
	out, next := store.Cut(pg, out, func(w schema.Webhook) uuid.UUID { return w.ID })
	return out, next, nil
}

// RotateWebhook sets a new secret of a webhook; for keepSecret the previous one also signs.
func (s *WebhookStore) RotateWebhook(ctx context.Context, p schema.Principal, id uuid.UUID, secret []byte) (schema.Webhook, error) {
	var w schema.Webhook
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			UPDATE webhooks SET old_secret = secret, old_until = now() + $4::interval, secret = $3 WHERE tenant_id = $1 AND id = $2
			RETURNING `+webhookColumns, p.Tenant, id, secret, keepSecret)
		if err != nil {
			return err
		}
		if w, err = pgx.CollectExactlyOneRow(rows, scanWebhook); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "webhook.rotate", id.String(), nil)
	})
	return w, store.Wrap(err, "rotate the secret of webhook %s", id)
}

// DeleteWebhook removes a webhook and its pending deliveries.
func (s *WebhookStore) DeleteWebhook(ctx context.Context, p schema.Principal, id uuid.UUID) error {
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM webhooks WHERE tenant_id = $1 AND id = $2`, p.Tenant, id)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return schema.ErrNotFound
		}
		if _, err := tx.Exec(ctx, `DELETE FROM webhook_deliveries WHERE tenant_id = $1 AND webhook_id = $2`, p.Tenant, id); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "webhook.delete", id.String(), nil)
	})
	return store.Wrap(err, "delete webhook %s", id)
}

const deliveryColumns = `id, webhook_id, kind, subject_id, state, attempts, coalesce(status, 0), coalesce(problem, ''), created_at,
       CASE WHEN state = 'waiting' THEN next_at END, finished_at`

func scanDelivery(row pgx.CollectableRow) (schema.WebhookDelivery, error) {
	var d schema.WebhookDelivery
	err := row.Scan(&d.ID, &d.Webhook, &d.Kind, &d.Subject, &d.State, &d.Attempts, &d.Status, &d.Problem, &d.CreatedAt, &d.NextAt, &d.FinishedAt)
	return d, err
}

// WebhookDeliveries lists a page of the deliveries to a webhook, newest first; an empty state means
// any.
func (s *WebhookStore) WebhookDeliveries(ctx context.Context, p schema.Principal, webhook uuid.UUID, state schema.DeliveryState, q schema.PageQuery) ([]schema.WebhookDelivery, string, error) {
	pg, err := store.PageOf(q)
	if err != nil {
		return nil, "", err
	}
	var out []schema.WebhookDelivery
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		var exists bool
		if err := tx.QueryRow(ctx, `SELECT true FROM webhooks WHERE tenant_id = $1 AND id = $2`, p.Tenant, webhook).Scan(&exists); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT `+deliveryColumns+` FROM webhook_deliveries
			WHERE tenant_id = $1 AND webhook_id = $2 AND ($3 = '' OR state = $3) AND ($4::uuid IS NULL OR id < $4) ORDER BY id DESC LIMIT $5`,
			p.Tenant, webhook, string(state), pg.After, pg.Limit+1)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scanDelivery)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list the deliveries of webhook %s: %w", webhook, err)
	}
	out, next := store.Cut(pg, out, func(d schema.WebhookDelivery) uuid.UUID { return d.ID })
	return out, next, nil
}

// ReplayDelivery sends a finished delivery again, under the same id.
func (s *WebhookStore) ReplayDelivery(ctx context.Context, p schema.Principal, webhook, id uuid.UUID) (schema.WebhookDelivery, error) {
	var d schema.WebhookDelivery
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		var state schema.DeliveryState
		if err := tx.QueryRow(ctx, `
			SELECT d.state FROM webhook_deliveries d JOIN webhooks w ON w.tenant_id = d.tenant_id AND w.id = d.webhook_id
			WHERE d.tenant_id = $1 AND d.webhook_id = $2 AND d.id = $3 FOR UPDATE OF d`, p.Tenant, webhook, id).Scan(&state); err != nil {
			return err
		}
		if state == schema.DeliveryWaiting {
			return fmt.Errorf("it waits to be sent already: %w", schema.ErrConflict)
		}
		rows, err := tx.Query(ctx, `
			UPDATE webhook_deliveries SET state = 'waiting', attempts = 0, since = now(), next_at = now(), claimed_until = NULL, status = NULL, problem = NULL, finished_at = NULL
			WHERE tenant_id = $1 AND webhook_id = $2 AND id = $3 RETURNING `+deliveryColumns, p.Tenant, webhook, id)
		if err != nil {
			return err
		}
		if d, err = pgx.CollectExactlyOneRow(rows, scanDelivery); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "webhook.replay", id.String(), map[string]any{"webhook": webhook})
	})
	return d, store.Wrap(err, "replay delivery %s", id)
}
