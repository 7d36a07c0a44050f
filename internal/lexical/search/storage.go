package search

import (
	"context"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
)

// Storage keeps the index. Package store implements it on Postgres.
type Storage interface {
	// LoadLexical reads what Load asks for, all in one snapshot: what was
	// committed before the call is in it. An unknown collection gives
	// schema.ErrNotFound.
	LoadLexical(ctx context.Context, l Load) (Loaded, error)
	// LexicalRevision begins to read a collection's revision: as long as that is
	// the same, all that LoadLexical would tell of its state is. It returns when
	// the question is on its way; wait, to be called once, gives the answer, which
	// counts whatever was committed before LexicalRevision was called.
	LexicalRevision(ctx context.Context, tenant, collection uuid.UUID) (wait func() (int64, error))
	// MatchLexical returns, for each of what is asked, the versions whose metadata satisfy
	// the condition, whoever may see them. A value that is no bound of a range gives
	// schema.ErrInvalid.
	MatchLexical(ctx context.Context, tenant, collection uuid.UUID, asked []Match) ([][]uuid.UUID, error)
}

// Load asks for the state of a collection's live generation and for what the
// caller lacks of it.
type Load struct {
	Tenant, Collection uuid.UUID
	// Terms whose pages are wanted of the segments that are not in Known.
	Terms []string
	// Live is what the caller knows of the list of segments; it is loaded when
	// it is another.
	Live ListMark
	// Known are segments whose header and directory the caller has.
	Known []uuid.UUID
	// Segments of more than Eager bytes are not loaded unless they are in
	// Wanted: others may be loading them just now.
	Eager  int64
	Wanted []uuid.UUID
	// Pages of segments in Known that the caller lacks.
	Pages []PageKey
	// Dead is what the caller knows of the dead entries; these are loaded when
	// they are others.
	Dead DeadFingerprint
	// Clusters asks for the clusters of sections: of all when the live
	// generation is not Epoch's, else of those put elsewhere after it.
	Clusters bool
	Epoch    EpochMark
}

// PageKey names a page.
type PageKey struct {
	Segment uuid.UUID
	Page    int
}

// ListMark tells one list of segments from another.
type ListMark struct {
	Generation int
	Count, XOR int64 // of the segments, and of hashes of their ids
}

// DeadFingerprint tells one set of dead entries from another.
type DeadFingerprint struct {
	Generation int
	Count, XOR int64 // of the entries, and of hashes of their ids
	Newest     int64 // the number of the newest death
}

// EpochMark names a state of a generation's clustering.
type EpochMark struct {
	Generation int
	Epoch      int64
}

// Loaded is the answer to a Load.
type Loaded struct {
	Generation int
	Revision   int64
	Language   string // BCP 47, of the live generation
	Mark       ListMark
	Live       []uuid.UUID // segments, by id, where Mark is not what was known
	// Headers of segments that were not known, with the pages of their
	// directories among Pages.
	Headers map[uuid.UUID][]byte
	Pages   map[PageKey][]byte
	Dead    DeadFingerprint
	// Entries are the dead ones where Dead is not what was known: all, or with After
	// those besides what was known.
	Entries []uuid.UUID
	After   bool
	Epoch   EpochMark
	// Changes are what is clustered otherwise than at Load.Epoch.
	Changes []lexical.ClusterChange
}
