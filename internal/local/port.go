// This file chooses ports. Servers get their port by number, so a free one may be taken a moment
// later.

package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// Ports are chosen below the range that systems assign to connections and to listeners without a
// port (from 32768 on Linux, from 49152 elsewhere). Otherwise one of these might have a server's
// port when it restarts after a crash.
const firstPort, lastPort = 20_000, 32_000

// choosePort returns fixed if it is free, or if it is 0 a port on which nothing listens now.
func choosePort(fixed int) (int, error) {
	if fixed != 0 {
		return listenable(fixed)
	}
	return FreePort()
}

// FreePort returns a port on which nothing listens now.
func FreePort() (int, error) {
	for range 100 {
		if port, err := listenable(firstPort + rand.IntN(lastPort-firstPort)); err == nil {
			return port, nil
		}
	}
	return listenable(0)
}

// listenable returns the port, or a free one if port is 0. It returns an error if the port is
// taken.
func listenable(port int) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(Host, strconv.Itoa(port)))
	if err != nil {
		return 0, fmt.Errorf("finding a port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// taken reports whether something listens on the port.
func taken(port int) bool {
	_, err := listenable(port)
	return err != nil
}

// awaitPort waits at most ten seconds until a server's port is free: a process of a killed server
// may still have it for a moment. So may a process that is being started: until it runs its program
// it has copies of this process's descriptors.
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
	return nil // choosePort then returns the error
}
