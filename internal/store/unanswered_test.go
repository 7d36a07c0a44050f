package store_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
)

// mute is a way to a server. While it is on, the connections through it die: all that is sent is acknowledged, and nothing
// is answered, also later.
type mute struct {
	net.Listener
	server string
	on     atomic.Bool
	copies sync.WaitGroup
}

// newMute returns such a way to the server of a database, and the database's URL by it.
func newMute(t *testing.T, database string) (*mute, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mute{Listener: listener, server: u.Host}
	m.copies.Go(m.serve)
	t.Cleanup(func() { _ = m.Close(); m.copies.Wait() })
	u.Host = listener.Addr().String()
	return m, u.String()
}

func (m *mute) serve() {
	for {
		client, err := m.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", m.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		var dead atomic.Bool
		forward := func(to io.Writer, from io.Reader) {
			defer func() { _ = client.Close(); _ = server.Close() }()
			buffer := make([]byte, 1<<16)
			for {
				n, err := from.Read(buffer)
				if m.on.Load() {
					dead.Store(true)
				}
				if !dead.Load() {
					_, broken := to.Write(buffer[:n])
					err = errors.Join(err, broken)
				}
				if err != nil {
					return
				}
			}
		}
		m.copies.Go(func() { forward(server, client) })
		m.copies.Go(func() { forward(client, server) })
	}
}

// Whoever waits for a server that answers no more hears that it is unavailable, and the pool has its connection again.
func TestConnectionsThatNobodyAnswersEnd(t *testing.T) {
	f := setUp(t, store.Options{})
	way, through := newMute(t, f.url)
	s := open(t, through, store.Options{MaxConns: 1, Unanswered: 2 * time.Second})
	one := func(meanwhile func()) error {
		return s.AsTenant(waittest.Context(t), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			meanwhile()
			_, err := tx.Exec(ctx, `SELECT 1`)
			return err
		})
	}
	if err := one(func() { way.on.Store(true) }); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	way.on.Store(false)
	waittest.Until(t, func() string {
		if err := one(func() {}); err != nil { // on a busy machine two seconds may pass without an answer
			return err.Error()
		}
		return ""
	})
}
