package ingestworker

import (
	"context"
	"io"
	"sync/atomic"
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/objects"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
)

// counted counts the reads that fail.
type counted struct {
	store.Objects
	failed atomic.Int64
}

func (c *counted) Open(ctx context.Context, o store.Object, from int64) (io.ReadCloser, error) {
	r, err := c.Objects.Open(ctx, o, from)
	if err != nil {
		c.failed.Add(1)
	}
	return r, err
}

func TestS3ThatIsAwayIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	s3 := localtest.NewS3(t)
	s3.MakeBucket("documents")
	bucket, err := objects.New(objects.Options{Endpoint: "http://" + s3.Address, Bucket: "documents", Region: "us-east-1", AccessKey: s3.AccessKey, SecretKey: s3.SecretKey})
	w.ok(err)
	reads := &counted{Objects: bucket}
	db, err := store.Open(w.context(), w.url, store.Options{VectorURL: localtest.VectorURL(t, w.url), Objects: reads, NewInObjects: true})
	w.ok(err)
	t.Cleanup(db.Close)
	w.store = stores.Of(db)

	w.uploadAll(someDocuments(5))
	if n := w.count(`SELECT count(*) FROM blobs WHERE object IS NOT NULL`); n != 5 {
		t.Fatalf("%d objects: nothing is proved", n)
	}
	s3.Stop()
	w.start()
	waittest.Until(t, func() string {
		if reads.failed.Load() < int64(w.options.Tries)+2 { // more often than faults of the program are retried
			return "it was not tried often"
		}
		return ""
	})
	if got := w.states(); got[schema.StateFailed] != 0 || got[schema.StateReady] != 0 {
		t.Errorf("while S3 is away: %v", got)
	}
	s3.Start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 5})
	w.checkStored()
}
