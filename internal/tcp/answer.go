package tcp

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// DialAnswering is the DialContext of a Dialer's connections on which a read fails, and which end,
// when nothing comes for limit. The other side's kernel, or a proxy before it, may acknowledge what
// nobody answers any more, which Silence does not see. The limit has to be longer than whatever the
// other side may take.
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
	timer *time.Timer // runs while there is a read
	over  atomic.Bool
}

func newLimited(c net.Conn, limit time.Duration) *limited {
	a := &limited{Conn: c, limit: limit}
	// Not a read deadline: whoever uses the connection sets those, to cancel.
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

// NetConn returns the connection beneath.
func (a *limited) NetConn() net.Conn { return a.Conn }
