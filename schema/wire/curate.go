package wire

import (
	"strconv"

	"github.com/google/uuid"
)

// Curation is the input of the CurateCollection workflow and of its activities.
type Curation struct {
	Tenant     uuid.UUID `json:"tenant"`
	Collection uuid.UUID `json:"collection"`
}

// CurateWorkflowID is the workflow id of a collection's curation: one at a time.
func CurateWorkflowID(collection uuid.UUID) string { return "curate-" + collection.String() }

// Rebuild is the input of the RebuildCollection workflow and of its activities.
type Rebuild struct {
	Tenant     uuid.UUID `json:"tenant"`
	Collection uuid.UUID `json:"collection"`
	Generation int       `json:"generation"` // that is being built
}

// RebuildWorkflowID is the workflow id of the building of a generation.
func RebuildWorkflowID(collection uuid.UUID, generation int) string {
	return "rebuild-" + collection.String() + "." + strconv.Itoa(generation)
}
