package apiserver

// A process subscribes once to the events of a tenant, and passes them to all clients that follow
// the tenant.

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// changeBuffer is how many changes are buffered for a client that reads slowly.
const changeBuffer = 256

// eventHub has one subscription for each tenant that has followers.
type eventHub struct {
	nats *nats.Conn

	mu      sync.Mutex
	tenants map[uuid.UUID]*tenantFollowers
}

// tenantFollowers is a tenant's subscription with its followers.
type tenantFollowers struct {
	sub       *nats.Subscription
	followers map[chan *api.ChangeEvent]struct{}
}

func newEventHub(nc *nats.Conn) *eventHub {
	return &eventHub{nats: nc, tenants: map[uuid.UUID]*tenantFollowers{}}
}

// FollowEvents implements httpapi.Events.
func (o operationAPI) FollowEvents(ctx context.Context, p schema.Principal) (<-chan *api.ChangeEvent, error) {
	changes, err := o.hub.follow(ctx, p.Tenant)
	if err != nil {
		return nil, fmt.Errorf("follow the events of tenant %s: %w", p.Tenant, err)
	}
	return changes, nil
}

// follow adds a follower until ctx ends. It gets all events that happen after follow returns.
func (h *eventHub) follow(ctx context.Context, tenant uuid.UUID) (<-chan *api.ChangeEvent, error) {
	changes := make(chan *api.ChangeEvent, changeBuffer)
	h.mu.Lock()
	f := h.tenants[tenant]
	if f == nil || !f.sub.IsValid() { // the subscription ended when its connection was closed
		sub, err := h.nats.Subscribe(wire.TenantEvents(tenant), func(m *nats.Msg) { h.dispatch(tenant, m) })
		if err != nil {
			h.mu.Unlock()
			return nil, err
		}
		f = &tenantFollowers{sub: sub, followers: map[chan *api.ChangeEvent]struct{}{}}
		h.tenants[tenant] = f
	}
	f.followers[changes] = struct{}{}
	h.mu.Unlock()
	context.AfterFunc(ctx, func() { h.unfollow(tenant, f, changes) })
	// Flush also if the subscription was there already: its own flush may be in progress.
	return changes, h.nats.FlushWithContext(ctx)
}

func (h *eventHub) unfollow(tenant uuid.UUID, f *tenantFollowers, changes chan *api.ChangeEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(f.followers, changes); len(f.followers) > 0 {
		return
	}
	_ = f.sub.Unsubscribe() // closing the connection ends it too
	if h.tenants[tenant] == f {
		delete(h.tenants, tenant)
	}
}

// dispatch passes an event to the followers of its tenant. It does not block.
func (h *eventHub) dispatch(tenant uuid.UUID, m *nats.Msg) {
	c, err := changeOf(m)
	if err != nil { // an event of a newer build
		slog.Debug("could not read an event", "subject", m.Subject, "error", err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.tenants[tenant]; f != nil {
		for changes := range f.followers {
			put(changes, &c)
		}
	}
}

// put adds a change to a follower's buffer. If the buffer is full, the oldest change is dropped,
// and a copy of the new one counts it in Dropped. No other goroutine may send on changes.
func put(changes chan *api.ChangeEvent, c *api.ChangeEvent) {
	if len(changes) == cap(changes) {
		select {
		case old := <-changes:
			late := *c
			late.Dropped = 1 + old.Dropped
			c = &late
		default: // the follower has just received it
		}
	}
	changes <- c
}

func changeOf(m *nats.Msg) (api.ChangeEvent, error) {
	_, kind, _ := strings.Cut(strings.TrimPrefix(m.Subject, "sluice.events."), ".")
	if strings.HasPrefix(kind, "question.") {
		e, err := wire.Decode[wire.QuestionEvent](m.Data)
		return api.ChangeEvent{At: e.At, Kind: e.Kind, Collection: e.Collection, Job: e.Question, State: string(e.State), Reason: e.Reason}, err
	}
	e, err := wire.Decode[wire.Event](m.Data)
	return api.ChangeEvent{At: e.At, Kind: e.Kind, Collection: e.Collection, Document: e.Document, ExternalID: e.ExternalID, State: string(e.State), Reason: e.Reason}, err
}
