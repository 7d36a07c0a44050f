package inference

// This file has requests handled by goroutines that stay for the next one. A request needs more
// stack than a new goroutine has: growing it took a fourteenth of the server's time for small
// requests.

import "sync"

// maxIdleWorkers is how many goroutines stay at most.
const maxIdleWorkers = 256

// workerPool runs tasks, each at once. The zero value is ready.
type workerPool struct {
	mu      sync.Mutex
	idle    []chan func()
	stopped bool
}

// run has a goroutine run a task, one that is idle if there is one.
func (c *workerPool) run(task func()) {
	c.mu.Lock()
	if last := len(c.idle) - 1; last >= 0 {
		tasks := c.idle[last] // the one whose stack was used last
		c.idle = c.idle[:last]
		c.mu.Unlock()
		tasks <- task
		return
	}
	c.mu.Unlock()
	go c.work(task)
}

// work runs a task, and those that follow.
func (c *workerPool) work(task func()) {
	tasks := make(chan func(), 1)
	for task != nil {
		task()
		c.mu.Lock()
		stays := !c.stopped && len(c.idle) < maxIdleWorkers
		if stays {
			c.idle = append(c.idle, tasks)
		}
		c.mu.Unlock()
		if !stays {
			return
		}
		task = <-tasks
	}
}

// stop lets those that are idle go, and those that work when they have done.
func (c *workerPool) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	for _, tasks := range c.idle {
		tasks <- nil
	}
	c.idle = nil
}
