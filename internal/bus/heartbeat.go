package bus

// Heartbeats show callers that their requests are alive. A process that stays without a connection
// to NATS ends.

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// heartbeats sends heartbeats for the open requests whose callers listen for them.
type heartbeats struct {
	nc       *nats.Conn
	mu       sync.Mutex
	subjects map[*nats.Msg]string
}

// start has run send heartbeats of a request until stop is called. The first one is not sent at
// once, because most requests are answered before it is due.
func (h *heartbeats) start(msg *nats.Msg) (stop func()) {
	stream, ok := strings.CutSuffix(msg.Reply, "."+wire.PartReply)
	if msg.Header.Get(wire.HeaderAlive) == "" || !ok || !wire.IsInbox(stream) {
		return func() {}
	}
	subject := wire.StreamSubject(stream, wire.PartAlive)
	h.mu.Lock()
	h.subjects[msg] = subject
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subjects, msg)
	}
}

func (h *heartbeats) send(subject string) {
	if err := h.nc.Publish(subject, nil); err != nil {
		slog.Debug("could not send a heartbeat", "error", err)
	}
}

// run sends heartbeats until ctx ends.
func (h *heartbeats) run(ctx context.Context) {
	ticker := time.NewTicker(heartbeatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		h.mu.Lock()
		subjects := make([]string, 0, len(h.subjects))
		for _, subject := range h.subjects {
			subjects = append(subjects, subject)
		}
		h.mu.Unlock()
		for _, subject := range subjects {
			h.send(subject)
		}
	}
}

// DisconnectLimit is how long a worker stays without NATS before it ends. Its supervisor starts it
// again, and it then waits for NATS before it takes work from elsewhere, which it could not finish.
const DisconnectLimit = 3 * time.Minute

// WatchConnection returns a service that fails when the connection has been lost for as long as
// limit.
func WatchConnection(nc *nats.Conn, limit time.Duration) lifecycle.Service {
	return lifecycle.NewLoop("watch over NATS", nil, func(fetch, _ context.Context) error {
		changed := nc.StatusChanged(nats.CONNECTED, nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
		defer nc.RemoveStatusListener(changed)
		timeout := time.NewTimer(limit)
		defer timeout.Stop()
		connected := nc.IsConnected()
		if connected {
			timeout.Stop()
		}
		for {
			select {
			case <-fetch.Done():
				return nil
			case <-timeout.C:
				return fmt.Errorf("no connection to NATS for %s: %w", limit, schema.ErrUnavailable)
			case <-changed:
			}
			if now := nc.IsConnected(); now != connected {
				if connected = now; connected {
					timeout.Stop()
				} else {
					timeout.Reset(limit)
				}
			}
		}
	})
}
