package inference

// This file limits how much the server holds in total.

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/fairness"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// load counts what a server holds, in bytes of requests and in sequences.
type load struct {
	*fairness.Semaphore
	bound   fairness.Amount
	metrics requestMetrics
}

// add counts a request, or returns an error if the server is full. Bulk requests leave a quarter of
// the limits to interactive ones. A request that exceeds a limit alone is accepted when the server
// holds nothing else.
func (l *load) add(lane wire.Lane, bytes, sequences int) error {
	if full := l.Acquire(uuid.Nil, fairness.Amount{Count: sequences, Bytes: bytes}, lane.Background()); full != nil {
		return fmt.Errorf("the model server holds %d texts in %d bytes already: %w", full.InUse.Count, full.InUse.Bytes, schema.ErrOverloaded)
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
