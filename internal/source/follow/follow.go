// Package follow keeps collections in step with sources. The work to do and the work done are in a
// store: each step does some of it, and may be lost and repeated at any time. The writes of a step
// are fenced by its attempt, and counted where they are written, so that the counts of a run are
// the same with and without failures.
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

// Store stores sources and the state of their items. Every method that takes a SourceSync returns
// schema.ErrLostLease when another worker holds the source now, or nobody should.
type Store interface {
	// AcquireSource takes the lease of a source, and begins a run if none is under way.
	AcquireSource(ctx context.Context, tenant, source uuid.UUID, lease time.Duration) (SourceJob, error)
	// RenewSource reads the source, and renews its lease.
	RenewSource(ctx context.Context, in wire.SourceSync, lease time.Duration) (SourceJob, error)
	// SetPrincipals replaces the users and groups of the source by those that were listed after
	// pushed was read. If permissions were pushed since then, it returns schema.ErrConflict.
	SetPrincipals(ctx context.Context, in wire.SourceSync, pushed int64, principals []source.Principal) error
	// ItemLabel returns the label that permissions give an item's document.
	ItemLabel(ctx context.Context, tenant, source uuid.UUID, item string) (string, error)
	// StaleItems returns up to limit items whose documents have another label than permissions give
	// them.
	StaleItems(ctx context.Context, tenant, source uuid.UUID, limit int) ([]RelabelledItem, error)
	// MarkDocumentDeleted records that the document of such an item no longer exists, unless the
	// item has got another label since it was read.
	MarkDocumentDeleted(ctx context.Context, tenant, source uuid.UUID, item RelabelledItem) error
	// SaveListing stores a page, whose cursor was at. It returns schema.ErrLostLease if the page
	// was stored already, and schema.ErrConflict if permissions were pushed since it was listed.
	SaveListing(ctx context.Context, in wire.SourceSync, at string, p ListedPage) error
	// RestartListing makes the run list everything from the beginning.
	RestartListing(ctx context.Context, in wire.SourceSync) error
	// PendingItems returns items that need something done, those that failed least often first.
	PendingItems(ctx context.Context, in wire.SourceSync, limit int) ([]Item, error)
	// RecordOutcome records the outcome of an item, once.
	RecordOutcome(ctx context.Context, in wire.SourceSync, o ItemOutcome) error
	// PostponeItems records that items failed, so that they are tried after others.
	PostponeItems(ctx context.Context, in wire.SourceSync, items []string) error
	// EndListing handles the items that a complete listing no longer has, and returns the next
	// step: ActivitySourceDelete, ActivitySourceFollow if permissions were pushed meanwhile, or ""
	// if the run is over or somebody has to confirm the deletions.
	EndListing(ctx context.Context, in wire.SourceSync) (next string, err error)
	// FinishRun ends a run that has nothing left to do. It does not end one if permissions were
	// pushed meanwhile, and documents wait for their labels.
	FinishRun(ctx context.Context, in wire.SourceSync) (ended bool, err error)
	// DelaySource pauses the source; it is taken up again after a time.
	DelaySource(ctx context.Context, in wire.SourceSync, state schema.SourceState, problem string, after time.Duration) error
	// StopSource ends the run. The source stays stopped until somebody has changed something.
	StopSource(ctx context.Context, in wire.SourceSync, state schema.SourceState, problem string) error
	// RemainingItems returns up to limit items, with documents, of a source that is being removed.
	RemainingItems(ctx context.Context, in wire.SourceSync, limit int) ([]Item, error)
	// ForgetItems removes items of a source that is being removed.
	ForgetItems(ctx context.Context, in wire.SourceSync, items []string) error
	// DropSource removes a source that has no documents any more, or whose documents are kept.
	DropSource(ctx context.Context, in wire.SourceSync) error
	// SourceJob reads a source for a preview.
	SourceJob(ctx context.Context, tenant, source uuid.UUID) (SourceJob, error)
	// KnownItems returns the fetched versions of items, by item id.
	KnownItems(ctx context.Context, tenant, source uuid.UUID, ids []string) (map[string]string, error)
}

// Documents uploads and updates documents.
type Documents interface {
	Upload(ctx context.Context, p schema.Principal, collection uuid.UUID, uploads []schema.Upload) ([]schema.Uploaded, error)
	UpdateDocument(ctx context.Context, p schema.Principal, id uuid.UUID, c schema.DocumentChange) (schema.Document, error)
}

// Deleter deletes documents.
type Deleter interface {
	DeleteDocument(ctx context.Context, p schema.Principal, id uuid.UUID) error
	DocumentNamed(ctx context.Context, p schema.Principal, collection uuid.UUID, externalID string) (schema.Document, error)
}

// Phases of a run.
const (
	PhaseList   = "list"   // there are more pages
	PhaseFetch  = "fetch"  // the last page was listed
	PhaseDelete = "delete" // documents of deleted items are deleted
)

// SourceJob is a source with its current run.
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
	Permissions              bool  // whether permissions are followed
	PrincipalsListed         bool  // whether the principals were listed in this run
	Pushed                   int64 // counts the changes of permissions that were pushed
}

// What an item needs.
const (
	ActionFetch    = "fetch"
	ActionDescribe = "describe" // the document's path or labels have to be updated
	ActionDelete   = "delete"
)

// Item is an item that needs something done.
type Item struct {
	source.Item
	Fetched  string // version of its document's content; empty: unknown
	Action   string
	Document *uuid.UUID
	Moved    bool
	Tries    int
}

// RelabelledItem is an item whose document has another label than permissions give it.
type RelabelledItem struct {
	Item, Given, Label string // Given is the label that the document has
	Document           uuid.UUID
}

// ListedPage is the part of a listing that is stored.
type ListedPage struct {
	Items   []Listed
	Folders []source.AccessFolder
	Deleted []string
	Skipped []source.Skipped // entries that are no items
	Next    string
	Changes string
	Pushed  int64 // SourceJob.Pushed, from before the page was listed
}

// Listed is an item of a listing.
type Listed struct {
	source.Item
	Reason string // why it is not fetched; empty: it is fetched
}

// Outcomes of an item.
const (
	Fetched   = "fetched"
	Kept      = "kept" // the source says that it has not changed
	Skipped   = "skipped"
	Described = "described"
	Deleted   = "deleted"
)

// ItemOutcome is the outcome of an item.
type ItemOutcome struct {
	Item     string
	Outcome  string
	Version  string
	Document uuid.UUID
	SHA256   []byte
	Bytes    int64
	// Reason is why the item was skipped. It is tried again when its version changes or, with
	// Retry, in the next run.
	Reason string
	Retry  bool
}

// Options are the settings of a Follower.
type Options struct {
	Drivers      map[string]source.Driver
	Keys         seal.Keys
	Roots        []string
	AllowPrivate bool
	MaxBytes     int64         // of an item
	Fetches      int           // simultaneous fetches of one source
	Lease        time.Duration // how long a source stays with a worker that has gone silent
}

// Follower implements the steps of synchronisations.
type Follower struct {
	store     Store
	documents Documents
	deleter   Deleter
	options   Options
}

// New returns a Follower.
func New(s Store, d Documents, deleter Deleter, o Options) *Follower {
	return &Follower{store: s, documents: d, deleter: deleter, options: o}
}
