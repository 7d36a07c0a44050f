package inference

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestWorkerPoolRunsTasksAtOnce: tasks that wait for each other all run, more of them than there
// are idle workers, and then again on the idle workers.
func TestWorkerPoolRunsTasksAtOnce(t *testing.T) {
	var c workerPool
	defer c.stop()
	for range 3 {
		const tasks = maxIdleWorkers + 50
		var all, met sync.WaitGroup
		var ran atomic.Int64
		met.Add(tasks)
		for range tasks {
			all.Add(1)
			c.run(func() {
				defer all.Done()
				met.Done()
				met.Wait()
				ran.Add(1)
			})
		}
		all.Wait()
		if ran.Load() != tasks {
			t.Fatalf("%d of %d tasks ran", ran.Load(), tasks)
		}
	}
}

// TestWorkerPoolStops: running tasks finish, and no goroutine stays. TestMain reports one
// that does.
func TestWorkerPoolStops(t *testing.T) {
	var c workerPool
	var all sync.WaitGroup
	held := make(chan struct{})
	for i := range 8 {
		all.Add(1)
		c.run(func() {
			defer all.Done()
			if i%2 == 0 {
				<-held
			}
		})
	}
	c.stop()
	close(held)
	all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) != 0 {
		t.Errorf("%d stay", len(c.idle))
	}
}
