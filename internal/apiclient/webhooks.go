package apiclient

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func webhookPath(id uuid.UUID) string { return "/v1/webhooks/" + id.String() }

// Webhooks lists the tenant's webhooks.
func (c *Client) Webhooks(ctx context.Context) iter.Seq2[schema.Webhook, error] {
	return pages[schema.Webhook](ctx, c, "/v1/webhooks", nil)
}

// CreateWebhook makes a webhook, to which events are sent, and returns its secret.
func (c *Client) CreateWebhook(ctx context.Context, n api.NewWebhook) (api.WebhookSecret, error) {
	return post[api.WebhookSecret](ctx, c, "/v1/webhooks", n)
}

// RotateWebhook makes a new secret for a webhook.
func (c *Client) RotateWebhook(ctx context.Context, id uuid.UUID) (api.WebhookSecret, error) {
	return post[api.WebhookSecret](ctx, c, webhookPath(id)+"/rotate", struct{}{})
}

// DeleteWebhook deletes a webhook.
func (c *Client) DeleteWebhook(ctx context.Context, id uuid.UUID) error {
	return c.json(ctx, http.MethodDelete, webhookPath(id), nil, nil, nil)
}

// WebhookDeliveries lists past and pending deliveries of a webhook; an empty state selects all.
func (c *Client) WebhookDeliveries(ctx context.Context, id uuid.UUID, state schema.DeliveryState) iter.Seq2[schema.WebhookDelivery, error] {
	query := url.Values{}
	if state != "" {
		query.Set("state", string(state))
	}
	return pages[schema.WebhookDelivery](ctx, c, webhookPath(id)+"/deliveries", query)
}

// ReplayDelivery sends a delivery again.
func (c *Client) ReplayDelivery(ctx context.Context, webhook, id uuid.UUID) (schema.WebhookDelivery, error) {
	return post[schema.WebhookDelivery](ctx, c, webhookPath(webhook)+"/deliveries/"+id.String()+"/replay", struct{}{})
}
