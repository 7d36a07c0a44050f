package api

import "github.com/sluice-rag/sluice/schema"

// NewWebhook creates a webhook.
type NewWebhook struct {
	URL         string   `json:"url" minLength:"1" maxLength:"2000" doc:"Where events are sent: https, or http. It must have a public address when something is sent."`
	Description string   `json:"description,omitempty" maxLength:"500"`
	Kinds       []string `json:"kinds,omitempty" maxItems:"6" enum:"question.answered,question.failed,question.cancelled,version.ready,version.failed,plan.better" doc:"What it hears of; the ends of jobs when absent."`
	Include     []string `json:"include,omitempty" maxItems:"1" enum:"result" doc:"With result, question.answered has the answer and its citations; else ids, state and a link."`
}

// WebhookSecret is the response to requests that create a secret. The secret is not shown again.
type WebhookSecret struct {
	schema.Webhook
	Secret string `json:"secret" doc:"whsec_ and base64: signs deliveries (Standard Webhooks)."`
}
