package bus

import (
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/schema/wire"
)

// WakeRelay returns a function that wakes a relay, for store.Store.OnOutbox. It does not block. If
// its message is lost, a relay finds the rows when it polls.
func WakeRelay(nc *nats.Conn) func() {
	return func() { _ = nc.Publish(wire.OutboxSubject, nil) }
}
