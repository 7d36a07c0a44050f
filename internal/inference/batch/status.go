package batch

// This file tells what waits in the queues, and what they did since they were made.

import (
	"time"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// count adds a batch of so many items to what was done: sum cells of text, rows of the longest
// item's.
func (q *Queue[T]) count(items, sum, longest int, took time.Duration) {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	q.did.Batches++
	q.did.Items += int64(items)
	q.did.Tokens += int64(sum)
	q.did.Padding += int64(items*longest - sum)
	q.did.Millis += float64(took) / float64(time.Millisecond)
}

// state implements source.
func (q *Queue[T]) state() schema.GraphState {
	s := q.did
	s.Graph = q.options.Graph
	for i, waiting := range q.waiting {
		if lanes[i] == wire.LaneBulk {
			s.Bulk += len(waiting)
		} else {
			s.Interactive += len(waiting)
		}
	}
	return s
}

// State returns what waits in each queue and what it did, and how many batches run of those that
// may at once.
func (p *Pool) State() (graphs []schema.GraphState, running, workers int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queues {
		graphs = append(graphs, q.state())
	}
	for _, n := range p.running {
		running += n
	}
	return graphs, running, p.workers
}
