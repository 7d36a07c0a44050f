package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/sluice-rag/sluice/schema"
)

// This file restarts the NATS server when it could not write: a stream whose write failed once
// takes no more messages until it is opened again.

const (
	// natsCheckInterval is the interval of checks of the streams.
	natsCheckInterval = time.Second
	// natsMinFree is the free disk space that a restart of the server needs, in bytes.
	natsMinFree = 16 << 20
)

// Trouble returns why the server does not store messages now, or nil. The server recovers when the
// disk has space again.
func (n *NATS) Trouble() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.trouble
}

// watch restarts a server that cannot store messages, until ctx ends or a restart fails.
func (n *NATS) watch(ctx context.Context, srv *server.Server) error {
	defer func() { end(srv) }()
	ticker := time.NewTicker(natsCheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		trouble := streamTrouble(srv)
		if before := n.note(trouble); trouble != nil && before == nil {
			n.opts.Log.Error("nats cannot store messages; it is restarted when the disk has space", "dir", n.opts.Dir, "error", trouble)
		}
		if free, err := Free(n.opts.Dir); trouble == nil || err != nil || free < natsMinFree {
			continue
		}
		end(srv)
		again, err := n.serve(ctx)
		if err == nil {
			srv = again // it ends with the watcher, even if ctx ended meanwhile
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("nats did not start again after %w: %w", trouble, err)
		}
		n.note(nil)
		n.opts.Log.Warn("restarted nats: the disk has space again", "dir", n.opts.Dir)
	}
}

// note sets the server's trouble, and returns the previous one.
func (n *NATS) note(trouble error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.trouble
	n.trouble = trouble
	return before
}

// streamTrouble returns what is wrong with the streams of a server.
func streamTrouble(srv *server.Server) error {
	if !srv.JetStreamEnabled() {
		return fmt.Errorf("JetStream switched itself off: %w", schema.ErrUnavailable)
	}
	health := srv.Healthz(&server.HealthzOptions{})
	if health.Status == "ok" {
		return nil
	}
	return fmt.Errorf("%w: %w", errors.New(health.Error), schema.ErrUnavailable)
}
