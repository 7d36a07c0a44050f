package queryworker

import (
	"context"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/store/webhooks"
	"github.com/sluice-rag/sluice/internal/webhook"
	"github.com/sluice-rag/sluice/schema"
)

// sendWebhooks sends events to webhooks. It runs in this worker, which ends jobs and finds lost
// ones already, so that the API, which is reachable from outside, needs no outgoing connections.
// Any number of workers may send: each claims its deliveries.
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
