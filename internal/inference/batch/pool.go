package batch

// This file decides which queue's batch runs next: the workers are shared by all graphs of a server, so that an
// interactive request of one goes before bulk requests of another.

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// interactiveWait is how long an interactive item waits for company: somebody waits for it.
const interactiveWait = time.Millisecond

// urgentFor is how long after an interactive request the lanes behind it leave a worker, and its core, to the next one.
const urgentFor = time.Second

// lanes are those of requests, with one between them for interactive requests that yield. The first that has any goes first.
var lanes = [...]wire.Lane{wire.LaneInteractive, "interactive, yielding", wire.LaneBulk}

const yielding = 1 // of lanes

// Pool runs the batches of its queues, a bounded number at once.
type Pool struct {
	workers int
	ctx     context.Context
	cancel  context.CancelFunc
	wake    chan struct{}  // something was added, or a worker's lane has room
	free    chan struct{}  // one token per idle worker
	owned   sync.WaitGroup // the dispatcher and the running batches

	mu       sync.Mutex // guards what follows and the queues' entries
	closed   bool
	queues   []source
	accounts [len(lanes)]accounts
	running  [len(lanes)]int // batches
	urgent   time.Time       // when an interactive request last came
}

// source is a queue of whatever type. The pool's mutex is held during calls.
type source interface {
	// first gives the rank of a lane's first item that is still wanted, and how long until a batch with it is due;
	// found is false when there is none.
	first(lane int, now time.Time) (first rank, wait time.Duration, found bool)
	// oldest gives the arrival of a lane's oldest item; found is false when there is none.
	oldest(lane int) (arrived time.Time, found bool)
	// take takes the batch with the first item out of the lane, to be run.
	take(lane int, now time.Time) (run func())
	// fail ends what waits.
	fail(err error)
	// state is what waits, and what was done.
	state() schema.GraphState
}

// NewPool starts a pool that runs so many batches at once.
func NewPool(workers int) *Pool {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pool{workers: workers, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1), free: make(chan struct{}, workers)}
	for range workers {
		p.free <- struct{}{}
	}
	p.owned.Go(p.dispatch)
	return p
}

// Close cancels what runs, fails what waits with schema.ErrUnavailable, and returns when nothing runs any more.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.owned.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queues {
		q.fail(errClosed)
	}
}

func (p *Pool) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// dispatch waits for an idle worker, then for a batch, and lets the worker run it.
func (p *Pool) dispatch() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.free:
		case <-p.ctx.Done():
			return
		}
		for {
			run, lane, wait := p.next(time.Now())
			if run != nil {
				p.owned.Go(func() {
					run()
					p.ran(lane)
					p.free <- struct{}{}
				})
				break
			}
			timer.Reset(wait)
			select {
			case <-p.wake:
			case <-timer.C:
			case <-p.ctx.Done():
				return
			}
		}
	}
}

// next takes the batch that is due and has the first item of the first lane that has any. Without one it says how long
// it will be until one is, if nothing comes.
func (p *Pool) next(now time.Time) (run func(), lane int, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	later := time.Hour
	order, impatient := [...]int{0, 1, 2}, p.impatient(now)
	if impatient {
		order = [...]int{yielding, 0, 2}
	}
	for _, lane := range order {
		var due source
		var first rank
		wait, waiting := time.Hour, false
		for _, q := range p.queues {
			r, left, found := q.first(lane, now)
			switch {
			case !found:
				continue
			case left > 0:
				wait = min(wait, left)
			case due == nil || r.before(first):
				due, first = q, r
			}
			waiting = true
		}
		if !waiting {
			continue
		}
		if left := urgentFor - now.Sub(p.urgent); left > 0 && !(lane == yielding && impatient) && p.leaves(lane) {
			later = min(later, left)
			continue
		}
		if due == nil {
			// A lower lane doesn't take the worker in the meantime.
			return nil, 0, min(wait, later)
		}
		p.running[lane]++
		return due.take(lane, now), lane, 0
	}
	return nil, 0, later
}

// impatient reports whether a request has yielded for long enough.
func (p *Pool) impatient(now time.Time) bool {
	for _, q := range p.queues {
		if arrived, found := q.oldest(yielding); found && now.Sub(arrived) >= patience {
			return true
		}
	}
	return false
}

// leaves reports whether a lane runs as much as it may while it leaves a worker to those before it. Bulk doesn't count
// what yields: it would never run beside much of that.
func (p *Pool) leaves(lane int) bool {
	running := p.running[lane]
	switch lanes[lane] {
	case wire.LaneInteractive:
		return false
	case wire.LaneBulk:
	default:
		running += p.running[laneIndex(wire.LaneBulk)]
	}
	return running >= max(1, p.workers-1)
}

// ran counts a batch as over, and has the dispatcher look again at what had to leave room for it.
func (p *Pool) ran(lane int) {
	p.mu.Lock()
	p.running[lane]--
	p.mu.Unlock()
	p.wakeUp()
}

func laneIndex(lane wire.Lane) int { return slices.Index(lanes[:], lane) }
