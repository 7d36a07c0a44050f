package wire

import (
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// IngestMessage queues one attempt at a version.
type IngestMessage struct {
	Envelope
	Tenant     uuid.UUID `json:"tenant"`
	Collection uuid.UUID `json:"collection"`
	Document   uuid.UUID `json:"document"`
	Version    uuid.UUID `json:"version"`
	Attempt    int       `json:"attempt"`
	Bytes      int64     `json:"bytes"`
	// Trace is the W3C traceparent of the request that queued it.
	Trace string `json:"trace,omitempty"`
}

// Attempt names one attempt at a version. It fences all writes for the attempt: a write under an
// older attempt has no effect.
type Attempt struct {
	Version uuid.UUID `json:"version"`
	Attempt int       `json:"attempt"`
}

// IngestVersions is the input of the workflow of that name: the versions of a
// batch, of any number of collections, of one tenant or several.
type IngestVersions struct {
	// Parts are the versions by collection, in any order. Each collection has one part.
	Parts []IngestBatch `json:"parts"`
	// Links are the traceparents of the requests that queued the versions.
	Links []string `json:"links,omitempty"`
}

// Versions counts the versions of all parts.
func (v IngestVersions) Versions() int {
	n := 0
	for _, p := range v.Parts {
		n += len(p.Items)
	}
	return n
}

// IngestBatch is a batch of versions of one collection: a part of IngestVersions, and the input of
// the workflow IngestBatch, which older builds started.
type IngestBatch struct {
	Tenant     uuid.UUID `json:"tenant"`
	Collection uuid.UUID `json:"collection"`
	Items      []Attempt `json:"items"`
	// Links are the traceparents of the requests that queued the items. Those of a part are in
	// IngestVersions.Links.
	Links []string `json:"links,omitempty"`
}

// Outcome is the result of a stage for one version.
type Outcome struct {
	Version uuid.UUID      `json:"version"`
	Reason  *schema.Reason `json:"reason,omitempty"` // nil: go on
	Lost    bool           `json:"lost,omitempty"`   // another attempt owns it now
}

// BatchResult is the result of IngestVersions and IngestBatch.
type BatchResult struct {
	Ready  int `json:"ready"`
	Failed int `json:"failed"`
	Lost   int `json:"lost"`
}

// Event reports a state change.
type Event struct {
	Envelope
	ID         uuid.UUID      `json:"id"`
	Kind       string         `json:"kind"`
	Tenant     uuid.UUID      `json:"tenant"`
	Collection uuid.UUID      `json:"collection"`
	Document   uuid.UUID      `json:"document"`
	Version    uuid.UUID      `json:"version"`
	ExternalID string         `json:"external_id,omitempty"`
	State      schema.State   `json:"state"`
	Reason     *schema.Reason `json:"reason,omitempty"`
	At         time.Time      `json:"at"`
}
