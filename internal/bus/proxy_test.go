package bus_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// proxy forwards connections to a server until it becomes a black hole: from then on it keeps them
// open but forwards nothing.
type proxy struct {
	t        *testing.T
	listener net.Listener
	target   string

	mu      sync.Mutex
	open    []net.Conn
	hole    context.CancelFunc
	swallow context.Context
	running sync.WaitGroup
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, listener: l, target: target}
	p.swallow, p.hole = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.hole()
		p.mu.Lock()
		for _, c := range p.open {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.open = append(p.open, client, server)
		p.mu.Unlock()
		p.running.Go(func() { p.carry(client, server) })
		p.running.Go(func() { p.carry(server, client) })
	}
}

// carry reads for ever, so that neither side notices anything, not even a full window.
func (p *proxy) carry(to io.WriteCloser, from io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if p.swallow.Err() == nil {
			if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
				_ = to.Close()
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// drop makes existing and new connections carry nothing any more.
func (p *proxy) drop() { p.hole() }
