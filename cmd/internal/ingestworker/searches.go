package ingestworker

// Ingestion yields to searches on the same machine: it is notified of them, and pauses between its
// stages.

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/interceptor"

	"github.com/sluice-rag/sluice/internal/fairness"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/lifecycle/machine"
	"github.com/sluice-rag/sluice/schema/wire"
)

// searchTTL is how long after a notification a search counts as running. Query workers send
// notifications more often than that. While NATS is down there are no searches, because they are
// sent through it.
const searchTTL = 2 * time.Second

// subscribeToSearches returns the service that records notifications of searches.
func subscribeToSearches(nc *nats.Conn, searches *fairness.Foreground) lifecycle.Service {
	var sub *nats.Subscription
	return lifecycle.NewResource("subscription to searches", func(context.Context) (err error) {
		sub, err = nc.Subscribe(wire.SearchingSubject, func(m *nats.Msg) {
			if isLocal(m.Data) {
				searches.Record(time.Now())
			}
		})
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
}

// isLocal reports whether a notification of a search came from this machine. Messages of older
// query workers, which don't name their machine, count as from this one.
func isLocal(data []byte) bool {
	searching, err := wire.Decode[wire.Searching](data)
	return err != nil || searching.Machine == machine.ID()
}

// pausingOptions adds a pause after each stage while searches run.
type pausingOptions struct {
	interceptor.WorkerInterceptorBase
	searches *fairness.Foreground
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (p *pausingOptions) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &pausingStage{interceptor.ActivityInboundInterceptorBase{Next: next}, p.searches}
}

type pausingStage struct {
	interceptor.ActivityInboundInterceptorBase
	searches *fairness.Foreground
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (s *pausingStage) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	begin := time.Now()
	out, err := s.Next.ExecuteActivity(ctx, in)
	s.searches.Pause(ctx, time.Since(begin))
	return out, err
}
