package apiserver

// A short-lived cache of what nearly every request looks up: the collection that a name means, and
// the plan that it is asked with. A process that changes these notifies the others by NATS. A
// process that misses the notification uses its cached values for cacheTTL.

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
	cacheTTL = 3 * time.Second
	// maxCached bounds the number of cached values.
	maxCached = 65_536
)

// tenantCache is a cache of lookups by tenant. It is safe for concurrent use.
type tenantCache struct {
	nats *nats.Conn
	ttl  time.Duration
	// onChange is called with a tenant whose keys, collections or plans another process has
	// changed.
	onChange func(tenant uuid.UUID)

	mu      sync.Mutex
	entries map[uuid.UUID]map[any]cacheEntry
	size    int
	changes uint64 // number of changes seen so far
}

// cacheEntry is a cached value and the time until which it is used.
type cacheEntry struct {
	value   any
	expires time.Time
}

// Keys of cached values.
type (
	collectionNamed struct{ ref string }
	planOf          struct{ collection uuid.UUID }
	planNamed       struct{ name string }
)

func newTenantCache(nc *nats.Conn, ttl time.Duration, onChange func(tenant uuid.UUID)) *tenantCache {
	return &tenantCache{nats: nc, ttl: cmp.Or(ttl, cacheTTL), onChange: onChange, entries: map[uuid.UUID]map[any]cacheEntry{}}
}

// cached returns the cached value of a key, or else calls find. Errors are not cached, nor are
// values if anything changed during find.
func cached[T any](l *tenantCache, tenant uuid.UUID, key any, find func() (T, error)) (T, error) {
	now := time.Now()
	l.mu.Lock()
	k, ok := l.entries[tenant][key]
	changes := l.changes
	l.mu.Unlock()
	if ok && now.Before(k.expires) {
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
	if l.size >= maxCached {
		clear(l.entries)
		l.size = 0
	}
	ofTenant := l.entries[tenant]
	if ofTenant == nil {
		ofTenant = map[any]cacheEntry{}
		l.entries[tenant] = ofTenant
	}
	if _, ok := ofTenant[key]; !ok {
		l.size++
	}
	ofTenant[key] = cacheEntry{value: found, expires: now.Add(l.ttl)}
	return found, nil
}

// changed drops the cached values of a tenant, here and in other processes. It is called after the
// change is committed.
func (l *tenantCache) changed(ctx context.Context, tenant uuid.UUID) {
	l.forget(tenant)
	data, err := wire.Encode(wire.Changed{Envelope: wire.Header(), Tenant: tenant})
	if err == nil {
		err = l.nats.Publish(wire.ChangedSubject, data)
	}
	if err != nil { // they use their cached values for cacheTTL
		slog.DebugContext(ctx, "cannot notify other servers of a change", "tenant", tenant, "error", err)
	}
}

func (l *tenantCache) forget(tenant uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.size -= len(l.entries[tenant])
	delete(l.entries, tenant)
}

// listen drops cached values that other processes have changed, until stop is called.
func (l *tenantCache) listen() (stop func(), err error) {
	sub, err := l.nats.Subscribe(wire.ChangedSubject, func(m *nats.Msg) {
		c, err := wire.Decode[wire.Changed](m.Data)
		if err != nil { // a message of a newer build
			slog.Debug("cannot decode a notice of a change", "error", err)
			return
		}
		l.forget(c.Tenant)
		l.onChange(c.Tenant)
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", wire.ChangedSubject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // closing the connection ends it too
}
