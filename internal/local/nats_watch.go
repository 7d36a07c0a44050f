package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/sluice-rag/sluice/schema"
)

// This file starts the NATS server anew when it could not write: a stream whose
// write failed once takes nothing more until it is opened again.

const (
	// natsLook is how often the streams are looked at.
	natsLook = time.Second
	// natsRoom is what must be free for a server to be started on its streams, in bytes.
	natsRoom = 16 << 20
)

// Trouble says why the server doesn't store messages now, or nil. It mends itself when the disk has
// room again.
func (n *NATS) Trouble() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.trouble
}

// watch keeps a server that stores what it gets, until ctx ends or none can be started any more.
func (n *NATS) watch(ctx context.Context, srv *server.Server) error {
	defer func() { end(srv) }()
	ticker := time.NewTicker(natsLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		trouble := unwell(srv)
		if before := n.note(trouble); trouble != nil && before == nil {
			n.opts.Log.Error("nats cannot store messages; it is started again when the disk has room", "dir", n.opts.Dir, "error", trouble)
		}
		if free, err := Free(n.opts.Dir); trouble == nil || err != nil || free < natsRoom {
			continue
		}
		end(srv)
		again, err := n.serve(ctx)
		if err == nil {
			srv = again // it ends with the watcher, even where ctx ended meanwhile
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("nats did not start again after %w: %w", trouble, err)
		}
		n.note(nil)
		n.opts.Log.Warn("nats was started again: the disk has room", "dir", n.opts.Dir)
	}
}

// note keeps what troubles the server, and returns what did before.
func (n *NATS) note(trouble error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.trouble
	n.trouble = trouble
	return before
}

// unwell is what is wrong with the streams of a server.
func unwell(srv *server.Server) error {
	if !srv.JetStreamEnabled() {
		return fmt.Errorf("JetStream switched itself off: %w", schema.ErrUnavailable)
	}
	health := srv.Healthz(&server.HealthzOptions{})
	if health.Status == "ok" {
		return nil
	}
	return fmt.Errorf("%w: %w", errors.New(health.Error), schema.ErrUnavailable)
}
