package apiserver

import (
	"context"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/store/webhooks"
	"github.com/sluice-rag/sluice/internal/webhook"
	"github.com/sluice-rag/sluice/schema"
)

// webhookAPI generates secrets, and leaves everything else to the store.
type webhookAPI struct{ *webhooks.WebhookStore }

// CreateWebhook implements httpapi.Webhooks.
func (w webhookAPI) CreateWebhook(ctx context.Context, p schema.Principal, n schema.NewWebhook) (schema.Webhook, string, error) {
	secret, shown := webhook.NewSecret()
	created, err := w.WebhookStore.CreateWebhook(ctx, p, n, secret)
	return created, shown, err
}

// RotateWebhook implements httpapi.Webhooks.
func (w webhookAPI) RotateWebhook(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Webhook, string, error) {
	secret, shown := webhook.NewSecret()
	created, err := w.WebhookStore.RotateWebhook(ctx, p, id, secret)
	return created, shown, err
}
