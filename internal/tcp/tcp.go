// Package tcp makes connections that end when the other side disappears silently: a machine that
// lost its power, a container whose network was removed. By default, the kernel retries for a
// quarter of an hour.
package tcp

import (
	"net"
	"time"
)

// Silence is how long sent data may stay unacknowledged, or a probe unanswered, before the
// connection ends.
const Silence = 25 * time.Second

// Dialer returns a dialer for connections that end after Silence.
func Dialer() *net.Dialer {
	return &net.Dialer{
		// For a connection with nothing to acknowledge, such as one that waits for a reply.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         control,
	}
}
