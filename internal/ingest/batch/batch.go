// Package batch holds the types that ingestion and the store exchange: leases, sources, artifacts,
// and documents that are ready to be written. It has no behaviour beyond encoding artifacts.
package batch

import (
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Limits of one batch.
const (
	// MaxVersions is the maximum number of versions in a batch of the usual size.
	MaxVersions = 64
	// MaxBytes is about the most bytes in a batch of the usual size with several versions. A larger
	// document is a batch by itself.
	MaxBytes = 1 << 20
)

// MaxTarget is the maximum length of a link's target, in bytes. Links with longer ones are dropped.
const MaxTarget = 2048

// Lease says which process works on a version, and for how long unless it is extended.
type Lease struct {
	Holder string
	TTL    time.Duration
}

// Source is a version to parse.
type Source struct {
	wire.Attempt
	Name      string // the file's, else the document's external id
	Title     string // as given by the uploader; may be empty
	MediaType string // as given by the uploader; may be empty
	Language  string // of its collection, a BCP 47 tag
	SHA256    []byte
	Parsed    bool // this attempt already has its parsed artifact
}

// Blob is a file's bytes.
type Blob struct {
	Data    []byte
	Problem string // why they cannot be read, now or later; empty if they can
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
	Layout   []byte           `json:"layout,omitempty"` // of the section
	Passages []schema.Passage `json:"passages"`
}

// Recipe is what a collection's text is cut by.
type Recipe struct {
	Generation   int
	Segmentation schema.Segmentation
	// Later is the space of a collection of the second encoder, which encodes documents after they
	// are written; nil: they are encoded before.
	Later *Space
	// Language is the collection's. Kept is the space of its vectors, and KeptID its id; 0 means
	// that it has none yet.
	Language string
	Kept     Space
	KeptID   int
}

// Space is the vector space of an encoder.
type Space struct {
	Name      string `json:"name"`
	Dimension int    `json:"dimension"`
}

// Text is a version cut into sections and passages.
type Text struct {
	// Generation is the collection's live one when the text was cut; 0 means 1, from before there
	// were several. A version is written under this generation or not at all.
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

// Document is everything that is written for a version. Vectors has one row per passage, in the
// order of the sections and their passages.
type Document struct {
	wire.Attempt
	Text    Text
	Vectors Vectors
	Links   Links
}

// Cut is documents of a collection, and the recipe that they were cut by.
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

// Round asks for the next rows of the outbox: for the subjects after After, in order, at most
// PerSubject rows each, until about Limit rows or Subjects subjects are reached. If there are few
// subjects they share Limit, but a subject in Room gets no more rows than it has room for. Subjects
// in Skip and those that another relay has claimed are left out. The returned subjects belong to
// Lease's holder alone.
type Round struct {
	Lease      Lease
	After      string
	Skip       []string
	Room       map[string]int
	PerSubject int
	Limit      int
	Subjects   int
}

// Relayed is the result of a round: the ids of the rows that were published, and the subjects to
// release.
type Relayed struct {
	Holder   string
	Sent     []int64
	Subjects []string
}

// Taken is the rows that a round claimed. After is its last subject; it is empty when the round
// reached the end.
type Taken struct {
	Messages []Message
	Subjects []string
	After    string
}

// Backlog is a tenant that has had unfinished versions for some time.
type Backlog struct {
	Tenant uuid.UUID
	// Outbox is when its oldest message in the outbox was queued; zero if there is none.
	Outbox time.Time
}
