package schema

import (
	"time"

	"github.com/google/uuid"
)

// State is the state of a version.
type State string

// The states of a version. Ready, failed, superseded and cancelled are final, but a retry moves a
// failed version back to queued.
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

// Reason is why a version failed: a stable code and a sentence for people, with the remedy if there
// is one.
type Reason struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Reason codes of failed versions.
const (
	ReasonEmpty       = "empty"       // there is no text in it
	ReasonEncrypted   = "encrypted"   // needs a password
	ReasonBroken      = "broken"      // not a well-formed file of its format
	ReasonUnsupported = "unsupported" // a format that is not supported (binary)
	ReasonEncoding    = "encoding"    // text that cannot be decoded
	ReasonTooLarge    = "too_large"   // over a size, page or expansion limit
	ReasonTimeout     = "timeout"     // the parser exceeded its time limit
	ReasonCrashed     = "crashed"     // the parser crashed three times on it, or its worker twenty times
	ReasonRejected    = "rejected"    // the store refused its rows
	ReasonModel       = "model"       // the model server cannot process it
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
	Uncurated     int64           `json:"uncurated,omitempty"` // versions that were added or removed since clustering last ran
	ChangedAt     *time.Time      `json:"changed_at,omitempty" doc:"When a document came, went or changed its state last."`
	PlanProblem   string          `json:"plan_problem,omitempty" db:"-" doc:"Why the collection's plan cannot be run, so that the server's default is."`
}

// GenerationState is how far a generation of a collection is.
type GenerationState string

// States of generations. A collection has one live generation and at most one that is being built.
const (
	GenerationBuilding  GenerationState = "building"
	GenerationLive      GenerationState = "live"
	GenerationRetired   GenerationState = "retired" // another went live
	GenerationCancelled GenerationState = "cancelled"
	GenerationFailed    GenerationState = "failed"
)

// Encoder selects the encoder whose vectors a collection has.
type Encoder string

// Encoders. The second one's vectors are better and take longer (docs/second-encoder.md).
const (
	EncoderAuto   Encoder = "auto"   // the first encoder until the second one has encoded the collection in the background
	EncoderFirst  Encoder = "first"  // always the model pack's own encoder
	EncoderSecond Encoder = "second" // new documents are found only by their words until they are encoded
)

// CheckEncoder returns an error if there is no such encoder.
func CheckEncoder(field string, e Encoder) error {
	switch e {
	case EncoderAuto, EncoderFirst, EncoderSecond:
		return nil
	}
	return Invalid(field, "%.40q is none of %s, %s and %s", e, EncoderAuto, EncoderFirst, EncoderSecond)
}

// NewRebuild asks for a new generation of a collection. Empty fields stay as they are.
type NewRebuild struct {
	Language     string
	Segmentation Segmentation
	Encoder      Encoder
}

// Rebuild is the building of a new generation of a collection.
type Rebuild struct {
	CollectionID uuid.UUID       `json:"collection_id"`
	Generation   int             `json:"generation"`
	Language     string          `json:"language"`
	Segmentation Segmentation    `json:"segmentation"`
	Encoder      Encoder         `json:"encoder"`
	Space        string          `json:"space,omitempty"` // empty until something is encoded
	State        GenerationState `json:"state"`
	Reason       string          `json:"reason,omitempty"` // when it failed
	Versions     int             `json:"versions"`         // written so far, including those that were replaced or deleted since
	Total        int             `json:"total"`            // versions that are live now
	Passages     int64           `json:"passages"`
	CreatedAt    time.Time       `json:"created_at"`
	FinishedAt   *time.Time      `json:"finished_at,omitempty"` // when it went live, was cancelled or failed
}

// ReparseState is the state of a Reparse.
type ReparseState string

// States of a Reparse.
const (
	ReparseRunning   ReparseState = "running"
	ReparseDone      ReparseState = "done"
	ReparseCancelled ReparseState = "cancelled"
)

// Reparse is a run that parses a collection's documents again, from their stored bytes. Every
// document that was processed is in one of the four counts.
type Reparse struct {
	CollectionID uuid.UUID        `json:"collection_id"`
	Number       int              `json:"number"`
	State        ReparseState     `json:"state"`
	Total        int              `json:"total"`     // documents that were live when the run was requested
	Unchanged    int              `json:"unchanged"` // parsed to the stored text, and left as they are
	Changed      int              `json:"changed"`   // their new text is live
	Writing      int              `json:"writing"`   // parsed to another text, which is being written
	Failed       int              `json:"failed"`    // keep their old text
	Failures     []ReparseFailure `json:"failures"`  // by external id, at most MaxReparseFailures
	CreatedAt    time.Time        `json:"created_at"`
	FinishedAt   *time.Time       `json:"finished_at,omitempty"` // when it was done or cancelled
}

// MaxReparseFailures is the most failures that a Reparse lists.
const MaxReparseFailures = 1000

// ReparseFailure is a document that keeps its old text, and why.
type ReparseFailure struct {
	Document   uuid.UUID `json:"document_id"`
	ExternalID string    `json:"external_id"`
	Reason     Reason    `json:"reason"`
}

// Metadata is a document's metadata for filters: scalars (string, bool, whole or fractional number,
// RFC 3339 time as string) or lists of them, by key. Other values, such as nested objects, are
// stored but not indexed.
type Metadata map[string]any

// Document is a document as users see it: its live version and its newest one.
type Document struct {
	ID           uuid.UUID `json:"id"`
	CollectionID uuid.UUID `json:"collection_id"`
	ExternalID   string    `json:"external_id"`
	Title        string    `json:"title"`
	State        State     `json:"state"`            // of the newest version
	Reason       *Reason   `json:"reason,omitempty"` // when that failed
	Live         bool      `json:"live"`             // a version of it answers questions now
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
	// NearDuplicates are filled in only when a single document is requested.
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
