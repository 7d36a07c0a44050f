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
func (p *workerPool) run(task func()) {
	p.mu.Lock()
	if last := len(p.idle) - 1; last >= 0 {
		tasks := p.idle[last] // the goroutine that worked last
		p.idle = p.idle[:last]
		p.mu.Unlock()
		tasks <- task
		return
	}
	p.mu.Unlock()
	go p.work(task)
}

// work runs a task, and then those that it is sent while it is idle.
func (p *workerPool) work(task func()) {
	tasks := make(chan func(), 1)
	for task != nil {
		task()
		p.mu.Lock()
		keep := !p.stopped && len(p.idle) < maxIdleWorkers
		if keep {
			p.idle = append(p.idle, tasks)
		}
		p.mu.Unlock()
		if !keep {
			return
		}
		task = <-tasks
	}
}

// stop ends idle goroutines, and the others when their task is done.
func (p *workerPool) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	for _, tasks := range p.idle {
		tasks <- nil
	}
	p.idle = nil
}
