package lifecycle

import (
	"context"
	"log/slog"
	"time"
)

const (
	// Connecting is how long a program waits at its start for the servers that it needs.
	// Supervisors pause longer before each restart, so programs wait themselves; the chart's
	// startup probes wait 5 minutes for them.
	Connecting = 4 * time.Minute

	connectAgain = 250 * time.Millisecond
	connectWarn  = 10 * time.Second
)

// Connect dials until it succeeds or ctx ends, in which case it returns the last error. Every 10
// seconds it logs the server that it waits for, with the error.
func Connect[T any](ctx context.Context, server string, dial func(context.Context) (T, error)) (T, error) {
	warned := time.Now()
	for {
		conn, err := dial(ctx)
		if err == nil {
			return conn, nil
		}
		if time.Since(warned) >= connectWarn {
			warned = time.Now()
			slog.WarnContext(ctx, "a server does not answer; trying again", "server", server, "error", err)
		}
		select {
		case <-ctx.Done():
			return conn, err
		case <-time.After(connectAgain):
		}
	}
}
