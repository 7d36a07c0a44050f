package batch

// This file reports what waits in the queues, and what they ran since they were created.

import (
	"time"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// count adds a batch to the totals. sum is the cells of its items without padding, longest the
// cells of its longest row.
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

// State returns the state of each queue, the number of batches that run, and the number of workers.
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
