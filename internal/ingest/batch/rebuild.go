package batch

// Types that a rebuild and the store exchange.

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// ErrOver says that a generation is not being built any more: it is live, was
// cancelled or failed, or its collection was deleted.
var ErrOver = errors.New("the generation is not being built any more")

// StaleError says that a version was cut for a generation that is not live.
type StaleError struct {
	Version   uuid.UUID
	Cut, Live int
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("version %s was cut for generation %d; generation %d is live", e.Version, e.Cut, e.Live)
}

// RefusedError says why a generation can't be built.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// MissingVersion is a live version that a generation does not contain yet.
type MissingVersion struct {
	Version uuid.UUID
	Tokens  int64 // of its text, about
}

// Stored is a version's text as it was written.
type Stored struct {
	Version    uuid.UUID
	ExternalID string // of its document
	Title      string
	Sections   []schema.Section
}

// Written is a version as it was cut and written.
type Written struct {
	Version  uuid.UUID
	Title    string
	Sections []Section
}

// Recut is a version's text cut for another generation: its stored sections with
// new passages, and one vector per passage in their order.
type Recut struct {
	Version  uuid.UUID
	Sections []Section
	Vectors  Vectors
	Links    Links
}
