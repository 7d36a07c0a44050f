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

// Curations is the input of the CurateCollections workflow and of its activity:
// collections, of one tenant or several, that are tended together.
type Curations struct {
	Collections []Curation `json:"collections"`
}

// CuratedMany is what a run of that activity did.
type CuratedMany struct {
	// Did is how many of the collections it has seen to, the first ones.
	Did int `json:"did"`
	// Alone are those of them that need a curation of their own: they are large, or
	// something failed.
	Alone []Curation `json:"alone,omitempty"`
}

// CurateWorkflowID is the workflow id of a collection's curation: one at a time.
func CurateWorkflowID(collection uuid.UUID) string { return "curate-" + collection.String() }

// VectorsWorkflowID is the workflow id of what tends a collection's vectors: one at a time.
func VectorsWorkflowID(collection uuid.UUID) string { return "vectors-" + collection.String() }

// CurateManyWorkflowID is the workflow id of a curation of several collections.
func CurateManyWorkflowID(name string) string { return "curate-together-" + name }

// Rebuild is the input of the RebuildCollection workflow and of its activities.
type Rebuild struct {
	Tenant     uuid.UUID `json:"tenant"`
	Collection uuid.UUID `json:"collection"`
	Generation int       `json:"generation"` // that is being built
	// Second says that the second encoder makes its vectors.
	Second bool `json:"second,omitempty"`
	// Clustered says that an execution before this one clustered what there was.
	Clustered bool `json:"clustered,omitempty"`
}

// Curated is what one step of a curation did: ids and text stay in the store.
type Curated struct {
	// Did is how many things it did; of what depends on the step.
	Did int `json:"did"`
	// More says that the step left work that can be done at once.
	More bool `json:"more,omitempty"`
}

// RebuildPart is the input of the activity that cuts and encodes a part of a
// collection's versions anew.
type RebuildPart struct {
	Rebuild
	Versions []uuid.UUID `json:"versions"`
}

// RebuildParts is a page of the versions that a generation lacks, in the order
// of their ids, divided into parts. It is empty when no version is lacking.
type RebuildParts struct {
	Parts []RebuildPart `json:"parts,omitempty"`
}

// Reparse is the input of the ReparseCollection workflow and of its activities.
type Reparse struct {
	Tenant     uuid.UUID `json:"tenant"`
	Collection uuid.UUID `json:"collection"`
	Number     int       `json:"number"` // of the run
}

// ReparsePart is the input of the activity that parses some documents again.
type ReparsePart struct {
	Reparse
	Documents []uuid.UUID `json:"documents"`
}

// ReparseParts are documents that are to be parsed again, divided into parts.
type ReparseParts struct {
	Parts []ReparsePart `json:"parts,omitempty"`
	// Wait says that so many documents are being written that others have to wait.
	Wait bool `json:"wait,omitempty"`
}

// ReparseWorkflowID is the workflow id of a run that parses a collection's documents again.
func ReparseWorkflowID(collection uuid.UUID, number int) string {
	return "reparse-" + collection.String() + "." + strconv.Itoa(number)
}

// RebuildWorkflowID is the workflow id of the building of a generation.
func RebuildWorkflowID(collection uuid.UUID, generation int) string {
	return "rebuild-" + collection.String() + "." + strconv.Itoa(generation)
}
