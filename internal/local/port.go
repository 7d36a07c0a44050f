// This file deals with ports: the servers here take theirs by number, so one that is free may be
// gone a moment later.

package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// Ports are chosen below those that systems give to connections and to listeners that name none
// (from 32768 on Linux, from 49152 elsewhere): else one of these may have a server's port when it
// starts again after a crash.
const firstPort, lastPort = 20_000, 32_000

// choosePort returns fixed, if it is one and free, else a port that nobody listens on now.
func choosePort(fixed int) (int, error) {
	if fixed != 0 {
		return listenable(fixed)
	}
	for range 100 {
		if port, err := listenable(firstPort + rand.IntN(lastPort-firstPort)); err == nil {
			return port, nil
		}
	}
	return listenable(0)
}

// listenable returns the port, or any when it is 0, if it can be listened on.
func listenable(port int) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(Host, strconv.Itoa(port)))
	if err != nil {
		return 0, fmt.Errorf("finding a port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// taken reports whether somebody listens on the port.
func taken(port int) bool {
	_, err := listenable(port)
	return err != nil
}

// awaitPort waits ten seconds at most until the port that a server had can be listened on: a
// process of a killed server that has not noticed yet may have it for a moment.
func awaitPort(ctx context.Context, port int) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 200 {
		_, err := listenable(port)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
	return nil // choosing it says that it is taken
}
