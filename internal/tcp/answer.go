package tcp

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// DialAnswering returns a DialContext like Dialer's, whose connections fail a read, and are closed,
// when nothing arrives for limit. The other side's kernel, or a proxy in front of it, may
// acknowledge data although nobody answers any more, which Silence does not detect. limit must be
// longer than the other side may take to answer.
func DialAnswering(limit time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := Dialer()
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newLimited(c, limit), nil
	}
}

// limited is a connection that is closed when a read has waited for limit.
type limited struct {
	net.Conn
	limit time.Duration
	timer *time.Timer // runs during a read
	over  atomic.Bool
}

func newLimited(c net.Conn, limit time.Duration) *limited {
	a := &limited{Conn: c, limit: limit}
	// This is no read deadline, because users of the connection set those to cancel.
	a.timer = time.AfterFunc(limit, func() {
		a.over.Store(true)
		_ = a.Conn.Close()
	})
	a.timer.Stop()
	return a
}

func (a *limited) Read(p []byte) (int, error) {
	a.timer.Reset(a.limit)
	n, err := a.Conn.Read(p)
	a.timer.Stop()
	if err != nil && a.over.Load() {
		err = fmt.Errorf("no answer from %s for %s: %w", a.RemoteAddr(), a.limit, net.ErrClosed)
	}
	return n, err
}

// NetConn returns the underlying connection.
func (a *limited) NetConn() net.Conn { return a.Conn }
