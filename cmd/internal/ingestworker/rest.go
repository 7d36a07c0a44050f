package ingestworker

// This file lets ingestion rest between its stages while somebody searches.

import (
	"context"
	"time"

	"go.temporal.io/sdk/interceptor"
)

// longestRest bounds the rest after a stage; it is well within a stage's heartbeats.
const longestRest = time.Second

// resting has each stage take a rest as long as it worked, when somebody searches: of the processors that one batch
// keeps busy, searches have half.
type resting struct {
	interceptor.WorkerInterceptorBase
	searches *searches
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (r *resting) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &restingStage{interceptor.ActivityInboundInterceptorBase{Next: next}, r.searches}
}

type restingStage struct {
	interceptor.ActivityInboundInterceptorBase
	searches *searches
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (s *restingStage) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	begin := time.Now()
	out, err := s.Next.ExecuteActivity(ctx, in)
	s.searches.rest(ctx, time.Since(begin))
	return out, err
}

// rest waits after work that took so long, if somebody searches.
func (s *searches) rest(ctx context.Context, took time.Duration) {
	if s.Left(time.Now()) == 0 {
		return
	}
	timer := time.NewTimer(min(took, longestRest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
