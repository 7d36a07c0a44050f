package bus

import (
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/schema/wire"
)

// WakeRelay wakes a relay, for store.Store.OnOutbox. It waits for nothing: what is
// lost is found by a relay that looks.
func WakeRelay(nc *nats.Conn) func() {
	return func() { _ = nc.Publish(wire.OutboxSubject, nil) }
}
