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

// Curations is the input of the CurateCollections workflow and of its activity: collections of one
// or more tenants that are curated together.
type Curations struct {
	Collections []Curation `json:"collections"`
}

// CuratedMany is the result of one run of that activity.
type CuratedMany struct {
	// Did is how many of the collections were processed: the first ones.
	Did int `json:"did"`
	// Alone are those of them that need a curation of their own, because they are large or
	// something failed.
	Alone []Curation `json:"alone,omitempty"`
}

// CurateWorkflowID is the workflow id of a collection's curation: one at a time.
func CurateWorkflowID(collection uuid.UUID) string { return "curate-" + collection.String() }

// VectorsWorkflowID is the workflow id of WorkflowVectors for a collection: one at a time.
func VectorsWorkflowID(collection uuid.UUID) string { return "vectors-" + collection.String() }

// CurateManyWorkflowID is the workflow id of a curation of several collections.
func CurateManyWorkflowID(name string) string { return "curate-together-" + name }

// Rebuild is the input of the RebuildCollection workflow and of its activities.
type Rebuild struct {
	Tenant     uuid.UUID `json:"tenant"`
	Collection uuid.UUID `json:"collection"`
	Generation int       `json:"generation"` // the one that is being built
	// Second says that the second encoder makes the generation's vectors.
	Second bool `json:"second,omitempty"`
	// Clustered says that an earlier execution clustered the sections that existed then.
	Clustered bool `json:"clustered,omitempty"`
	// After is the document after which the next page of missing versions begins; zero: the first.
	After uuid.UUID `json:"after,omitzero"`
}

// Curated is the result of one step of a curation: ids and text stay in the store.
type Curated struct {
	// Did is how many items the step processed; the step defines what an item is.
	Did int `json:"did"`
	// More says that more work of this step can be done at once.
	More bool `json:"more,omitempty"`
}

// RebuildPart is the input of the activity that cuts and encodes a part of a collection's versions
// again.
type RebuildPart struct {
	Rebuild
	Versions []uuid.UUID `json:"versions"`
}

// RebuildParts is a page of the versions that are missing in a generation, in the order of their
// documents' ids, divided into parts. It is empty when none is missing.
type RebuildParts struct {
	Parts []RebuildPart `json:"parts,omitempty"`
	// After is the last document of the page; zero: it was the last page.
	After uuid.UUID `json:"after,omitzero"`
}

// Reparse is the input of the ReparseCollection workflow and of its activities.
type Reparse struct {
	Tenant     uuid.UUID `json:"tenant"`
	Collection uuid.UUID `json:"collection"`
	Number     int       `json:"number"` // of the reparse
}

// ReparsePart is the input of the activity that parses some documents again.
type ReparsePart struct {
	Reparse
	Documents []uuid.UUID `json:"documents"`
}

// ReparseParts are documents to be parsed again, divided into parts.
type ReparseParts struct {
	Parts []ReparsePart `json:"parts,omitempty"`
	// Wait says that the rest must wait, because too many documents are being written.
	Wait bool `json:"wait,omitempty"`
}

// ReparseWorkflowID is the workflow id of a reparse of a collection.
func ReparseWorkflowID(collection uuid.UUID, number int) string {
	return "reparse-" + collection.String() + "." + strconv.Itoa(number)
}

// RebuildWorkflowID is the workflow id of the rebuild that makes a generation.
func RebuildWorkflowID(collection uuid.UUID, generation int) string {
	return "rebuild-" + collection.String() + "." + strconv.Itoa(generation)
}
