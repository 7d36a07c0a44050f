package ingestworker

// This file hears of searches, so that ingestion leaves them room.

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema/wire"
)

// searchedFor is how long after a search somebody counts as searching. Query workers tell of searches more often
// than that.
const searchedFor = 2 * time.Second

// searches knows when somebody searched last. While NATS is away nobody does: searches travel through it.
type searches struct {
	lifecycle.Service
	last atomic.Int64 // in nanoseconds since 1970
}

func newSearches(nc *nats.Conn) *searches {
	s := &searches{}
	var sub *nats.Subscription
	s.Service = lifecycle.NewResource("word of searches", func(ctx context.Context) (err error) {
		sub, err = nc.Subscribe(wire.SearchingSubject, func(*nats.Msg) { s.last.Store(time.Now().UnixNano()) })
		if err != nil {
			return fmt.Errorf("subscribe to %s: %w", wire.SearchingSubject, err)
		}
		return nil
	}, func(context.Context) error {
		if nc.IsClosed() {
			return nil
		}
		return sub.Unsubscribe()
	})
	return s
}

// Left implements ingest.Searches.
func (s *searches) Left(now time.Time) time.Duration {
	return max(0, searchedFor-now.Sub(time.Unix(0, s.last.Load())))
}
