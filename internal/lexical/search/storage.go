package search

import (
	"context"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
)

// Storage stores the index. Package store/search implements it on Postgres.
type Storage interface {
	// LoadLexical reads what Load asks for in one snapshot, which includes all that was committed
	// before the call. It returns schema.ErrNotFound for an unknown collection.
	LoadLexical(ctx context.Context, l Load) (Loaded, error)
	// LexicalRevision starts to read a collection's revision; equal revisions mean that the state
	// which LoadLexical loads is unchanged. It returns when the request has been sent. wait, to be
	// called once, returns the revision, which covers all that was committed before LexicalRevision
	// was called.
	LexicalRevision(ctx context.Context, tenant, collection uuid.UUID) (wait func() (int64, error))
	// MatchLexical returns for each request the versions whose metadata satisfy the condition,
	// whoever may see them. It returns schema.ErrInvalid for a value that cannot be a bound of a
	// range.
	MatchLexical(ctx context.Context, tenant, collection uuid.UUID, queries []Match) ([][]uuid.UUID, error)
}

// Load is a request for the state of a collection's live generation, as far as the caller does not
// have it.
type Load struct {
	Tenant, Collection uuid.UUID
	// Terms whose pages are loaded for the segments that are not in Known.
	Terms []string
	// Live is the list of segments that the caller has. The list is loaded if it differs.
	Live ListMark
	// Known are the segments whose header and directory the caller has.
	Known []uuid.UUID
	// Segments larger than Eager bytes are loaded only if they are in Wanted, since another query
	// may be loading them.
	Eager  int64
	Wanted []uuid.UUID
	// Pages of segments in Known that the caller does not have.
	Pages []PageKey
	// Dead is the fingerprint of the dead entries that the caller has. They are loaded if it
	// differs.
	Dead DeadFingerprint
	// Clusters asks for the clusters of sections: all, if the live generation is not Epoch's, else
	// the changes after Epoch.
	Clusters bool
	Epoch    EpochMark
}

// PageKey identifies a page.
type PageKey struct {
	Segment uuid.UUID
	Page    int
}

// ListMark is a fingerprint of a list of segments.
type ListMark struct {
	Generation int
	Count, XOR int64 // of the segments, and of hashes of their ids
}

// DeadFingerprint is a fingerprint of a set of dead entries.
type DeadFingerprint struct {
	Generation int
	Count, XOR int64 // of the entries, and of hashes of their ids
	Newest     int64 // the number of the newest death
}

// EpochMark identifies a state of a generation's clustering.
type EpochMark struct {
	Generation int
	Epoch      int64
}

// Loaded is the reply to a Load.
type Loaded struct {
	Generation int
	Revision   int64
	Language   string // BCP 47, of the live generation
	Mark       ListMark
	Live       []uuid.UUID // segments by id, if Mark differs from Load.Live
	// Headers of the segments that were not known; Pages has the pages of their directories.
	Headers map[uuid.UUID][]byte
	Pages   map[PageKey][]byte
	Dead    DeadFingerprint
	// Entries are the dead entries, if Dead differs from Load.Dead: all of them, or with After
	// those that the caller does not have.
	Entries []uuid.UUID
	After   bool
	Epoch   EpochMark
	// Changes are the changes of the clustering since Load.Epoch.
	Changes []lexical.ClusterChange
}
