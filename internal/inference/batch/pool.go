package batch

// This file schedules batches. All graphs of a server share the workers, so that an interactive
// request of one graph precedes bulk requests of another.

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/fairness"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// interactiveWait is the longest time that an interactive item waits for its batch to fill.
const interactiveWait = time.Millisecond

// lanes are the lanes of requests in order of priority, with one between them for interactive
// requests that yield.
var lanes = [...]wire.Lane{wire.LaneInteractive, "interactive, yielding", wire.LaneBulk}

const yielding = 1 // of lanes

// Pool runs the batches of its queues, a bounded number at once.
type Pool struct {
	workers    int
	ctx        context.Context
	cancel     context.CancelFunc
	wake       chan struct{}  // an item was added, or a lane may be below its limit again
	free       chan struct{}  // one token per idle worker
	goroutines sync.WaitGroup // the dispatcher and the running batches
	// interactive limits other lanes while there are interactive requests, so that a worker is free
	// for the next one.
	interactive *fairness.Foreground
	share       *Share // limits the bulk lane; nil: no limit

	mu      sync.Mutex // guards what follows and the queues' entries
	closed  bool
	queues  []source
	waiting [len(lanes)]*fairness.Queue[*request]
	running [len(lanes)]int // batches
}

// shareCredit is how much of the workers' time a tenant without recent requests may use before it
// is ranked with the others.
const shareCredit = 20 * time.Millisecond

// source is a Queue of any type. Its methods are called with the pool's mutex locked.
type source interface {
	// untilDue drops items of ended requests, and returns the time until a batch of a lane is due:
	// an hour if no item waits.
	untilDue(lane int, now time.Time) time.Duration
	// take removes the batch around the first item of a request from the lane, and returns a
	// function that runs it.
	take(lane int, r *request, now time.Time) (run func())
	// fail ends all waiting requests.
	fail(err error)
	// state returns how many items wait and what was run.
	state() schema.GraphState
}

// NewPool starts a pool that runs up to workers batches at once.
func NewPool(workers int) *Pool {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pool{workers: workers, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1), free: make(chan struct{}, workers),
		interactive: fairness.NewForeground(fairness.Recent)}
	for lane := range p.waiting {
		p.waiting[lane] = fairness.NewQueue[*request](shareCredit)
	}
	for range workers {
		p.free <- struct{}{}
	}
	p.goroutines.Go(p.dispatch)
	return p
}

// Bound limits the bulk lane to a share of the machine's processor time. It must be called before
// the first request.
func (p *Pool) Bound(s *Share) { p.share = s }

// Close cancels running batches, fails waiting requests with schema.ErrUnavailable, and returns
// when nothing runs.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.goroutines.Wait()
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

// dispatch waits for an idle worker, then for a batch that is due, and runs it.
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
			run, wait := p.next(time.Now())
			if run != nil {
				p.goroutines.Go(func() {
					run()
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

// next takes the next batch: from the first lane with waiting items that is below its limit, around
// the first item that is due. Without one it returns how long to wait for the next, unless an item
// is added meanwhile.
func (p *Pool) next(now time.Time) (run func(), wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	later := time.Hour
	order, yielded := [...]int{0, 1, 2}, p.reachedStarvationLimit(now)
	if yielded {
		order = [...]int{yielding, 0, 2}
	}
	for _, lane := range order {
		wait, due := time.Hour, map[source]bool{}
		for _, q := range p.queues {
			untilDue := q.untilDue(lane, now)
			wait, due[q] = min(wait, untilDue), untilDue == 0
		}
		if p.waiting[lane].Empty() {
			continue
		}
		if !(lane == yielding && yielded) && p.atLimit(lane, now) {
			later = min(later, p.interactive.Remaining(now))
			continue
		}
		if lanes[lane] == wire.LaneBulk {
			if wait := p.share.wait(now); wait > 0 {
				later = min(later, wait)
				continue
			}
		}
		first, found := p.waiting[lane].First(func(r *request) bool { return due[r.source] })
		if !found {
			// A lower lane must not take the worker in the meantime.
			return nil, min(wait, later)
		}
		p.running[lane]++
		p.waiting[lane].Begin(first.tenant)
		run := first.source.take(lane, first, now)
		return func() {
			begin := time.Now()
			run()
			if lanes[lane] == wire.LaneBulk {
				p.share.record(begin, time.Since(begin))
			}
			p.batchDone(lane, first.tenant)
		}, 0
	}
	return nil, later
}

// reachedStarvationLimit reports whether a request has yielded for fairness.StarvationLimit.
func (p *Pool) reachedStarvationLimit(now time.Time) bool {
	for r := range p.waiting[yielding].All() {
		if now.Sub(r.arrived) >= fairness.StarvationLimit {
			return true
		}
	}
	return false
}

// itemDequeued counts an item of a request as no longer waiting. The mutex must be locked.
func (p *Pool) itemDequeued(r *request) {
	if r.waiting--; r.waiting == 0 {
		p.waiting[r.lane].Remove(r.tenant, r)
	}
}

// atLimit reports whether a lane runs as many batches as it may, so that a worker is free for
// higher lanes. For bulk, yielding batches do not count: bulk would never run while there are many
// of them.
func (p *Pool) atLimit(lane int, now time.Time) bool {
	running := p.running[lane]
	if lane == yielding {
		running += p.running[laneIndex(wire.LaneBulk)]
	}
	return lanes[lane] != wire.LaneInteractive && running >= p.interactive.Limit(now, p.workers, max(1, p.workers-1))
}

// batchDone counts a batch, which was taken for a tenant's item, as done, and wakes the dispatcher.
func (p *Pool) batchDone(lane int, tenant uuid.UUID) {
	p.mu.Lock()
	p.running[lane]--
	p.waiting[lane].End(tenant, time.Now())
	p.mu.Unlock()
	p.wakeUp()
}

func laneIndex(lane wire.Lane) int { return slices.Index(lanes[:], lane) }
