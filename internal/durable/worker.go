package durable

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/sluice-rag/sluice/internal/lifecycle"
)

// deadlockAfter is how long a workflow may compute before its task fails as a deadlock. The SDK's
// default of a second is too short on an overloaded machine: the task is then repeated for nothing,
// and its abandoned goroutine stays.
const deadlockAfter = 30 * time.Second

// Worker returns a service that runs a Temporal worker. register registers its workflows and
// activities. Running activities get a share, from 0 to 1, of the time of Stop before they are
// cancelled; o.WorkerStopTimeout bounds how long Stop waits for them to end.
func Worker(name string, c client.Client, queue string, o worker.Options, share float64, register func(worker.Worker)) lifecycle.Service {
	return lifecycle.NewFunc(name, func(ctx context.Context) (lifecycle.Run, error) {
		work, cancel := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan struct{})
		var once sync.Once
		var failure error
		end := func(err error) {
			once.Do(func() {
				failure = err
				close(done)
			})
		}
		o.BackgroundActivityContext = work
		o.DeadlockDetectionTimeout = deadlockAfter
		o.OnFatalError = func(err error) { end(fmt.Errorf("temporal worker: %w", err)) }
		w := worker.New(c, queue, o)
		register(w)
		if err := w.Start(); err != nil {
			cancel()
			return lifecycle.Run{}, fmt.Errorf("poll task queue %s: %w", queue, err)
		}
		return lifecycle.Run{
			Done: done,
			Err: func() error {
				select {
				case <-done:
					return failure
				default:
					return nil
				}
			},
			Stop: func(ctx context.Context) error {
				defer end(nil)
				defer cancel()
				inTime, giveUp := lifecycle.Share(ctx, share)
				defer giveUp()
				stopped := make(chan struct{})
				go func() {
					w.Stop()
					close(stopped)
				}()
				select {
				case <-stopped:
					return nil
				case <-inTime.Done():
					cancel()
				}
				<-stopped
				if ctx.Err() != nil {
					return fmt.Errorf("cut short: %w", context.Cause(ctx))
				}
				return nil
			},
		}, nil
	})
}
