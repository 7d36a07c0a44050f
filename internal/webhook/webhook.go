// Package webhook notifies tenants' own servers of events, by the Standard Webhooks scheme
// (https://www.standardwebhooks.com, specification 1.0.0): each delivery has a permanent id, the
// time, and a signature over both and the body.
//
// A delivery is a row that the event's own transaction writes; this package claims due rows, sends
// them, and records the outcome. If a process dies in between, another one sends the row again
// under the same id, so a receiver may get it twice and can tell.
//
// Other packages decide which events there are and how rows are stored.
package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// Claimed is a delivery that only this process may send until its claim ends.
type Claimed struct {
	Tenant  uuid.UUID
	Webhook uuid.UUID
	ID      uuid.UUID
	Attempt int       // from 1
	Since   time.Time // since when it is tried
}

// Room is how many deliveries may be claimed.
type Room struct {
	Limit int // in all
	// Unproven bounds those of webhooks that are not in Webhooks, or not proven.
	Unproven int
	// Webhooks have Each as their bound, and are Proven or not; any other may have one.
	Webhooks []uuid.UUID
	Each     []int
	Proven   []bool
}

// Delivery is what is sent, and where. One of Job, Version and Better is set.
type Delivery struct {
	Webhook schema.Webhook
	// Secrets sign it, newest first.
	Secrets [][]byte
	Kind    string
	At      time.Time // of the event
	Job     *Job
	Version *Version
	Better  *BetterPlan
}

// Job is the payload about an asynchronous question.
type Job struct {
	ID         uuid.UUID       `json:"job_id"`
	Collection uuid.UUID       `json:"collection_id"`
	State      schema.JobState `json:"state"`
	Reason     *schema.Reason  `json:"reason,omitempty"`
	Result     *schema.Answer  `json:"result,omitempty"`
}

// Version is the payload about a version of a document.
type Version struct {
	ID         uuid.UUID      `json:"version_id"`
	Document   uuid.UUID      `json:"document_id"`
	Collection uuid.UUID      `json:"collection_id"`
	State      schema.State   `json:"state"`
	Reason     *schema.Reason `json:"reason,omitempty"`
}

// BetterPlan is the payload about a plan that became better than a collection's own.
type BetterPlan struct {
	Choice     uuid.UUID `json:"choice_id"`
	Collection uuid.UUID `json:"collection_id"`
	Plan       string    `json:"plan"`
	Current    string    `json:"current_plan"`
}

// Outcome is the result of an attempt.
type Outcome struct {
	State   schema.DeliveryState
	Status  int       // of the reply; 0: there was no reply
	Problem string    // empty when it was delivered
	Next    time.Time // of the next attempt, if it waits
	At      time.Time
}

// Store keeps deliveries.
type Store interface {
	// Clock returns the time with which the times of deliveries are compared.
	Clock(ctx context.Context) (time.Time, error)
	// ClaimDeliveries claims deliveries that are due at now, within the room, until a time. For one
	// webhook, ended jobs come before versions, and the two are not mixed; tenants, and the
	// webhooks of a tenant, are served in turn.
	ClaimDeliveries(ctx context.Context, now, until time.Time, r Room) ([]Claimed, error)
	// Delivery reads what to send. The error is schema.ErrNotFound when the webhook, or the subject
	// of the delivery, no longer exists.
	Delivery(ctx context.Context, c Claimed, now time.Time) (Delivery, error)
	// SettleDelivery records the outcome of a claimed attempt. A delivery that another process has
	// claimed since, or that was replayed, is not changed.
	SettleDelivery(ctx context.Context, c Claimed, o Outcome) error
	// ForgetDeliveries removes up to limit deliveries that were finished before a time.
	ForgetDeliveries(ctx context.Context, before time.Time, limit int) (int, error)
}
