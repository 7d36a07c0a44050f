// Package follow keeps collections in step with places. What there is to do, and what was done, is
// in a store: a step does some of it, and may be lost and repeated at any time. What a step writes
// is guarded by its attempt, and counted where it is written, so that counts are those of one run
// without disturbance.
package follow

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/source/seal"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Store keeps sources and what is known of their items. Every method that takes a SourceSync is
// schema.ErrLostLease when somebody else works on the source now, or nobody is to.
type Store interface {
	// TakeSource takes a source over for a time, and begins a run where none is under way.
	TakeSource(ctx context.Context, tenant, source uuid.UUID, lease time.Duration) (SourceJob, error)
	// HoldSource reads the source, and keeps it for a time.
	HoldSource(ctx context.Context, in wire.SourceSync, lease time.Duration) (SourceJob, error)
	// SetPrincipals replaces the users and groups of the place by those that were listed after
	// pushed was read. When something was pushed since it is schema.ErrConflict.
	SetPrincipals(ctx context.Context, in wire.SourceSync, pushed int64, principals []source.Principal) error
	// ItemLabel is the label that permissions give an item's document.
	ItemLabel(ctx context.Context, tenant, source uuid.UUID, item string) (string, error)
	// StaleItems are items whose documents have another label than permissions give them, some at a
	// time.
	StaleItems(ctx context.Context, tenant, source uuid.UUID, limit int) ([]RelabelledItem, error)
	// LabelGone notes that the document of an item with another label than it should have is gone.
	LabelGone(ctx context.Context, tenant, source uuid.UUID, item string) error
	// NoteListing writes a page whose cursor was at. One that was noted already is
	// schema.ErrLostLease; when permissions were pushed since it was listed it is
	// schema.ErrConflict.
	NoteListing(ctx context.Context, in wire.SourceSync, at string, p ListedPage) error
	// RestartListing has everything listed from the beginning.
	RestartListing(ctx context.Context, in wire.SourceSync) error
	// PendingItems are items that something is to be done about, those that failed least first.
	PendingItems(ctx context.Context, in wire.SourceSync, limit int) ([]Item, error)
	// SettleItem notes what became of an item, once.
	SettleItem(ctx context.Context, in wire.SourceSync, o ItemOutcome) error
	// PostponeItems notes that items failed, and will be tried after others.
	PostponeItems(ctx context.Context, in wire.SourceSync, items []string) error
	// EndListing follows what is gone after a listing that is complete, and tells the next step:
	// ActivitySourceDelete, or empty, where the run is over or somebody is to be asked.
	EndListing(ctx context.Context, in wire.SourceSync) (next string, err error)
	// FinishRun ends a run that has nothing left to do.
	FinishRun(ctx context.Context, in wire.SourceSync) error
	// WaitSource has the source taken up again after a time.
	WaitSource(ctx context.Context, in wire.SourceSync, state schema.SourceState, problem string, after time.Duration) error
	// StopSource ends the run, and leaves the source until somebody has changed something.
	StopSource(ctx context.Context, in wire.SourceSync, state schema.SourceState, problem string) error
	// HeldItems are documents of a source that is removed, some at a time.
	HeldItems(ctx context.Context, in wire.SourceSync, limit int) ([]Item, error)
	// ForgetItems removes items of a source that is removed.
	ForgetItems(ctx context.Context, in wire.SourceSync, items []string) error
	// DropSource removes a source that has no documents any more, or keeps them.
	DropSource(ctx context.Context, in wire.SourceSync) error
	// SourceJob reads a source for a preview.
	SourceJob(ctx context.Context, tenant, source uuid.UUID) (SourceJob, error)
	// KnownItems are, of items by their ids, the versions that were fetched.
	KnownItems(ctx context.Context, tenant, source uuid.UUID, ids []string) (map[string]string, error)
}

// Documents takes documents in.
type Documents interface {
	Upload(ctx context.Context, p schema.Principal, collection uuid.UUID, uploads []schema.Upload) ([]schema.Uploaded, error)
	UpdateDocument(ctx context.Context, p schema.Principal, id uuid.UUID, c schema.DocumentChange) (schema.Document, error)
}

// Deleter deletes documents.
type Deleter interface {
	DeleteDocument(ctx context.Context, p schema.Principal, id uuid.UUID) error
}

// Phases of a run.
const (
	PhaseList   = "list"   // there are more pages
	PhaseFetch  = "fetch"  // the last page was listed
	PhaseDelete = "delete" // what is gone is deleted
)

// SourceJob is a source with the run that is under way.
type SourceJob struct {
	Tenant, ID, Collection   uuid.UUID
	Name, Driver             string
	Settings                 map[string]string
	Sealed                   []byte
	Include, Exclude, Labels []string
	MaxBytes                 int64
	State                    schema.SourceState
	KeepDocuments            bool
	Tries                    int
	Run                      uuid.UUID
	Attempt                  int
	Phase, Cursor            string
	Permissions              bool  // are followed
	PrincipalsListed         bool  // in this run
	Pushed                   int64 // changes of permissions, until now
}

// What is to be done about an item.
const (
	DoFetch    = "fetch"
	DoDescribe = "describe" // the document is to get the item's path, or the source's labels
	DoDelete   = "delete"
)

// Item is one that something is to be done about.
type Item struct {
	source.Item
	Fetched  string // the version that its document has; empty: none that is known
	Do       string
	Document *uuid.UUID
	Moved    bool
	Tries    int
}

// RelabelledItem is an item whose document has another label than permissions give it.
type RelabelledItem struct {
	Item, Label string
	Document    uuid.UUID
}

// ListedPage is what is noted of a listing.
type ListedPage struct {
	Items   []Listed
	Folders []source.AccessFolder
	Deleted []string
	Skipped []source.Skipped // that are no items
	Next    string
	Changes string
	Pushed  int64 // SourceJob.Pushed, from before the page was listed
}

// Listed is an item that was listed.
type Listed struct {
	source.Item
	Reason string // why it is not fetched; empty: it is
}

// What became of an item.
const (
	Fetched   = "fetched"
	Kept      = "kept" // the place says that it has not changed
	Skipped   = "skipped"
	Described = "described"
	Deleted   = "deleted"
)

// ItemOutcome is what became of an item.
type ItemOutcome struct {
	Item     string
	What     string
	Version  string
	Document uuid.UUID
	SHA256   []byte
	Bytes    int64
	// Reason of one that was skipped. It is tried again when its version changes, or, with Again,
	// in the next run.
	Reason string
	Again  bool
}

// Options of a Follower.
type Options struct {
	Drivers      map[string]source.Driver
	Keys         seal.Keys
	Roots        []string
	AllowPrivate bool
	MaxBytes     int64         // of an item
	Fetches      int           // at once, of one source
	Lease        time.Duration // how long a source stays with a worker that has gone silent
}

// Follower does the steps of synchronisations.
type Follower struct {
	store     Store
	documents Documents
	deleter   Deleter
	options   Options
}

// New makes a follower.
func New(s Store, d Documents, deleter Deleter, o Options) *Follower {
	return &Follower{store: s, documents: d, deleter: deleter, options: o}
}
