// This file deals with ports: the servers here take theirs by number, so one that is free may be gone a moment later.

package local

import (
	"fmt"
	"net"
	"strconv"
)

// choosePort returns fixed, if it is one and free, else a port that nobody listens on now.
func choosePort(fixed int) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(Host, strconv.Itoa(fixed)))
	if err != nil {
		return 0, fmt.Errorf("finding a port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// taken reports whether somebody listens on the port.
func taken(port int) bool {
	_, err := choosePort(port)
	return err != nil
}
