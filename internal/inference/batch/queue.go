// Package batch gathers the items of many requests into batches for a model. It knows nothing of the model: an item
// has a length in tokens, and a function runs a batch.
//
// Items of like length share a batch, so that little is padded; the oldest item goes first within its lane, and the
// interactive lane goes before the bulk lane. A request whose context has ended is dropped unseen. The queue isn't
// bounded: whoever calls Do bounds what is held.
package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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
	Workers  int           // batches that run at once
}

// Padding is bounded twice: to a share of a batch's cells, and small batches may pad a little more, since a run of
// their own would cost more than that.
const (
	maxPadding  = 0.04
	freePadding = 128 // cells
)

// interactiveWait is how long an interactive item waits for company: somebody waits for it.
const interactiveWait = time.Millisecond

// urgentFor is how long after an interactive request the bulk lane leaves a worker, and its core, to the next one.
const urgentFor = time.Second

var lanes = [...]wire.Lane{wire.LaneInteractive, wire.LaneBulk}

// Queue batches items of type T.
type Queue[T any] struct {
	options Options
	length  func(T) int
	run     func(context.Context, []T) error
	metrics metrics

	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}  // something was added
	free   chan struct{}  // one token per idle worker
	owned  sync.WaitGroup // the dispatcher and the running batches

	mu      sync.Mutex
	closed  bool
	waiting [len(lanes)][]entry[T] // by length, then by age
	running [len(lanes)]int        // batches
	urgent  time.Time              // when an interactive request last came
}

type entry[T any] struct {
	item    T
	length  int
	request *request
}

// request is one call of Do. pending and err are guarded by the queue's mutex.
type request struct {
	ctx     context.Context
	arrived time.Time
	pending int
	err     error
	done    chan struct{}
}

// New starts a queue. length gives an item's tokens; run runs one batch, may be called from several goroutines at once,
// and must put its results where the items point.
func New[T any](o Options, length func(T) int, run func(context.Context, []T) error) *Queue[T] {
	ctx, cancel := context.WithCancel(context.Background())
	q := &Queue[T]{
		options: o, length: length, run: run, metrics: newMetrics(o.Graph),
		ctx: ctx, cancel: cancel,
		wake: make(chan struct{}, 1), free: make(chan struct{}, o.Workers),
	}
	for range o.Workers {
		q.free <- struct{}{}
	}
	q.owned.Go(q.dispatch)
	return q
}

// Close cancels what runs, fails what waits with schema.ErrUnavailable, and returns when nothing runs any more.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cancel()
	q.owned.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	for lane := range q.waiting {
		q.drop(lane, func(*request) error { return errClosed })
	}
}

var errClosed = fmt.Errorf("the model server is stopping: %w", schema.ErrUnavailable)

// Do runs items and returns when all have run, or with the first error. When ctx ends, Do returns its error at once;
// items that run at that moment may still be written to.
func (q *Queue[T]) Do(ctx context.Context, lane wire.Lane, items []T) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(items) == 0 {
		return nil
	}
	at := slices.Index(lanes[:], lane)
	if at < 0 {
		return schema.Invalid("lane", "%q is neither %s nor %s", lane, wire.LaneInteractive, wire.LaneBulk)
	}
	r := &request{ctx: ctx, arrived: time.Now(), pending: len(items), done: make(chan struct{})}
	added := make([]entry[T], len(items))
	for i, item := range items {
		added[i] = entry[T]{item, q.length(item), r}
	}
	slices.SortStableFunc(added, byLength)

	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return errClosed
	}
	q.waiting[at] = merge(q.waiting[at], added)
	if lane == wire.LaneInteractive {
		q.urgent = r.arrived
	}
	q.metrics.depth(at, len(added))
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}

	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func byLength[T any](a, b entry[T]) int { return a.length - b.length }

// merge merges two sorted lists; of equal lengths the older ones stay first.
func merge[T any](old, added []entry[T]) []entry[T] {
	out := make([]entry[T], 0, len(old)+len(added))
	for len(old) > 0 && len(added) > 0 {
		if old[0].length <= added[0].length {
			out, old = append(out, old[0]), old[1:]
		} else {
			out, added = append(out, added[0]), added[1:]
		}
	}
	return append(append(out, old...), added...)
}

// dispatch waits for an idle worker, then for a batch, and lets the worker run it.
func (q *Queue[T]) dispatch() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-q.free:
		case <-q.ctx.Done():
			return
		}
		for {
			found, lane, wait := q.next(time.Now())
			if found != nil {
				q.owned.Go(func() {
					q.execute(found)
					q.ran(lane)
					q.free <- struct{}{}
				})
				break
			}
			timer.Reset(wait)
			select {
			case <-q.wake:
			case <-timer.C:
			case <-q.ctx.Done():
				return
			}
		}
	}
}

// next takes a batch that is due out of the queue. Without one it says how long it will be until one is, if nothing
// comes.
func (q *Queue[T]) next(now time.Time) (found []entry[T], lane int, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for lane := range q.waiting {
		q.drop(lane, func(r *request) error {
			if r.err != nil {
				return r.err
			}
			return r.ctx.Err()
		})
		waiting := q.waiting[lane]
		if len(waiting) == 0 {
			continue
		}
		if left := urgentFor - now.Sub(q.urgent); lanes[lane] == wire.LaneBulk && left > 0 && q.running[lane] >= max(1, q.options.Workers-1) {
			return nil, 0, left
		}
		oldest, cells := 0, 0
		for i, e := range waiting {
			cells += e.length
			if e.request.arrived.Before(waiting[oldest].request.arrived) {
				oldest = i
			}
		}
		patience := q.options.Wait
		if lanes[lane] == wire.LaneInteractive {
			patience = min(patience, interactiveWait)
		}
		due := patience - now.Sub(waiting[oldest].request.arrived)
		if due > 0 && len(waiting) < q.options.MaxItems && cells < q.options.MaxCells {
			// A lower lane doesn't take the worker in the meantime.
			return nil, 0, due
		}
		from, to := q.cut(waiting, oldest)
		found = slices.Clone(waiting[from:to])
		q.waiting[lane] = slices.Delete(waiting, from, to)
		q.metrics.depth(lane, -len(found))
		for _, e := range found {
			q.metrics.waited(lane, now.Sub(e.request.arrived))
		}
		q.running[lane]++
		return found, lane, 0
	}
	return nil, 0, time.Hour
}

// ran counts a batch as over, and has the dispatcher look again at what had to leave room for it.
func (q *Queue[T]) ran(lane int) {
	q.mu.Lock()
	q.running[lane]--
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// drop takes out the entries of requests that are over and ends those requests. The mutex is held.
func (q *Queue[T]) drop(lane int, over func(*request) error) {
	before := len(q.waiting[lane])
	q.waiting[lane] = slices.DeleteFunc(q.waiting[lane], func(e entry[T]) bool {
		err := over(e.request)
		if err != nil {
			e.request.end(1, err)
		}
		return err != nil
	})
	if dropped := before - len(q.waiting[lane]); dropped > 0 {
		q.metrics.depth(lane, -dropped)
	}
}

// cut finds the batch around the entry at oldest: it grows to the side that pads less for as long as it may.
func (q *Queue[T]) cut(waiting []entry[T], oldest int) (from, to int) {
	from, to = oldest, oldest+1
	sum := waiting[oldest].length
	fits := func(count, longest, sum int) bool {
		cells := count * longest
		padded := cells - sum
		return count <= q.options.MaxItems && cells <= q.options.MaxCells &&
			(padded <= freePadding || float64(padded) <= maxPadding*float64(cells))
	}
	for {
		count, longest := to-from, waiting[to-1].length
		down, up := -1, -1 // cells that would be padded; -1: not possible
		if from > 0 {
			if l := waiting[from-1].length; fits(count+1, longest, sum+l) {
				down = longest - l
			}
		}
		if to < len(waiting) {
			if l := waiting[to].length; fits(count+1, l, sum+l) {
				up = count * (l - longest)
			}
		}
		switch {
		case down >= 0 && (up < 0 || down <= up):
			from--
			sum += waiting[from].length
		case up >= 0:
			sum += waiting[to].length
			to++
		default:
			return from, to
		}
	}
}

// execute runs a batch; when that fails, its halves, so that what fails is the bad item's request alone.
func (q *Queue[T]) execute(batch []entry[T]) {
	err := q.runOnce(batch)
	if err != nil && len(batch) > 1 && q.ctx.Err() == nil {
		half := len(batch) / 2
		q.execute(batch[:half])
		q.execute(batch[half:])
		return
	}
	if err != nil && q.ctx.Err() != nil {
		err = errors.Join(errClosed, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range batch {
		e.request.end(1, err)
	}
}

func (q *Queue[T]) runOnce(batch []entry[T]) error {
	items := make([]T, len(batch))
	sum, longest := 0, 0
	callers := map[*request]bool{}
	var links []trace.Link
	for i, e := range batch {
		items[i] = e.item
		sum += e.length
		longest = max(longest, e.length)
		if !callers[e.request] {
			callers[e.request] = true
			if link := trace.LinkFromContext(e.request.ctx); link.SpanContext.IsValid() {
				links = append(links, link)
			}
		}
	}
	ctx, finish := q.metrics.begin(q.ctx, links, len(items), sum, longest)
	err := q.run(ctx, items)
	finish(err)
	return err
}

// end counts n items of the request as over. The queue's mutex is held.
func (r *request) end(n int, err error) {
	if err != nil && r.err == nil {
		r.err = err
	}
	if r.pending -= n; r.pending == 0 {
		close(r.done)
	}
}
