package wire

import (
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// SourcePreviewSubject is the subject of SourcePreviewRequest.
const SourcePreviewSubject = "sluice.source.preview"

// SourceGroup is the queue group of source workers.
const SourceGroup = "source-workers"

// SourcePreviewRequest asks a source worker what a run of a source would fetch.
type SourcePreviewRequest struct {
	Envelope
	Principal schema.Principal `json:"principal"`
	Source    uuid.UUID        `json:"source"`
	Limit     int              `json:"limit"`
	Deadline  time.Time        `json:"deadline,omitzero"`
}

// TenantID implements OfTenant.
func (r SourcePreviewRequest) TenantID() uuid.UUID { return r.Principal.Tenant }

// SourcePreviewReply answers SourcePreviewRequest.
type SourcePreviewReply struct {
	Envelope
	Error *schema.RemoteError `json:"error,omitempty"`
	schema.SourcePreview
}

// Names in Temporal for following sources.
const (
	// WorkflowSyncSource takes a SourceSync and follows the source until there is nothing to do.
	WorkflowSyncSource = "SyncSource"

	// The steps of SyncSource take the SourceSync, do some of it, and return a SourceStep.
	ActivitySourceBegin  = "source-begin"  // takes over the source, and starts a run if none is in progress
	ActivitySourceFollow = "source-follow" // lists pages, and fetches what is new or changed
	ActivitySourceDelete = "source-delete" // deletes the documents of items that are gone
	ActivitySourceRemove = "source-remove" // removes the source
)

// SourceSync is the input of the workflow and its steps. All other data is in the store.
type SourceSync struct {
	Tenant uuid.UUID `json:"tenant"`
	Source uuid.UUID `json:"source"`
	// Run and Attempt are those that Begin returned. A step of another attempt writes nothing.
	Run     uuid.UUID `json:"run,omitzero"`
	Attempt int       `json:"attempt,omitempty"`
	// Next is the step with which an execution continues an earlier one whose history grew long;
	// empty: Begin.
	Next string `json:"next,omitempty"`
}

// SourceStep is the result of a step.
type SourceStep struct {
	Run     uuid.UUID `json:"run,omitzero"`
	Attempt int       `json:"attempt,omitempty"`
	// Next is the step that follows; empty: none for now.
	Next string `json:"next,omitempty"`
}

// SourceWorkflowID is the workflow id of a source.
func SourceWorkflowID(source uuid.UUID) string { return "source-" + source.String() }
