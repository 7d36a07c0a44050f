package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-rag/sluice/internal/lifecycle"
)

// Supervision of the servers that `sluice up` starts.

// A server that ran for longer than stableAfter is restarted at once. Otherwise the pause before
// each restart doubles, from firstPause up to longestPause.
const (
	stableAfter  = 30 * time.Second
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
)

// supervise restarts a server when it ends by itself. The server's address stays the same, so that
// its clients reconnect.
func supervise(server lifecycle.Service, log *slog.Logger) lifecycle.Service {
	return lifecycle.NewLoop(fmt.Sprint(server), server.Start, func(fetch, work context.Context) error {
		var pause time.Duration
		began := time.Now()
		for {
			select {
			case <-fetch.Done():
				return server.Stop(work)
			case <-server.Done():
			}
			if time.Since(began) > stableAfter {
				pause = 0
			}
			log.Warn("a server ended; starting it again", "server", fmt.Sprint(server), "pause", pause, "error", server.Err())
			timer := time.NewTimer(pause)
			select {
			case <-fetch.Done():
				timer.Stop()
				return nil
			case <-timer.C:
			}
			pause = min(max(2*pause, firstPause), longestPause)
			began = time.Now()
			// If this fails, Done of the server stays closed, and the next iteration logs the
			// error.
			_ = server.Start(fetch)
		}
	})
}
