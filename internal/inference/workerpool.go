package inference

// This file handles requests in goroutines that are reused. A request needs more stack than a new
// goroutine has: growing it took a fourteenth of the server's time for small requests.

import "sync"

// maxIdleWorkers is the most goroutines that wait for a task.
const maxIdleWorkers = 256

// workerPool runs tasks, each immediately in a goroutine of its own. The zero value is ready to
// use.
type workerPool struct {
	mu      sync.Mutex
	idle    []chan func()
	stopped bool
}

// run runs a task in an idle goroutine, or in a new one if none is idle.
func (c *workerPool) run(task func()) {
	c.mu.Lock()
	if last := len(c.idle) - 1; last >= 0 {
		tasks := c.idle[last] // the goroutine that worked last
		c.idle = c.idle[:last]
		c.mu.Unlock()
		tasks <- task
		return
	}
	c.mu.Unlock()
	go c.work(task)
}

// work runs a task, and then those that it is sent while it is idle.
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

// stop ends idle goroutines, and the others when their task is done.
func (c *workerPool) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	for _, tasks := range c.idle {
		tasks <- nil
	}
	c.idle = nil
}
