package schema

import (
	"time"

	"github.com/google/uuid"
)

// State is the state of a version.
type State string

// The states of a version. Ready, failed, superseded and cancelled are ends;
// a retry takes a failed version back to queued.
const (
	StateReceived   State = "received"
	StateQueued     State = "queued"
	StateProcessing State = "processing"
	StateReady      State = "ready"
	StateFailed     State = "failed"
	StateSuperseded State = "superseded"
	StateCancelled  State = "cancelled"
)

// States lists every state in the order a version may pass through them.
var States = []State{StateReceived, StateQueued, StateProcessing, StateReady, StateFailed, StateSuperseded, StateCancelled}

// Final reports whether no worker will move a version out of s by itself.
func (s State) Final() bool {
	switch s {
	case StateReady, StateFailed, StateSuperseded, StateCancelled:
		return true
	}
	return false
}

// Reason is why a version failed: a stable code and a sentence for people that
// says what is wrong and, where there is one, the remedy.
type Reason struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Reason codes of failed versions.
const (
	ReasonEmpty       = "empty"       // no text in it
	ReasonEncrypted   = "encrypted"   // needs a password
	ReasonBroken      = "broken"      // not a well-formed file of its format
	ReasonUnsupported = "unsupported" // a format we do not read (binary)
	ReasonEncoding    = "encoding"    // text that cannot be decoded
	ReasonTooLarge    = "too_large"   // over a size, page or expansion limit
	ReasonTimeout     = "timeout"     // the parser ran past its time
	ReasonCrashed     = "crashed"     // the parser died three times on it, or its worker twenty times
	ReasonRejected    = "rejected"    // the store refused its rows
	ReasonModel       = "model"       // the model server cannot take it
	ReasonNoText      = "no_text"     // pages without text (a scan)
)

// Collection is a tenant's set of documents under one recipe.
type Collection struct {
	ID           uuid.UUID    `json:"id"`
	Name         string       `json:"name"`
	Description  string       `json:"description,omitempty"`
	Language     string       `json:"language"`     // BCP 47, "en" by default
	Segmentation Segmentation `json:"segmentation"` // complete
	Plan         string       `json:"plan,omitempty" doc:"Runs when a search or a question names none; absent: the server's default."`
	Space        string       `json:"space"` // embedding space, empty until the first version is ready
	Generation   int          `json:"generation"`
	// ClusterTokens is the most tokens that the sections of a cluster have together.
	ClusterTokens int             `json:"cluster_tokens"`
	CreatedAt     time.Time       `json:"created_at"`
	Counts        map[State]int64 `json:"counts,omitempty"` // documents by the state of their newest version
	Bytes         int64           `json:"bytes,omitempty"`
	Passages      int64           `json:"passages,omitempty"`
	Uncurated     int64           `json:"uncurated,omitempty"` // versions that are searchable, or gone, and that clustering has not come to
	ChangedAt     *time.Time      `json:"changed_at,omitempty" doc:"When a document came, went or changed its state last."`
	PlanProblem   string          `json:"plan_problem,omitempty" db:"-" doc:"Why the collection's plan cannot be run, so that the server's default is."`
}

// GenerationState is how far a generation of a collection is.
type GenerationState string

// States of generations. A collection has one live generation and at most one
// that is being built beside it.
const (
	GenerationBuilding  GenerationState = "building"
	GenerationLive      GenerationState = "live"
	GenerationRetired   GenerationState = "retired" // another went live
	GenerationCancelled GenerationState = "cancelled"
	GenerationFailed    GenerationState = "failed"
)

// Encoder is whose vectors a collection has.
type Encoder string

// Encoders. The second one's vectors are better and take longer (docs/second-encoder.md).
const (
	EncoderAuto   Encoder = "auto"   // the first one's until the second has encoded the collection in the background
	EncoderFirst  Encoder = "first"  // the model pack's own, for good
	EncoderSecond Encoder = "second" // what comes is found by its words until it is encoded
)

// CheckEncoder says whether there is such an encoder.
func CheckEncoder(field string, e Encoder) error {
	switch e {
	case EncoderAuto, EncoderFirst, EncoderSecond:
		return nil
	}
	return Invalid(field, "%.40q is none of %s, %s and %s", e, EncoderAuto, EncoderFirst, EncoderSecond)
}

// NewRebuild asks for a new generation of a collection. What is empty stays as
// it is.
type NewRebuild struct {
	Language     string
	Segmentation Segmentation
	Encoder      Encoder
}

// Rebuild is the making of a generation beside the live one.
type Rebuild struct {
	CollectionID uuid.UUID       `json:"collection_id"`
	Generation   int             `json:"generation"`
	Language     string          `json:"language"`
	Segmentation Segmentation    `json:"segmentation"`
	Encoder      Encoder         `json:"encoder"`
	Space        string          `json:"space,omitempty"` // empty until something is encoded
	State        GenerationState `json:"state"`
	Reason       string          `json:"reason,omitempty"` // when it failed
	Versions     int             `json:"versions"`         // written so far; one that was replaced or deleted since counts too
	Total        int             `json:"total"`            // versions that are live now
	Passages     int64           `json:"passages"`
	CreatedAt    time.Time       `json:"created_at"`
	FinishedAt   *time.Time      `json:"finished_at,omitempty"` // when it went live, was cancelled or failed
}

// ReparseState is how far a run is that parses a collection's documents again.
type ReparseState string

// States of such runs.
const (
	ReparseRunning   ReparseState = "running"
	ReparseDone      ReparseState = "done"
	ReparseCancelled ReparseState = "cancelled"
)

// Reparse is a run that parses a collection's documents again, from their bytes that are stored.
// Every document that was dealt with is in one of the four counts.
type Reparse struct {
	CollectionID uuid.UUID        `json:"collection_id"`
	Number       int              `json:"number"`
	State        ReparseState     `json:"state"`
	Total        int              `json:"total"`     // documents that were live when it was asked for
	Unchanged    int              `json:"unchanged"` // parsed to what is stored, and left alone
	Changed      int              `json:"changed"`   // their new text is live
	Writing      int              `json:"writing"`   // parsed to something else, which is on its way
	Failed       int              `json:"failed"`    // keep the text that they had
	Failures     []ReparseFailure `json:"failures"`  // by external id, at most MaxReparseFailures of them
	CreatedAt    time.Time        `json:"created_at"`
	FinishedAt   *time.Time       `json:"finished_at,omitempty"` // when it was done or cancelled
}

// MaxReparseFailures is how many failures a Reparse names.
const MaxReparseFailures = 1000

// ReparseFailure is a document that keeps its text, and why.
type ReparseFailure struct {
	Document   uuid.UUID `json:"document_id"`
	ExternalID string    `json:"external_id"`
	Reason     Reason    `json:"reason"`
}

// Metadata is a document's filterable metadata: scalars (string, bool, whole
// or fractional number, RFC 3339 time as string) or lists of them, by key.
// What cannot be filtered on (nested objects) is kept, not indexed.
type Metadata map[string]any

// Document is a document as users see it: its live version and its newest one.
type Document struct {
	ID           uuid.UUID `json:"id"`
	CollectionID uuid.UUID `json:"collection_id"`
	ExternalID   string    `json:"external_id"`
	Title        string    `json:"title"`
	State        State     `json:"state"`            // of the newest version
	Reason       *Reason   `json:"reason,omitempty"` // when that failed
	Live         bool      `json:"live"`             // some version answers questions now
	MediaType    string    `json:"media_type"`
	Bytes        int64     `json:"bytes"`
	SHA256       string    `json:"sha256"` // hex, of the newest version's bytes
	Version      int       `json:"version"`
	Attempt      int       `json:"attempt"`
	Sections     int       `json:"sections"`
	Passages     int       `json:"passages"`
	Labels       []string  `json:"labels,omitempty"`
	Metadata     Metadata  `json:"metadata,omitempty"`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
	// NearDuplicates are given where one document is asked for.
	NearDuplicates []NearDuplicate `json:"near_duplicates,omitzero" doc:"Documents of the collection whose text is nearly the same, the most similar first, 20 at most. Only where one document is asked for; absent where it was not compared."`
	NotCompared    string          `json:"not_compared,omitempty" doc:"Why the document was not compared with others."`
}

// Version is one content of a document.
type Version struct {
	ID           uuid.UUID  `json:"id"`
	DocumentID   uuid.UUID  `json:"document_id"`
	CollectionID uuid.UUID  `json:"collection_id"`
	Number       int        `json:"number"`
	State        State      `json:"state"`
	Reason       *Reason    `json:"reason,omitempty"`
	Attempt      int        `json:"attempt"`
	MediaType    string     `json:"media_type"`
	Bytes        int64      `json:"bytes"`
	SHA256       string     `json:"sha256"`
	CreatedAt    time.Time  `json:"created_at"`
	ReadyAt      *time.Time `json:"ready_at,omitempty"`
}
