// Package batch gathers the items of many requests into batches for a model. It knows nothing of
// the model: an item has a length in tokens, and a function runs a batch.
//
// Items of similar length share a batch, so that there is little padding. The interactive lane goes
// before the bulk lane, in all queues of a Pool. Within a lane the tenant that has used the workers
// least goes first, with its oldest item; the time of a batch is charged to the tenants of its
// items by cells. Requests whose context has ended are dropped. Queues have no limit: callers of Do
// must have one.
package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Options of a Queue.
type Options struct {
	Graph    string        // names the queue in metrics and spans
	MaxItems int           // most items of a batch
	MaxCells int           // most tokens of a batch, padding included; a longer item runs alone
	Wait     time.Duration // longest time that an item waits for its batch to fill
}

// The limit of padding is a share of a batch's cells. Small batches may have up to freePadding,
// because a separate run would cost more.
const (
	maxPadding  = 0.04
	freePadding = 128 // cells
)

// Size is what an item takes up in a batch.
type Size struct {
	// Cells is the length of the item's row. A batch has as many cells as its number of rows times
	// the longest row.
	Cells int
	// Text is how many of the cells are never padding, whatever batch the item is in.
	Text int
	// Group separates items that do not fit the same batch although their lengths are similar.
	Group int
}

// Tokens is the size of an item that is a row of n tokens.
func Tokens(n int) Size { return Size{Cells: n, Text: n} }

// Queue batches items of type T.
type Queue[T any] struct {
	pool    *Pool
	options Options
	size    func(T) Size
	run     func(context.Context, []T) error
	metrics metrics
	did     schema.GraphState      // guarded by the pool's mutex
	waiting [len(lanes)][]entry[T] // by group, then by cells, then by age; guarded by the pool's mutex
}

type entry[T any] struct {
	item    T
	size    Size
	request *request
}

// request is one call of Do. What follows done is guarded by the pool's mutex.
type request struct {
	ctx     context.Context
	tenant  uuid.UUID
	lane    int
	source  source
	arrived time.Time
	done    chan struct{}
	waiting int // items
	pending int // items that wait or run
	err     error
}

// New adds a queue to a pool. size returns the size of an item. run runs one batch and writes the
// results to where the items point; several goroutines may call it at once.
func New[T any](p *Pool, o Options, size func(T) Size, run func(context.Context, []T) error) *Queue[T] {
	q := &Queue[T]{pool: p, options: o, size: size, run: run, metrics: newMetrics(o.Graph)}
	p.mu.Lock()
	p.queues = append(p.queues, q)
	p.mu.Unlock()
	return q
}

var errClosed = fmt.Errorf("the model server is stopping: %w", schema.ErrUnavailable)

// Caller is the tenant that items run for, and their priority.
type Caller struct {
	Tenant uuid.UUID // all items without a tenant count as one tenant's
	Lane   wire.Lane
	// Yields says that interactive items run after those that don't yield, and leave a worker free
	// for them, until they have waited for fairness.StarvationLimit.
	Yields bool
}

// Do runs items and returns when all have run, or with the first error. When ctx ends, Do returns
// its error at once; items that run at that moment may still be written to.
func (q *Queue[T]) Do(ctx context.Context, caller Caller, items []T) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(items) == 0 {
		return nil
	}
	at := laneIndex(caller.Lane)
	if at < 0 || at == yielding {
		return schema.Invalid("lane", "%q is neither %s nor %s", caller.Lane, wire.LaneInteractive, wire.LaneBulk)
	}
	r := &request{ctx: ctx, tenant: caller.Tenant, source: q, arrived: time.Now(), done: make(chan struct{}),
		waiting: len(items), pending: len(items)}
	added := make([]entry[T], len(items))
	for i, item := range items {
		added[i] = entry[T]{item, q.size(item), r}
	}
	slices.SortStableFunc(added, bySize)

	p := q.pool
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return errClosed
	}
	if caller.Lane == wire.LaneInteractive && caller.Yields {
		at = yielding
	} else if caller.Lane == wire.LaneInteractive {
		p.interactive.Record(r.arrived)
	}
	r.lane = at
	p.waiting[at].Put(r.tenant, r, r.arrived)
	q.waiting[at] = merge(q.waiting[at], added)
	q.metrics.depth(at, len(added))
	p.mu.Unlock()
	p.wakeUp()

	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func bySize[T any](a, b entry[T]) int {
	return cmp.Or(a.size.Group-b.size.Group, a.size.Cells-b.size.Cells)
}

// merge merges two sorted lists; of equal sizes the older ones stay first.
func merge[T any](old, added []entry[T]) []entry[T] {
	out := make([]entry[T], 0, len(old)+len(added))
	for len(old) > 0 && len(added) > 0 {
		if bySize(old[0], added[0]) <= 0 {
			out, old = append(out, old[0]), old[1:]
		} else {
			out, added = append(out, added[0]), added[1:]
		}
	}
	return append(append(out, old...), added...)
}

// untilDue implements source.
func (q *Queue[T]) untilDue(lane int, now time.Time) time.Duration {
	q.dropEnded(lane, func(r *request) error {
		if r.err != nil {
			return r.err
		}
		return r.ctx.Err()
	})
	waiting := q.waiting[lane]
	if len(waiting) == 0 {
		return time.Hour
	}
	cells, arrived := 0, waiting[0].request.arrived
	for _, e := range waiting {
		cells += e.size.Cells
		if e.request.arrived.Before(arrived) {
			arrived = e.request.arrived
		}
	}
	company := q.options.Wait
	if lanes[lane] != wire.LaneBulk {
		company = min(company, interactiveWait)
	}
	if len(waiting) >= q.options.MaxItems || cells >= q.options.MaxCells {
		return 0
	}
	return max(0, company-now.Sub(arrived))
}

// take implements source. The longest item of a request goes first, so that workers that share the
// request are done at about the same time.
func (q *Queue[T]) take(lane int, r *request, now time.Time) (run func()) {
	waiting := q.waiting[lane]
	longest := -1
	for i, e := range waiting {
		if e.request == r && (longest < 0 || e.size.Cells > waiting[longest].size.Cells) {
			longest = i
		}
	}
	from, to := q.batchAround(waiting, longest)
	found := slices.Clone(waiting[from:to])
	q.waiting[lane] = slices.Delete(waiting, from, to)
	q.metrics.depth(lane, -len(found))
	for _, e := range found {
		q.metrics.waited(lane, now.Sub(e.request.arrived))
		q.pool.itemDequeued(e.request)
	}
	return func() { q.execute(found) }
}

// fail implements source.
func (q *Queue[T]) fail(err error) {
	for lane := range q.waiting {
		q.dropEnded(lane, func(*request) error { return err })
	}
}

// dropEnded removes the entries of requests for which over returns an error, and ends the requests
// with it. The pool's mutex must be locked.
func (q *Queue[T]) dropEnded(lane int, over func(*request) error) {
	before := len(q.waiting[lane])
	q.waiting[lane] = slices.DeleteFunc(q.waiting[lane], func(e entry[T]) bool {
		err := over(e.request)
		if err != nil {
			e.request.end(1, err)
			q.pool.itemDequeued(e.request)
		}
		return err != nil
	})
	if dropped := before - len(q.waiting[lane]); dropped > 0 {
		q.metrics.depth(lane, -dropped)
	}
}

// batchAround returns the range of the batch around the entry at first. The range grows on the side
// that adds less padding while the limits allow.
func (q *Queue[T]) batchAround(waiting []entry[T], first int) (from, to int) {
	from, to = first, first+1
	group := waiting[first].size.Group
	sum := waiting[first].size.Cells
	fits := func(count, longest, sum int) bool {
		cells := count * longest
		padded := cells - sum
		return count <= q.options.MaxItems && cells <= q.options.MaxCells &&
			(padded <= freePadding || float64(padded) <= maxPadding*float64(cells))
	}
	for {
		count, longest := to-from, waiting[to-1].size.Cells
		down, up := -1, -1 // cells that would be padded; -1: not possible
		if from > 0 && waiting[from-1].size.Group == group {
			if s := waiting[from-1].size; fits(count+1, longest, sum+s.Cells) {
				down = longest - s.Cells
			}
		}
		if to < len(waiting) && waiting[to].size.Group == group {
			if s := waiting[to].size; fits(count+1, s.Cells, sum+s.Cells) {
				up = count * (s.Cells - longest)
			}
		}
		switch {
		case down >= 0 && (up < 0 || down <= up):
			from--
			sum += waiting[from].size.Cells
		case up >= 0:
			sum += waiting[to].size.Cells
			to++
		default:
			return from, to
		}
	}
}

// execute runs a batch. When it fails, execute runs its halves, so that only the request of the bad
// item fails.
func (q *Queue[T]) execute(batch []entry[T]) {
	started := time.Now()
	err := q.runOnce(batch)
	q.pool.mu.Lock()
	q.charge(batch, time.Since(started)) // before the requests end: the charge ranks the next requests of their tenants
	q.pool.mu.Unlock()
	if err != nil && len(batch) > 1 && q.pool.ctx.Err() == nil {
		half := len(batch) / 2
		q.execute(batch[:half])
		q.execute(batch[half:])
		return
	}
	if err != nil && q.pool.ctx.Err() != nil {
		err = errors.Join(errClosed, err)
	}
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	for _, e := range batch {
		e.request.end(1, err)
	}
}

// charge charges the time of a run to the tenants of its items, by cells. The pool's mutex must be
// locked.
func (q *Queue[T]) charge(batch []entry[T], took time.Duration) {
	cells := 0
	for _, e := range batch {
		cells += e.size.Cells
	}
	for _, e := range batch {
		q.pool.waiting[e.request.lane].Charge(e.request.tenant, took*time.Duration(e.size.Cells)/time.Duration(max(1, cells)))
	}
}

func (q *Queue[T]) runOnce(batch []entry[T]) error {
	items := make([]T, len(batch))
	sum, longest := 0, 0
	callers := map[*request]bool{}
	var links []trace.Link
	for i, e := range batch {
		items[i] = e.item
		sum += e.size.Text
		longest = max(longest, e.size.Cells)
		if !callers[e.request] {
			callers[e.request] = true
			if link := trace.LinkFromContext(e.request.ctx); link.SpanContext.IsValid() {
				links = append(links, link)
			}
		}
	}
	ctx, finish := q.metrics.begin(q.pool.ctx, links, len(items), sum, longest)
	began := time.Now()
	err := q.run(ctx, items)
	q.count(len(items), sum, longest, time.Since(began))
	finish(err)
	return err
}

// end counts n items of the request as done. The pool's mutex must be locked.
func (r *request) end(n int, err error) {
	if err != nil && r.err == nil {
		r.err = err
	}
	if r.pending -= n; r.pending == 0 {
		close(r.done)
	}
}
