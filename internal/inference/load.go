package inference

// This file bounds how much the server holds altogether.

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/fairness"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// load is what a server holds, in bytes of requests and in sequences.
type load struct {
	*fairness.Semaphore
	bound   fairness.Amount
	metrics requestMetrics
}

// add takes a request in, or says that the server is full. Bulk requests leave a quarter to
// interactive ones. A request that is larger than the bound alone is taken when nothing else is
// held.
func (l *load) add(lane wire.Lane, bytes, sequences int) error {
	if full := l.Acquire(uuid.Nil, fairness.Amount{Count: sequences, Bytes: bytes}, lane.Background()); full != nil {
		return fmt.Errorf("the model server holds %d texts in %d bytes already: %w", full.Held.Count, full.Held.Bytes, schema.ErrOverloaded)
	}
	l.metrics.bytes(bytes)
	l.metrics.sequences(sequences)
	return nil
}

func (l *load) remove(bytes, sequences int) {
	l.Release(uuid.Nil, fairness.Amount{Count: sequences, Bytes: bytes})
	l.metrics.bytes(-bytes)
	l.metrics.sequences(-sequences)
}
