package auth

// What permissions of sources give people: the labels of the access lists that let them in, beside
// their own groups.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// AccessStore works out what permissions of sources give.
type AccessStore interface {
	// AccessRevision changes whenever what somebody of a tenant sees may have changed; 0: no source
	// has permissions.
	AccessRevision(ctx context.Context, tenant uuid.UUID) (int64, error)
	// AccessLabels returns the labels that p gets, and a revision that was current before.
	AccessLabels(ctx context.Context, p schema.Principal) ([]string, int64, error)
}

const (
	// believeRevision is how long a revision is believed: what is revoked holds this much longer at
	// most, in all processes, whether or not they hear of it.
	believeRevision = 500 * time.Millisecond
	// keepLabels bounds of how many people labels are kept.
	keepLabels = 4096
)

// Permits gives principals what permissions of sources say. It is safe for concurrent use.
type Permits struct {
	store AccessStore
	now   func() time.Time

	mu        sync.Mutex
	revisions map[uuid.UUID]knownRevision
	labels    map[string]knownLabels
}

type knownRevision struct {
	revision int64
	at       time.Time // before it was read
}

type knownLabels struct {
	revision int64
	labels   []string
}

// NewPermits returns Permits on top of a store.
func NewPermits(store AccessStore) *Permits {
	return &Permits{store: store, now: time.Now, revisions: map[uuid.UUID]knownRevision{}, labels: map[string]knownLabels{}}
}

// Permit returns p with its own groups and the labels that permissions give it now. On an error it
// has its own alone.
func (a *Permits) Permit(ctx context.Context, p schema.Principal) (schema.Principal, error) {
	p.Groups = p.OwnGroups()
	labels, err := a.current(ctx, p)
	if err != nil {
		return p, fmt.Errorf("look up what sources let %s see: %w", p.Name, err)
	}
	p.Groups = append(p.Groups, labels...)
	return p, nil
}

// Forget has the store asked again for a tenant, whose permissions were changed here.
func (a *Permits) Forget(tenant uuid.UUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.revisions, tenant)
}

func (a *Permits) current(ctx context.Context, p schema.Principal) ([]string, error) {
	revision, err := a.revision(ctx, p.Tenant)
	if err != nil || revision == 0 {
		return nil, err
	}
	who := nameOf(p)
	a.mu.Lock()
	known, ok := a.labels[who]
	a.mu.Unlock()
	if ok && known.revision == revision {
		return known.labels, nil
	}
	labels, revision, err := a.store.AccessLabels(ctx, p)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.labels) >= keepLabels {
		clear(a.labels)
	}
	a.labels[who] = knownLabels{revision, labels}
	return labels, nil
}

func (a *Permits) revision(ctx context.Context, tenant uuid.UUID) (int64, error) {
	now := a.now()
	a.mu.Lock()
	known, ok := a.revisions[tenant]
	a.mu.Unlock()
	if ok && now.Before(known.at.Add(believeRevision)) {
		return known.revision, nil
	}
	revision, err := a.store.AccessRevision(ctx, tenant)
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.revisions) >= keepLabels {
		clear(a.revisions)
	}
	a.revisions[tenant] = knownRevision{revision, now}
	return revision, nil
}

// nameOf tells principals apart who may see different things.
func nameOf(p schema.Principal) string {
	return fmt.Sprintf("%s %s %t %q %q", p.Tenant, p.Key, p.Acting, p.Person, strings.Join(slices.Sorted(slices.Values(p.Groups)), "\x00"))
}
