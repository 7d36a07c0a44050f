package apiserver_test

// This file has a proxy between a server and Postgres that cuts the connection right after a
// commit, as a kill of the server's process does.

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/cmd/internal/apiserver"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/store"
)

// commitCutter forwards the messages of a server and its database until a number of commits have
// succeeded. Then neither gets any more messages.
type commitCutter struct {
	address, target string
	listener        net.Listener
	running         sync.WaitGroup

	mu      sync.Mutex
	commits int // number of commits until the cut; 0: no cut
	cut     bool
	open    map[net.Conn]bool
}

func newCommitCutter(t *testing.T, target string) *commitCutter {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &commitCutter{address: l.Addr().String(), target: target, listener: l, open: map[net.Conn]bool{}}
	c.running.Go(c.accept)
	t.Cleanup(func() {
		_ = l.Close()
		c.end()
		c.running.Wait()
	})
	return c
}

func (c *commitCutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		var d net.Dialer
		server, err := d.DialContext(context.Background(), "tcp", c.target)
		if err != nil || !c.keep(client, server) {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		c.running.Go(func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		})
		c.running.Go(func() {
			c.replies(client, server)
			_, _ = client.Close(), server.Close()
		})
	}
}

// keep records connections; after the cut it refuses them.
func (c *commitCutter) keep(both ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range both {
		c.open[conn] = true
	}
	return !c.cut
}

// replies forwards the database's messages: one byte for the type, four for the length including
// themselves, and the rest.
func (c *commitCutter) replies(client io.Writer, server io.Reader) {
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(server, head); err != nil {
			return
		}
		message := append(head, make([]byte, binary.BigEndian.Uint32(head[1:])-4)...)
		if _, err := io.ReadFull(server, message[5:]); err != nil {
			return
		}
		if head[0] == 'C' && string(message[5:]) == "COMMIT\x00" && c.committed() {
			c.end()
			return
		}
		if _, err := client.Write(message); err != nil {
			return
		}
	}
}

// committed counts a commit, and reports whether it is the last one before the cut.
func (c *commitCutter) committed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commits == 0 {
		return false
	}
	c.commits--
	c.cut = c.cut || c.commits == 0
	return c.cut
}

func (c *commitCutter) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for conn := range c.open {
		_ = conn.Close()
	}
}

// sendAndCut sends a request to another server on w's database, which is cut off after a number of
// commits. It reports whether there were that many.
func (w *world) sendAndCut(commits int, path string, body any, key string) (response, bool) {
	w.t.Helper()
	u, err := url.Parse(w.database)
	if err != nil {
		w.t.Fatal(err)
	}
	c := newCommitCutter(w.t, u.Host)
	u.Host = c.address
	s, err := store.Open(w.t.Context(), u.String(), store.Options{MaxConns: 4})
	if err != nil {
		w.t.Fatal(err)
	}
	server, err := apiserver.New(w.t.Context(), config.HTTP{Listen: "127.0.0.1:0"}, apiserver.Deps{Store: s, NATS: w.nats})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := server.Start(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	c.mu.Lock()
	c.commits = commits
	c.mu.Unlock()
	got := user{t: w.t, url: server.URL(), key: w.key}.post(path, body, key)
	if err := server.Stop(context.Background()); err != nil {
		w.t.Error(err)
	}
	c.mu.Lock()
	cut := c.cut
	c.mu.Unlock()
	c.end()
	s.Close()
	return got, cut
}

// idempotentOperations are the operations of the API that take an idempotency key.
func (w *world) idempotentOperations() map[string]bool {
	w.t.Helper()
	var spec struct {
		Paths map[string]map[string]struct {
			OperationID string
			Parameters  []struct{ Name, In string }
		}
	}
	w.do(http.MethodGet, "/openapi.json", http.NoBody, "").want(http.StatusOK, &spec)
	out := map[string]bool{}
	for _, verbs := range spec.Paths {
		for _, op := range verbs {
			for _, p := range op.Parameters {
				if strings.EqualFold(p.Name, "Idempotency-Key") && p.In == "header" {
					out[op.OperationID] = true
				}
			}
		}
	}
	return out
}
