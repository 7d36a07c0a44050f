// Package webhook tells tenants' own servers of events, by the Standard
// Webhooks scheme (https://www.standardwebhooks.com, specification 1.0.0): each
// delivery has an id that stays, the time, and a signature of both and the body.
//
// A delivery is a row that the event's own transaction writes; this package
// takes rows that are due, sends them, and notes what came of it. A process that
// dies in between leaves the row to the next, under the same id, so a receiver
// may get one twice and can tell.
//
// Which events there are, and how rows are kept, is not this package's.
package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// Claimed is a delivery that this process alone may send until its claim ends.
type Claimed struct {
	Tenant  uuid.UUID
	Webhook uuid.UUID
	ID      uuid.UUID
	Attempt int       // from 1
	Since   time.Time // it is tried
}

// Room is how many deliveries may be claimed.
type Room struct {
	Limit int // in all
	// Unproven is how many of them may be of webhooks that are not among those that
	// follow, or not proven.
	Unproven int
	// Webhooks, how many Each may have, and whether it is Proven; any other may have
	// one.
	Webhooks []uuid.UUID
	Each     []int
	Proven   []bool
}

// Delivery is what is sent, and where. One of Job, Version and Better is set.
type Delivery struct {
	Webhook schema.Webhook
	// Secrets sign it, the newest first.
	Secrets [][]byte
	Kind    string
	At      time.Time // of the event
	Job     *Job
	Version *Version
	Better  *BetterPlan
}

// Job is what a delivery says of an asynchronous question.
type Job struct {
	ID         uuid.UUID       `json:"job_id"`
	Collection uuid.UUID       `json:"collection_id"`
	State      schema.JobState `json:"state"`
	Reason     *schema.Reason  `json:"reason,omitempty"`
	Result     *schema.Answer  `json:"result,omitempty"`
}

// Version is what a delivery says of a version of a document.
type Version struct {
	ID         uuid.UUID      `json:"version_id"`
	Document   uuid.UUID      `json:"document_id"`
	Collection uuid.UUID      `json:"collection_id"`
	State      schema.State   `json:"state"`
	Reason     *schema.Reason `json:"reason,omitempty"`
}

// BetterPlan is what a delivery says of a plan that became better than a collection's own.
type BetterPlan struct {
	Choice     uuid.UUID `json:"choice_id"`
	Collection uuid.UUID `json:"collection_id"`
	Plan       string    `json:"plan"`
	Current    string    `json:"current_plan"`
}

// Outcome is what came of an attempt.
type Outcome struct {
	State   schema.DeliveryState
	Status  int       // of the reply; 0: there was none
	Problem string    // empty when it was delivered
	Next    time.Time // of one that waits
	At      time.Time
}

// Store keeps deliveries.
type Store interface {
	// Clock is the time that the times of deliveries are compared with.
	Clock(ctx context.Context) (time.Time, error)
	// ClaimDeliveries takes deliveries that are due at now, as many as there is
	// room for, until a time. Of one webhook ends of jobs come before versions, and
	// the two are not mixed; tenants, and webhooks of a tenant, take turns.
	ClaimDeliveries(ctx context.Context, now, until time.Time, r Room) ([]Claimed, error)
	// Delivery reads what to send; schema.ErrNotFound when the webhook, or what
	// the delivery tells of, is gone.
	Delivery(ctx context.Context, c Claimed, now time.Time) (Delivery, error)
	// SettleDelivery notes what came of a claimed attempt. One that another
	// process has claimed since, or that was replayed, stays as it is.
	SettleDelivery(ctx context.Context, c Claimed, o Outcome) error
	// ForgetDeliveries removes up to limit that were over before a time.
	ForgetDeliveries(ctx context.Context, before time.Time, limit int) (int, error)
}
