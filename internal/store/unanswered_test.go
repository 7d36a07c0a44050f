package store_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
)

// blackHole is a proxy to a server. While it is on, connections through it die: everything that is
// sent is acknowledged, and nothing is answered, even later.
type blackHole struct{ on atomic.Bool }

func (m *blackHole) filters() (sent, received filter) {
	var dead atomic.Bool
	f := func([]byte) filterAction {
		if m.on.Load() {
			dead.Store(true)
		}
		if dead.Load() {
			return drop
		}
		return pass
	}
	return f, f
}

// A caller that waits for a server that no longer answers gets ErrUnavailable, and the pool gets
// its connection back.
func TestConnectionsThatNobodyAnswersEnd(t *testing.T) {
	f := setUp(t, store.Options{})
	proxy := &blackHole{}
	s := open(t, newProxy(t, f.url, proxy.filters), store.Options{MaxConns: 1, Unanswered: 2 * time.Second})
	one := func(meanwhile func()) error {
		return s.AsTenant(waittest.Context(t), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			meanwhile()
			_, err := tx.Exec(ctx, `SELECT 1`)
			return err
		})
	}
	if err := one(func() { proxy.on.Store(true) }); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	proxy.on.Store(false)
	waittest.Until(t, func() string {
		if err := one(func() {}); err != nil { // on a busy machine two seconds may pass without an answer
			return err.Error()
		}
		return ""
	})
}
