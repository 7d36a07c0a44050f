// Package corpus keeps what is derived from documents: claims of queued versions, what ingestion
// writes (sections, passages, vectors, links), the segments of the lexical index, generations, and
// what curation and purge do to them. Every write of ingestion checks the version's attempt, and
// leaves a version alone that another attempt owns.
package corpus

import (
	"sync"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/blobs"
)

// CorpusStore keeps what is derived from the tenants' documents.
type CorpusStore struct {
	db        *store.Store
	bytes     *blobs.BlobStore
	noVectors sync.Once // for a log line, written once, that partitions are not removed
	failed    failedChecks
}

// New returns the CorpusStore of a database.
func New(db *store.Store) *CorpusStore { return &CorpusStore{db: db, bytes: blobs.New(db)} }
