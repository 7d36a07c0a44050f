package schema

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Kinds of events that are sent to webhooks.
const (
	WebhookQuestionAnswered  = "question.answered"
	WebhookQuestionFailed    = "question.failed"
	WebhookQuestionCancelled = "question.cancelled"
	WebhookVersionReady      = "version.ready"
	WebhookVersionFailed     = "version.failed"
	WebhookPlanBetter        = "plan.better" // for a collection, by a repeated choice
)

// WebhookKinds are all kinds of events that are sent to webhooks.
var WebhookKinds = []string{WebhookQuestionAnswered, WebhookQuestionFailed, WebhookQuestionCancelled, WebhookVersionReady, WebhookVersionFailed, WebhookPlanBetter}

// IncludeResult makes a webhook's question.answered events carry the answer.
const IncludeResult = "result"

// NewWebhook is a webhook to be created.
type NewWebhook struct {
	URL         string
	Description string
	Kinds       []string
	Include     []string
}

// Webhook is an address that events of a tenant are sent to. It does not include the secret.
type Webhook struct {
	ID          uuid.UUID `json:"id"`
	URL         string    `json:"url"`
	Description string    `json:"description,omitempty"`
	Kinds       []string  `json:"kinds"`
	Include     []string  `json:"include,omitempty"`
	Groups      []string  `json:"groups,omitempty" doc:"Those of the key that made it: answers made from other labelled documents are withheld."`
	CreatedAt   time.Time `json:"created_at"`
	// OldSecretUntil is how long the secret before the last rotation signs too.
	OldSecretUntil *time.Time `json:"old_secret_until,omitempty"`
}

// Includes reports whether the webhook asked for an extra such as IncludeResult.
func (w Webhook) Includes(kind string) bool { return slices.Contains(w.Include, kind) }

// DeliveryState is the state of a delivery to a webhook.
type DeliveryState string

// States of a delivery. A failed delivery is tried again only if it is replayed.
const (
	DeliveryWaiting   DeliveryState = "waiting"
	DeliveryDelivered DeliveryState = "delivered"
	DeliveryFailed    DeliveryState = "failed"
)

// WebhookDelivery is the delivery of one event to a webhook.
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
