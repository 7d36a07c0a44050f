package lexical

import "github.com/google/uuid"

// Built is a new segment, ready to be stored: pages are numbered from 0 in
// their order.
type Built struct {
	ID        uuid.UUID
	Header    []byte
	Pages     []BuiltPage
	Documents int // entries
	Passages  int
	Bytes     int64 // of header and pages
}

// BuiltPage is a page with its first and its last term; both are empty in pages
// of the directory.
type BuiltPage struct {
	First, Last string
	Data        []byte
}

// Build makes a segment of documents. Terms must not be empty or begin with a
// NUL byte, which is where labels are.
func Build(id uuid.UUID, docs []Document) (Built, error) { return Built{}, errUnfinished }
