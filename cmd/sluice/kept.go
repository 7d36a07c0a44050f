package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-rag/sluice/internal/lifecycle"
)

// This file keeps the servers alive that `sluice up` started.

// A server that lived this long had started well, and is started again at
// once; one that did not waits, each time longer, up to longestPause.
const (
	livedWell    = 30 * time.Second
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
)

// kept starts a server again when it ends without having been asked. Its
// address stays, so those who use it find it again by themselves.
func kept(server lifecycle.Service, log *slog.Logger) lifecycle.Service {
	return lifecycle.NewLoop(fmt.Sprint(server), server.Start, func(fetch, work context.Context) error {
		var pause time.Duration
		began := time.Now()
		for {
			select {
			case <-fetch.Done():
				return server.Stop(work)
			case <-server.Done():
			}
			if time.Since(began) > livedWell {
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
			// When this fails the server is done still, and its error is the next round's.
			_ = server.Start(fetch)
		}
	})
}
