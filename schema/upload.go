package schema

import (
	"io"

	"github.com/google/uuid"
)

// Upload is one document to take in.
type Upload struct {
	ExternalID string
	Title      string
	FileName   string // a hint for the parser, not part of the fingerprint
	MediaType  string // a hint; the content decides
	Content    io.Reader
	// SHA256 of the content (hex), when the sender knows it: other content is
	// refused.
	SHA256   string
	Labels   []string
	Metadata Metadata
}

// Uploaded tells what became of an Upload.
type Uploaded struct {
	ExternalID string
	Document   uuid.UUID
	Version    uuid.UUID // the new version, or the one that is this upload already
	State      State
	Unchanged  bool
	Reason     *Reason // when it failed at once (too large)
}

// Known is what a sender has of a document, to ask whether to upload it.
type Known struct {
	ExternalID  string
	Fingerprint string
}

// Comparison sorts the external ids of a Known list.
type Comparison struct {
	Changed   []string // to upload: new, changed, deleted or cancelled
	Unchanged []string
	Failed    []string // this very upload, and its processing failed
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

// Orders of documents: by when they came, by external id (its bytes), by the size
// or by the state of the newest version.
const (
	SortOldest   DocumentSort = "oldest"
	SortNewest   DocumentSort = "newest"
	SortName     DocumentSort = "name"
	SortLargest  DocumentSort = "largest"
	SortSmallest DocumentSort = "smallest"
	SortState    DocumentSort = "state"
)

// DocumentChange changes who may see a document and what filters find it; nil
// stays.
type DocumentChange struct {
	Labels   *[]string
	Metadata *Metadata
}
