package queryworker

import (
	"context"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/store/webhooks"
	"github.com/sluice-rag/sluice/internal/webhook"
	"github.com/sluice-rag/sluice/schema"
)

// sendWebhooks sends what webhooks are to hear. It is here because this worker
// ends jobs and finds what was lost already, and because the API, which the
// world reaches, then needs no way out. Any number of workers may send: a
// delivery is claimed.
func (w *worker) sendWebhooks() lifecycle.Service {
	var sender *webhook.Sender
	return lifecycle.NewLoop("webhooks", func(context.Context) error {
		allowed, err := schema.ParseRanges("SLUICE_WEBHOOK_ALLOW_PRIVATE", w.settings.WebhookAllowPrivate)
		if err != nil {
			return err
		}
		sender = webhook.New(webhooks.New(w.deps.Store), webhook.Options{Allow: allowed, PublicURL: w.settings.PublicURL})
		return nil
	}, func(fetch, work context.Context) error { return sender.Run(fetch, work) })
}
