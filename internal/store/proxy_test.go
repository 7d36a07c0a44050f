package store_test

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// A filter decides what happens to bytes that pass the proxy.
type filter func([]byte) filterAction

type filterAction int

const (
	pass filterAction = iota
	drop              // they are discarded; the connection stays
	cut               // the connection is closed in their place
)

// newProxy starts a proxy to the server of a database, and returns the database's URL through it.
// filters returns the filters of a connection, for what is sent to the server and what is received
// from it.
func newProxy(t *testing.T, database string, filters func() (sent, received filter)) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := u.Host
	var copies sync.WaitGroup
	copies.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			sent, received := filters()
			copies.Go(func() { forward(server, client, sent) })
			copies.Go(func() { forward(client, server, received) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); copies.Wait() })
	u.Host = listener.Addr().String()
	return u.String()
}

// forward copies what f passes, and closes both when one has ended.
func forward(to, from net.Conn, f filter) {
	defer func() { _ = to.Close(); _ = from.Close() }()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		var broken error
		if n > 0 {
			switch f(buffer[:n]) {
			case pass:
				_, broken = to.Write(buffer[:n])
			case cut:
				return
			}
		}
		if err != nil || broken != nil {
			return
		}
	}
}
