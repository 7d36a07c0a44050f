package wire

import (
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// StatusSubject is where everything that answers requests, in whatever process,
// tells how it is. All answer a StatusRequest, each for itself.
const StatusSubject = "sluice.status"

// ModelService is what a model server calls itself: it answers several subjects.
const ModelService = "sluice.model"

// StatusRequest asks all who answer requests how they are.
type StatusRequest struct{ Envelope }

// StatusReply is one of the answers to StatusRequest.
type StatusReply struct {
	Envelope
	schema.ServiceState
}

// TenantEvents is the subject pattern of a tenant's events.
func TenantEvents(tenant uuid.UUID) string { return "sluice.events." + checkTenant(tenant) + ".>" }
