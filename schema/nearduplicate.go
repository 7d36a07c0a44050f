package schema

import (
	"time"

	"github.com/google/uuid"
)

// NewerBy is the rule that decided which of two documents is newer.
type NewerBy string

// Rules, in the order in which they are tried.
const (
	NewerByVersion NewerBy = "version" // the version numbers that they name
	NewerByDate    NewerBy = "date"    // the dates that they name
	NewerByUpload  NewerBy = "upload"  // when they were uploaded
)

// String returns the end of "newer by ..." for people.
func (b NewerBy) String() string {
	switch b {
	case NewerByVersion:
		return "its version number"
	case NewerByDate:
		return "its date"
	}
	return "its time of upload"
}

// NearDuplicate is another document of the collection whose text is nearly the same: usually
// another version of the text.
type NearDuplicate struct {
	ID         uuid.UUID `json:"id"`
	ExternalID string    `json:"external_id"`
	Title      string    `json:"title"`
	Similarity float64   `json:"similarity" doc:"Estimated Jaccard index of the texts' shingles, from 0 to 1."`
	Newer      bool      `json:"newer" doc:"It is newer than the document that was asked for."`
	By         NewerBy   `json:"by" enum:"version,date,upload" doc:"The rule that decided which is newer: the version numbers that the documents name, their dates, or the time of upload."`
	UploadedAt time.Time `json:"uploaded_at" doc:"When its live version was uploaded."`
}

// NearPassage is the passage of a near-duplicate document that corresponds to a candidate's
// passage.
type NearPassage struct {
	Document   string    `json:"document"` // external id
	DocumentID uuid.UUID `json:"document_id"`
	Span       Span      `json:"span"`
	Newer      bool      `json:"newer" doc:"Its document is newer than the candidate's."`
	By         NewerBy   `json:"by" enum:"version,date,upload"`
}
