package wire

import (
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// LabelRequest asks a query worker to label a question: to ask the language model what it knows,
// and from which texts it answers right.
type LabelRequest struct {
	Envelope
	Principal  schema.Principal `json:"principal"`
	Collection uuid.UUID        `json:"collection"`
	Question   string           `json:"question"`
	Answers    []string         `json:"answers"` // the right ones
	Texts      int              `json:"texts,omitempty"`
	Calls      int              `json:"calls,omitempty"`
	Cost       float64          `json:"cost,omitempty"`
	Deadline   time.Time        `json:"deadline,omitzero"`
}

// TenantID implements OfTenant.
func (r LabelRequest) TenantID() uuid.UUID { return r.Principal.Tenant }

// LabelReply answers LabelRequest. If there is an error, the other fields are what was done before
// it.
type LabelReply struct {
	Envelope
	Error *schema.RemoteError `json:"error,omitempty"`
	schema.Labelled
}
