// Package batch holds what ingestion and the store tell each other: leases,
// sources, artifacts, and documents that are ready to be written. It has no
// behaviour beyond encoding artifacts.
package batch

import (
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Limits of one batch.
const (
	// MaxVersions is the most versions in a batch of the usual size.
	MaxVersions = 64
	// MaxBytes is about the most bytes in a batch of the usual size and of several
	// versions. A larger document is a batch of its own.
	MaxBytes = 1 << 20
)

// MaxTarget is the longest target of a link that is kept, in bytes.
const MaxTarget = 2048

// Lease says who works on a version, and for how long unless it is extended.
type Lease struct {
	Holder string
	TTL    time.Duration
}

// Source is a version that is to be parsed.
type Source struct {
	wire.Attempt
	Name      string // of the file, else the document's external id
	Title     string // as given by the uploader, may be empty
	MediaType string // likewise
	Language  string // of its collection, a BCP 47 tag
	SHA256    []byte
	Parsed    bool // this attempt has its parsed artifact already
}

// Blob is a file's bytes.
type Blob struct {
	Data    []byte
	Problem string // why they cannot be read, today or later; else empty
}

// Stage names an artifact.
type Stage string

// StageParsed is the artifact that parsing leaves.
const StageParsed Stage = "parsed"

// Artifact is what a stage of an attempt leaves for the next.
type Artifact struct {
	wire.Attempt
	Data []byte
}

// Section is a section with the passages that tile it.
type Section struct {
	schema.Section
	Layout   []byte           `json:"layout,omitempty"` // the section's
	Passages []schema.Passage `json:"passages"`
}

// Recipe is by what a collection's text is cut.
type Recipe struct {
	Generation   int
	Segmentation schema.Segmentation
	// Later is the space of a collection of the second encoder, which encodes what comes after it
	// was written; nil: it is encoded before.
	Later *Space
	// Language is the collection's, and Kept the space of its vectors, with its id; 0: it has none
	// yet.
	Language string
	Kept     Space
	KeptID   int
}

// Space is where vectors are.
type Space struct {
	Name      string `json:"name"`
	Dimension int    `json:"dimension"`
}

// Text is a version cut into sections and passages.
type Text struct {
	// Generation is the collection's when the text was cut; 0 is 1, from before
	// there were others. A version is written under this one or not at all.
	Generation int       `json:"generation,omitempty"`
	Later      *Space    `json:"later,omitempty"` // as in Recipe
	MediaType  string    `json:"media_type"`
	Title      string    `json:"title,omitempty"`
	Pages      int       `json:"pages,omitempty"`
	Warnings   []string  `json:"warnings,omitempty"`
	Sections   []Section `json:"sections"`
}

// Passages counts the passages of all sections.
func (t Text) Passages() int {
	n := 0
	for _, s := range t.Sections {
		n += len(s.Passages)
	}
	return n
}

// Document is everything that is written for a version. Vectors holds one row
// per passage, in the order of the sections and their passages.
type Document struct {
	wire.Attempt
	Text    Text
	Vectors Vectors
	Links   Links
}

// Cut are documents of a collection, and what they were cut by.
type Cut struct {
	Collection uuid.UUID
	Recipe     Recipe
	Documents  []Document
}

// Failure marks a version as failed.
type Failure struct {
	wire.Attempt
	Reason schema.Reason
}

// Message is an outbox row on its way to NATS.
type Message struct {
	ID      int64
	Subject string
	MsgID   string
	Payload []byte
	Trace   string // traceparent, may be empty
	Queued  time.Time
}

// Round asks for the next rows of the outbox: at most PerSubject of each subject
// behind After, in order, without those in Skip and those that another relay has,
// until about Limit rows or Subjects are reached. The subjects are Lease's alone.
type Round struct {
	Lease      Lease
	After      string
	Skip       []string
	PerSubject int
	Limit      int
	Subjects   int
}

// Relayed is what came of a round: the ids of the rows that were published, and
// the subjects that are given back.
type Relayed struct {
	Holder   string
	Sent     []int64
	Subjects []string
}

// Taken are the rows of a round. After is its last subject, empty when the round
// reached the end.
type Taken struct {
	Messages []Message
	Subjects []string
	After    string
}

// Backlog is a tenant that has had unfinished versions for some time.
type Backlog struct {
	Tenant uuid.UUID
	// Outbox is when its oldest message that is still in the outbox was queued;
	// zero when none is.
	Outbox time.Time
}
