package wire

import (
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// StatusSubject is where every process that answers requests reports its state. Each answers a
// StatusRequest for itself.
const StatusSubject = "sluice.status"

// ModelService is the service name of a model server, which answers several subjects.
const ModelService = "sluice.model"

// StatusRequest asks all processes that answer requests for their state.
type StatusRequest struct{ Envelope }

// StatusReply is one of the answers to a StatusRequest.
type StatusReply struct {
	Envelope
	schema.ServiceState
}

// TenantEvents is the subject pattern of a tenant's events.
func TenantEvents(tenant uuid.UUID) string { return "sluice.events." + checkTenant(tenant) + ".>" }
