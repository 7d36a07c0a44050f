package schema

import (
	"time"

	"github.com/google/uuid"
)

// Source is the configuration that keeps a collection in step with a folder or another system.
type Source struct {
	ID           uuid.UUID         `json:"id"`
	CollectionID uuid.UUID         `json:"collection_id"`
	Name         string            `json:"name"`
	Driver       string            `json:"driver"`
	Settings     map[string]string `json:"settings" doc:"Of the driver, but for secrets."`
	Secrets      []string          `json:"secrets" doc:"Names of the secret settings that it has. Their values are never shown."`
	Include      []string          `json:"include" doc:"Patterns of paths, of which an item matches one; all match when there are none."`
	Exclude      []string          `json:"exclude" doc:"Patterns of paths, of which an item matches none."`
	Labels       []string          `json:"labels" doc:"That its documents get."`
	MaxBytes     int64             `json:"max_bytes" doc:"Largest item; 0: what the worker allows."`
	MaxItems     int64             `json:"max_items" doc:"Most items; 0: any number."`
	MaxShorter   int               `json:"max_shorter" doc:"A complete listing shorter by so many per cent deletes nothing until somebody confirms it; 100: it never asks."`
	Every        int               `json:"every" doc:"Minutes between two runs; 0: it runs when somebody asks."`
	State        SourceState       `json:"state" enum:"waiting,running,retrying,limited,paused,asking,refused,invalid,removing"`
	Problem      string            `json:"problem,omitempty" doc:"Why it does not go on, and what helps."`
	ProblemSince *time.Time        `json:"problem_since,omitempty"`
	Tries        int               `json:"tries" doc:"How often the source's server failed since it last answered."`
	NextAt       *time.Time        `json:"next_at,omitempty" doc:"When it runs, or goes on; absent: when somebody has said what to do."`
	Items        int64             `json:"items" doc:"Items that the newest listings showed."`
	Documents    int64             `json:"documents" doc:"Documents that it brought and that are there."`
	Pending      int64             `json:"pending" doc:"Items that are still to be fetched, described or deleted."`
	Run          *SourceRun        `json:"run,omitempty" doc:"The newest run."`
	CreatedAt    time.Time         `json:"created_at"`
}

// SourceState is what a source is doing.
type SourceState string

// States of sources.
const (
	SourceWaiting  SourceState = "waiting"  // for the next run
	SourceRunning  SourceState = "running"  // a run is under way
	SourceRetrying SourceState = "retrying" // its server fails, and is tried again
	SourceLimited  SourceState = "limited"  // its server asked for fewer requests
	SourcePaused   SourceState = "paused"   // by somebody
	SourceAsking   SourceState = "asking"   // many items are gone; somebody has to confirm that their documents are to be deleted
	SourceRefused  SourceState = "refused"  // its server refuses the credentials
	SourceInvalid  SourceState = "invalid"  // a setting is wrong
	SourceRemoving SourceState = "removing" // it is being removed, with its documents
)

// SourceRun is one synchronisation of a source and its progress.
type SourceRun struct {
	ID         uuid.UUID  `json:"id"`
	State      string     `json:"state" enum:"running,done,cancelled,refused,invalid"`
	Whole      bool       `json:"whole" doc:"Everything was listed, not what changed alone."`
	Before     int64      `json:"before" doc:"Items that there were before."`
	Seen       int64      `json:"seen" doc:"Items that were listed."`
	Added      int64      `json:"added"`
	Changed    int64      `json:"changed"`
	Unchanged  int64      `json:"unchanged"`
	Moved      int64      `json:"moved" doc:"Items with the same content at another path."`
	Deleted    int64      `json:"deleted"`
	Skipped    int64      `json:"skipped" doc:"What was left out; the reasons are listed apart."`
	Fetched    int64      `json:"fetched" doc:"Items that were fetched."`
	Bytes      int64      `json:"bytes" doc:"Bytes that were fetched."`
	Problem    string     `json:"problem,omitempty"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// SourceItem is one file, page or message of a source.
type SourceItem struct {
	Item       string     `json:"item" doc:"Its id in the source."`
	Path       string     `json:"path"`
	URL        string     `json:"url,omitempty"`
	Size       int64      `json:"size" doc:"Bytes; -1 where the source doesn't say."`
	ModifiedAt *time.Time `json:"modified_at,omitempty"`
	Document   *uuid.UUID `json:"document,omitempty"`
	Pending    string     `json:"pending,omitempty" enum:"fetch,describe,delete" doc:"What is still to be done."`
	Reason     string     `json:"reason,omitempty" doc:"Why it is skipped."`
}

// SourceSkipped is an item that a run left out.
type SourceSkipped struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// SourceDriver is a kind of source.
type SourceDriver struct {
	Name    string        `json:"name"`
	Summary string        `json:"summary"`
	Fields  []SourceField `json:"fields"`
	Running bool          `json:"running" doc:"A source-worker that follows such places runs."`
}

// SourceField is one setting of a driver.
type SourceField struct {
	Name     string   `json:"name"`
	Summary  string   `json:"summary"`
	Required bool     `json:"required"`
	Secret   bool     `json:"secret" doc:"It is encrypted where it is kept, and is never shown."`
	Values   []string `json:"values,omitempty" doc:"Those allowed, where not every text is."`
}

// SourcePreview is what a run would find now, up to a limit.
type SourcePreview struct {
	Items   []PreviewItem   `json:"items"`
	Skipped []SourceSkipped `json:"skipped"`
	More    bool            `json:"more" doc:"There is more than is shown."`
}

// PreviewItem is an item of a preview.
type PreviewItem struct {
	Path       string     `json:"path"`
	URL        string     `json:"url,omitempty"`
	Size       int64      `json:"size"`
	ModifiedAt *time.Time `json:"modified_at,omitempty"`
	Would      string     `json:"would" enum:"add,fetch,keep" doc:"Be added; be fetched to see what changed; stay as it is."`
}

// NewSource is a source to be created, with its secrets encrypted.
type NewSource struct {
	ID           uuid.UUID
	CollectionID uuid.UUID
	Name, Driver string
	Paused       bool
	SourceSettings
}

// SourceSettings are the settings of a source that can be changed.
type SourceSettings struct {
	Settings     map[string]string
	Sealed       []byte   // nil: there are no secrets
	SecretFields []string // the names of the secret settings
	Include      []string
	Exclude      []string
	Labels       []string
	MaxBytes     int64
	MaxItems     int64
	MaxShorter   int
	Every        int
}
