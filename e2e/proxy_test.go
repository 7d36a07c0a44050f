package e2e

// This file has a proxy between the programs and a server that can interrupt connections in the
// ways that networks do.

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// link forwards connections to a server.
type link struct {
	listener net.Listener
	target   string
	others   []string // tried in turn if the target refuses connections

	mu      sync.Mutex
	refuses bool
	silent  bool
	closed  bool
	open    map[*pair]bool
	running sync.WaitGroup
}

// pair is a connection through the link. A dead pair stays open and carries nothing.
type pair struct {
	client, server net.Conn
	dead           chan struct{}
	die            func()
}

// newLink makes a link to a host:port.
func newLink(t *testing.T, target string) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{listener: l, target: target, open: map[*pair]bool{}}
	k.running.Go(k.accept)
	t.Cleanup(func() {
		_ = l.Close()
		k.mu.Lock()
		k.closed = true
		k.mu.Unlock()
		k.drop()
		k.running.Wait()
	})
	return k
}

func (k *link) address() string { return k.listener.Addr().String() }

// through returns a URL of the server that leads through the link.
func (k *link) through(url string) string { return strings.Replace(url, k.target, k.address(), 1) }

func (k *link) accept() {
	for {
		client, err := k.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		server, err := k.dial()
		if err != nil {
			_ = client.Close()
			continue
		}
		dead := make(chan struct{})
		p := &pair{client, server, dead, sync.OnceFunc(func() { close(dead) })}
		k.mu.Lock()
		refuses, silent := k.refuses || k.closed, k.silent
		k.open[p] = true
		k.mu.Unlock()
		if refuses { // refuses may have changed after the connection was accepted
			k.end(p)
			continue
		}
		if silent {
			p.die()
		}
		k.running.Go(func() { k.carry(p, client, server) })
		k.running.Go(func() { k.carry(p, server, client) })
	}
}

func (k *link) dial() (server net.Conn, err error) {
	for _, target := range append([]string{k.target}, k.others...) {
		if server, err = net.Dial("tcp", target); err == nil {
			return server, nil
		}
	}
	return nil, err
}

func (k *link) carry(p *pair, to io.WriteCloser, from io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-p.dead: // it reads on, so what is sent is acknowledged and lost
			if err != nil {
				return
			}
			continue
		default:
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			k.end(p)
			return
		}
	}
}

func (k *link) end(p *pair) {
	_, _ = p.client.Close(), p.server.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.open, p)
}

func (k *link) pairs() (out []*pair) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for p := range k.open {
		out = append(out, p)
	}
	return out
}

// drop closes all connections.
func (k *link) drop() {
	for _, p := range k.pairs() {
		k.end(p)
	}
}

// refuse closes all connections and refuses new ones, or accepts connections again.
func (k *link) refuse(on bool) {
	k.mu.Lock()
	k.refuses = on
	k.mu.Unlock()
	if on {
		k.drop()
	}
}

// silence makes all connections and new ones dead, without closing them. Dead connections stay dead
// when silence ends.
func (k *link) silence(on bool) {
	k.mu.Lock()
	k.silent = on
	k.mu.Unlock()
	if on {
		for _, p := range k.pairs() {
			p.die()
		}
	}
}
