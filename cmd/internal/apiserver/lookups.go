package apiserver

// A short-lived cache of what nearly every request looks up: the collection that a name means, and
// the plan that it is asked with. A process that changes these notifies the others by NATS. A
// process that misses the notification uses its cached values for lookupTime.

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	lookupTime = 3 * time.Second
	// maxLookups bounds the number of cached values.
	maxLookups = 65_536
)

// lookups is a cache of lookups by tenant. It is safe for concurrent use.
type lookups struct {
	nats     *nats.Conn
	believed time.Duration
	// also is called with a tenant whose keys, collections or plans another process has changed.
	also func(tenant uuid.UUID)

	mu      sync.Mutex
	known   map[uuid.UUID]map[any]lookup
	size    int
	changes uint64 // number of changes seen so far
}

// lookup is a cached value and the time until which it is used.
type lookup struct {
	value any
	until time.Time
}

// Keys of cached values.
type (
	collectionNamed struct{ ref string }
	planOf          struct{ collection uuid.UUID }
	planNamed       struct{ name string }
)

func newLookups(nc *nats.Conn, believed time.Duration, also func(tenant uuid.UUID)) *lookups {
	return &lookups{nats: nc, believed: cmp.Or(believed, lookupTime), also: also, known: map[uuid.UUID]map[any]lookup{}}
}

// look returns the cached value of a key, or else calls find. Errors are not cached, nor are values
// if anything changed during find.
func look[T any](l *lookups, tenant uuid.UUID, key any, find func() (T, error)) (T, error) {
	now := time.Now()
	l.mu.Lock()
	k, ok := l.known[tenant][key]
	changes := l.changes
	l.mu.Unlock()
	if ok && now.Before(k.until) {
		return k.value.(T), nil
	}
	found, err := find()
	if err != nil {
		return found, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changes != changes {
		return found, nil
	}
	if l.size >= maxLookups {
		clear(l.known)
		l.size = 0
	}
	of := l.known[tenant]
	if of == nil {
		of = map[any]lookup{}
		l.known[tenant] = of
	}
	if _, ok := of[key]; !ok {
		l.size++
	}
	of[key] = lookup{value: found, until: now.Add(l.believed)}
	return found, nil
}

// changed drops the cached values of a tenant, here and in other processes. It is called after the
// change is committed.
func (l *lookups) changed(ctx context.Context, tenant uuid.UUID) {
	l.forget(tenant)
	data, err := wire.Encode(wire.Changed{Envelope: wire.Header(), Tenant: tenant})
	if err == nil {
		err = l.nats.Publish(wire.ChangedSubject, data)
	}
	if err != nil { // they use their cached values for lookupTime
		slog.DebugContext(ctx, "cannot notify other servers of a change", "tenant", tenant, "error", err)
	}
}

func (l *lookups) forget(tenant uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.size -= len(l.known[tenant])
	delete(l.known, tenant)
}

// listen drops cached values that other processes have changed, until stop is called.
func (l *lookups) listen() (stop func(), err error) {
	sub, err := l.nats.Subscribe(wire.ChangedSubject, func(m *nats.Msg) {
		c, err := wire.Decode[wire.Changed](m.Data)
		if err != nil { // a message of a newer build
			slog.Debug("cannot decode a notice of a change", "error", err)
			return
		}
		l.forget(c.Tenant)
		l.also(c.Tenant)
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", wire.ChangedSubject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // closing the connection ends it too
}
