package batch

// Types that a run that parses documents again and the store exchange.

import (
	"errors"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// ErrReparseOver says that a run is done or was cancelled, or that its collection was deleted.
var ErrReparseOver = errors.New("the documents are not being parsed again any more")

// Reparsable is a document to parse again.
type Reparsable struct {
	Document uuid.UUID
	Bytes    int64
}

// Reparsed is a document whose live version is about to be parsed again.
type Reparsed struct {
	Source   // of the live version
	Document uuid.UUID
	Begun    int // how many parses of it this run began before that never ended
	// Newer is why its newest version failed, if that is not the live one; nil if the newest is
	// live.
	Newer *schema.Reason
}

// StoredVersion is a version's text as it was written, with everything that a parser finds.
type StoredVersion struct {
	Title    string
	Sections []schema.Section // without ids
}
