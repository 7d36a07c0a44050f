// Package tcp makes connections that end when the other side is gone without a word: a machine that
// lost its power, a container whose network was taken away. Left alone, the kernel tries for a
// quarter of an hour.
package tcp

import (
	"net"
	"time"
)

// Silence is how long the other side may leave what was sent unacknowledged, or a probe unanswered,
// before the connection ends.
const Silence = 25 * time.Second

// Dialer makes connections that end after Silence.
func Dialer() *net.Dialer {
	return &net.Dialer{
		// Of a connection on which nothing is to be acknowledged, such as one that waits for a
		// reply.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         control,
	}
}
