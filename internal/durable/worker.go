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
// second is too short for a machine that has no processor left: the task is then done again for
// nothing, and the goroutine it has given up stays.
const deadlockAfter = 30 * time.Second

// Worker makes a service of a Temporal worker. register tells it what it runs. Activities in hand
// get a share of the time of Stop, from 0 to 1, and are cancelled then; o.WorkerStopTimeout bounds
// how long their end is waited for.
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
