package apiserver

// What nearly every request looks up is remembered for a moment: which collection a
// name means, and which plan it is asked with. A process that changes such a thing
// tells the others, by NATS; one that does not hear it believes what it knows for
// lookupTime.

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
	// maxLookups bounds how many are remembered.
	maxLookups = 65_536
)

// lookups remembers what was looked up, by tenant. It is safe for concurrent use.
type lookups struct {
	nats     *nats.Conn
	believed time.Duration
	// also is told of a tenant whose keys, collections or plans have changed elsewhere.
	also func(tenant uuid.UUID)

	mu      sync.Mutex
	known   map[uuid.UUID]map[any]lookup
	size    int
	changes uint64 // told of so far
}

// lookup is what was found, and until when it is believed.
type lookup struct {
	value any
	until time.Time
}

// Keys of what is looked up.
type (
	collectionNamed struct{ ref string }
	planOf          struct{ collection uuid.UUID }
	planNamed       struct{ name string }
)

func newLookups(nc *nats.Conn, believed time.Duration, also func(tenant uuid.UUID)) *lookups {
	return &lookups{nats: nc, believed: cmp.Or(believed, lookupTime), also: also, known: map[uuid.UUID]map[any]lookup{}}
}

// look returns what is known under a key, or else what find finds. Errors are not
// remembered, nor is what may have changed while it was looked for.
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

// changed forgets what is known of a tenant, here and in other processes. It is called
// when the change is committed.
func (l *lookups) changed(ctx context.Context, tenant uuid.UUID) {
	l.forget(tenant)
	data, err := wire.Encode(wire.Changed{Envelope: wire.Header(), Tenant: tenant})
	if err == nil {
		err = l.nats.Publish(wire.ChangedSubject, data)
	}
	if err != nil { // they believe what they know for lookupTime
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

// listen hears of changes elsewhere until stop is called.
func (l *lookups) listen() (stop func(), err error) {
	sub, err := l.nats.Subscribe(wire.ChangedSubject, func(m *nats.Msg) {
		c, err := wire.Decode[wire.Changed](m.Data)
		if err != nil { // of a newer build
			slog.Debug("cannot decode a notice of a change", "error", err)
			return
		}
		l.forget(c.Tenant)
		l.also(c.Tenant)
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", wire.ChangedSubject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // the connection's end ends it too
}
