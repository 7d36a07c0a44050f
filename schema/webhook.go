package schema

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Kinds of events that webhooks hear of.
const (
	WebhookQuestionAnswered  = "question.answered"
	WebhookQuestionFailed    = "question.failed"
	WebhookQuestionCancelled = "question.cancelled"
	WebhookVersionReady      = "version.ready"
	WebhookVersionFailed     = "version.failed"
	WebhookPlanBetter        = "plan.better" // for a collection, by a choice that is repeated
)

// WebhookKinds are all kinds of events that webhooks hear of.
var WebhookKinds = []string{WebhookQuestionAnswered, WebhookQuestionFailed, WebhookQuestionCancelled, WebhookVersionReady, WebhookVersionFailed, WebhookPlanBetter}

// IncludeResult has a webhook's question.answered carry the answer.
const IncludeResult = "result"

// NewWebhook is a webhook to be.
type NewWebhook struct {
	URL         string
	Description string
	Kinds       []string
	Include     []string
}

// Webhook is an address that hears of a tenant's events. Its secret is not
// shown.
type Webhook struct {
	ID          uuid.UUID `json:"id"`
	URL         string    `json:"url"`
	Description string    `json:"description,omitempty"`
	Kinds       []string  `json:"kinds"`
	Include     []string  `json:"include,omitempty"`
	Groups      []string  `json:"groups,omitempty" doc:"Those of the key that made it: answers made from other labelled documents are withheld."`
	CreatedAt   time.Time `json:"created_at"`
	// OldSecretUntil is until when the secret before the last rotation signs, too.
	OldSecretUntil *time.Time `json:"old_secret_until,omitempty"`
}

// Includes reports whether the webhook asked for what.
func (w Webhook) Includes(what string) bool { return slices.Contains(w.Include, what) }

// DeliveryState is how far a delivery to a webhook is.
type DeliveryState string

// States of a delivery. A failed one is not tried again, unless it is replayed.
const (
	DeliveryWaiting   DeliveryState = "waiting"
	DeliveryDelivered DeliveryState = "delivered"
	DeliveryFailed    DeliveryState = "failed"
)

// WebhookDelivery is one event on its way to a webhook.
type WebhookDelivery struct {
	ID         uuid.UUID     `json:"id"` // the header webhook-id
	Webhook    uuid.UUID     `json:"webhook_id"`
	Kind       string        `json:"kind"`
	Subject    uuid.UUID     `json:"subject_id"` // the job, the version, or the choice of a plan
	State      DeliveryState `json:"state"`
	Attempts   int           `json:"attempts"`
	Status     int           `json:"status,omitempty"`  // of the last reply
	Problem    string        `json:"problem,omitempty"` // of the last attempt
	CreatedAt  time.Time     `json:"created_at"`
	NextAt     *time.Time    `json:"next_at,omitempty"` // while it waits
	FinishedAt *time.Time    `json:"finished_at,omitempty"`
}
