package schema

import (
	"io"

	"github.com/google/uuid"
)

// Upload is one document to be ingested.
type Upload struct {
	ExternalID string
	Title      string
	FileName   string // a hint for the parser, not part of the fingerprint
	MediaType  string // a hint; the content decides
	Content    io.Reader
	// SHA256 is the hash of the content (hex), if the sender knows it: other content is refused.
	SHA256   string
	Labels   []string
	Metadata Metadata
}

// Uploaded is the result of an Upload.
type Uploaded struct {
	ExternalID string
	Document   uuid.UUID
	Version    uuid.UUID // the new version, or the existing one with the same fingerprint
	State      State
	Unchanged  bool
	Reason     *Reason // if it failed at once (too large)
}

// Known identifies a sender's copy of a document, to ask whether it must be uploaded.
type Known struct {
	ExternalID  string
	Fingerprint string
}

// Comparison groups the external ids of a list of Known.
type Comparison struct {
	Changed   []string // to upload: new, changed, deleted or cancelled
	Unchanged []string
	Failed    []string // the same upload, and its processing failed
}

// DocumentQuery asks for one page of a collection's documents.
type DocumentQuery struct {
	State  State        // of the newest version; empty: any
	Prefix string       // of the external id
	Part   string       // of the external id, whatever the case of A to Z
	Label  string       // of the newest version
	Sort   DocumentSort // empty: the oldest first
	PageQuery
}

// DocumentSort is an order in which documents are listed.
type DocumentSort string

// Orders of documents: by the time when they were added, by external id (its bytes), or by the size
// or state of the newest version.
const (
	SortOldest   DocumentSort = "oldest"
	SortNewest   DocumentSort = "newest"
	SortName     DocumentSort = "name"
	SortLargest  DocumentSort = "largest"
	SortSmallest DocumentSort = "smallest"
	SortState    DocumentSort = "state"
)

// DocumentChange changes a document's labels and metadata; nil fields stay.
type DocumentChange struct {
	Labels   *[]string
	Metadata *Metadata
}
