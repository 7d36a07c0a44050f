package batch

// This file decides which queue's batch runs next: the workers are shared by all graphs of a server, so that an
// interactive request of one goes before bulk requests of another.

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

// interactiveWait is how long an interactive item waits for company: somebody waits for it.
const interactiveWait = time.Millisecond

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
	// interactive requests leave a worker, and its core, to the next one.
	interactive *fairness.Foreground
	share       *Share // bounds the bulk lane; nil: nothing does

	mu      sync.Mutex // guards what follows and the queues' entries
	closed  bool
	queues  []source
	waiting [len(lanes)]*fairness.Queue[*request]
	running [len(lanes)]int // batches
}

// credit is what a tenant that comes back may use of the workers' time before it alternates with the others.
const credit = 20 * time.Millisecond

// source is a queue of whatever type. The pool's mutex is held during calls.
type source interface {
	// due drops what is not wanted any more, and gives how long until a batch of a lane is due: an hour when nothing waits.
	due(lane int, now time.Time) time.Duration
	// take takes the batch with the first item of a request out of the lane, to be run.
	take(lane int, r *request, now time.Time) (run func())
	// fail ends what waits.
	fail(err error)
	// state is what waits, and what was done.
	state() schema.GraphState
}

// NewPool starts a pool that runs so many batches at once.
func NewPool(workers int) *Pool {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pool{workers: workers, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1), free: make(chan struct{}, workers),
		interactive: fairness.NewForeground(fairness.Recent)}
	for lane := range p.waiting {
		p.waiting[lane] = fairness.NewQueue[*request](credit)
	}
	for range workers {
		p.free <- struct{}{}
	}
	p.owned.Go(p.dispatch)
	return p
}

// Bound has the bulk lane keep to a share of the processors' time. It is called before the first request.
func (p *Pool) Bound(s *Share) { p.share = s }

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
			run, wait := p.next(time.Now())
			if run != nil {
				p.owned.Go(func() {
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

// next takes the batch that is due and has the first item of the first lane that has any. Without one it says how long
// it will be until one is, if nothing comes.
func (p *Pool) next(now time.Time) (run func(), wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	later := time.Hour
	order, impatient := [...]int{0, 1, 2}, p.impatient(now)
	if impatient {
		order = [...]int{yielding, 0, 2}
	}
	for _, lane := range order {
		wait, due := time.Hour, map[source]bool{}
		for _, q := range p.queues {
			left := q.due(lane, now)
			wait, due[q] = min(wait, left), left == 0
		}
		if p.waiting[lane].Empty() {
			continue
		}
		if !(lane == yielding && impatient) && p.leaves(lane, now) {
			later = min(later, p.interactive.Left(now))
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
			// A lower lane doesn't take the worker in the meantime.
			return nil, min(wait, later)
		}
		p.running[lane]++
		p.waiting[lane].Begin(first.tenant)
		run := first.source.take(lane, first, now)
		return func() {
			begin := time.Now()
			run()
			if lanes[lane] == wire.LaneBulk {
				p.share.spend(begin, time.Since(begin))
			}
			p.ran(lane, first.tenant)
		}, 0
	}
	return nil, later
}

// impatient reports whether a request has yielded for long enough.
func (p *Pool) impatient(now time.Time) bool {
	for r := range p.waiting[yielding].All() {
		if now.Sub(r.arrived) >= fairness.Patience {
			return true
		}
	}
	return false
}

// left counts an item of a request as no longer waiting. The mutex is held.
func (p *Pool) left(r *request) {
	if r.waiting--; r.waiting == 0 {
		p.waiting[r.lane].Remove(r.tenant, r)
	}
}

// leaves reports whether a lane runs as much as it may while it leaves a worker to those before it. Bulk doesn't count
// what yields: it would never run while there is much of that.
func (p *Pool) leaves(lane int, now time.Time) bool {
	running := p.running[lane]
	if lane == yielding {
		running += p.running[laneIndex(wire.LaneBulk)]
	}
	return lanes[lane] != wire.LaneInteractive && running >= p.interactive.Limit(now, p.workers, max(1, p.workers-1))
}

// ran counts a batch as over that began with a tenant's item, and has the dispatcher look again at what had to leave room
// for it.
func (p *Pool) ran(lane int, tenant uuid.UUID) {
	p.mu.Lock()
	p.running[lane]--
	p.waiting[lane].End(tenant, time.Now())
	p.mu.Unlock()
	p.wakeUp()
}

func laneIndex(lane wire.Lane) int { return slices.Index(lanes[:], lane) }
