package bus

import (
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/schema/wire"
)

// TellOutbox wakes a relay, for store.Store.OnOutbox. It waits for nothing: what is
// lost is found by a relay that looks.
func TellOutbox(nc *nats.Conn) func() {
	return func() { _ = nc.Publish(wire.OutboxSubject, nil) }
}
