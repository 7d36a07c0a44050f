package auth

// This file adds to principals what permissions of sources give them: besides their own groups, the
// labels of the access lists that allow them.

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

// AccessStore evaluates the permissions of sources.
type AccessStore interface {
	// AccessRevision returns a number that changes whenever what somebody of a tenant sees may have
	// changed; 0 means that no source has permissions.
	AccessRevision(ctx context.Context, tenant uuid.UUID) (int64, error)
	// AccessLabels returns the labels that p gets, and a revision that was current before they were
	// read, or 0 if they may change without another revision.
	AccessLabels(ctx context.Context, p schema.Principal) ([]string, int64, error)
}

const (
	// believeRevision is how long a revision is cached: in all processes, a revoked permission
	// lasts at most this much longer, whether or not they are notified.
	believeRevision = 500 * time.Millisecond
	// keepLabels bounds the principals whose labels are cached, and the tenants whose revisions
	// are.
	keepLabels = 4096
)

// Permits adds to principals what permissions of sources give them. It is safe for concurrent use.
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

// Permit returns p with its own groups and the labels that permissions currently give it. With an
// error it returns p with its own groups only.
func (a *Permits) Permit(ctx context.Context, p schema.Principal) (schema.Principal, error) {
	p.Groups = p.OwnGroups()
	labels, err := a.current(ctx, p)
	if err != nil {
		return p, fmt.Errorf("look up what %s may see of sources: %w", p.Name, err)
	}
	p.Groups = append(p.Groups, labels...)
	return p, nil
}

// Forget drops the cached revision of a tenant, whose permissions were changed by this process.
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
	if revision == 0 {
		return labels, nil
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

// nameOf returns a cache key: principals with equal keys see the same.
func nameOf(p schema.Principal) string {
	return fmt.Sprintf("%s %s %t %q %q", p.Tenant, p.Key, p.Acting, p.Person, strings.Join(slices.Sorted(slices.Values(p.Groups)), "\x00"))
}
