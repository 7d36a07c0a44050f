package bus

// Telling callers that their requests are held, and ending a process that has lost NATS for good.

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

// alive are the requests that a service holds whose callers want to hear so.
type alive struct {
	nc *nats.Conn
	mu sync.Mutex
	at map[*nats.Msg]string // where it is told
}

// hold tells the caller of a request that it has come, and from then on every beat until release.
func (a *alive) hold(msg *nats.Msg) (release func()) {
	stream, ok := strings.CutSuffix(msg.Reply, "."+wire.PartReply)
	if msg.Header.Get(wire.HeaderAlive) == "" || !ok || !wire.IsInbox(stream) {
		return func() {}
	}
	subject := wire.StreamSubject(stream, wire.PartAlive)
	a.mu.Lock()
	a.at[msg] = subject
	a.mu.Unlock()
	a.tell(subject)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.at, msg)
	}
}

func (a *alive) tell(subject string) {
	if err := a.nc.Publish(subject, nil); err != nil {
		slog.Debug("cannot tell that a request is held", "error", err)
	}
}

// run tells until ctx ends.
func (a *alive) run(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		a.mu.Lock()
		subjects := make([]string, 0, len(a.at))
		for _, subject := range a.at {
			subjects = append(subjects, subject)
		}
		a.mu.Unlock()
		for _, subject := range subjects {
			a.tell(subject)
		}
	}
}

// Lost is after how long without NATS a worker ends. Whoever runs it starts it again, and it waits for NATS before it
// takes work from elsewhere, which it could not finish.
const Lost = 3 * time.Minute

// Watch makes a service that ends when the connection is away for as long as limit.
func Watch(nc *nats.Conn, limit time.Duration) lifecycle.Service {
	return lifecycle.NewLoop("watch over NATS", nil, func(fetch, _ context.Context) error {
		changed := nc.StatusChanged(nats.CONNECTED, nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
		defer nc.RemoveStatusListener(changed)
		away := time.NewTimer(limit)
		defer away.Stop()
		connected := nc.IsConnected()
		if connected {
			away.Stop()
		}
		for {
			select {
			case <-fetch.Done():
				return nil
			case <-away.C:
				return fmt.Errorf("no connection to NATS for %s: %w", limit, schema.ErrUnavailable)
			case <-changed:
			}
			if now := nc.IsConnected(); now != connected {
				if connected = now; connected {
					away.Stop()
				} else {
					away.Reset(limit)
				}
			}
		}
	})
}
