package batch

// This file decides whose items go first among those of a lane: the tenant's that has used the workers least. It counts
// the time of runs, a tenant's by its share of each batch's cells, as start-time fair queueing does (Goyal, Vin and
// Cheng, 1996), with some credit for who asks seldom: whoever uses less than the others waits for no more than what runs.

import (
	"context"
	"time"

	"github.com/google/uuid"
)

const (
	// credit is how far behind the others a tenant's use may count: what it may run before it takes turns with them.
	credit = 20 * time.Millisecond
	// patience is how long a request yields.
	patience = time.Second
	// remembered is how long an account is kept after its last request.
	remembered = time.Minute
)

type tenantKey struct{}

type terms struct {
	tenant uuid.UUID
	yields bool
}

// ForTenant returns a context whose requests are a tenant's. Interactive ones that yield go after those that don't, and
// leave them a worker, until they have waited for patience. Requests of other contexts count as one tenant's.
func ForTenant(ctx context.Context, tenant uuid.UUID, yields bool) context.Context {
	return context.WithValue(ctx, tenantKey{}, terms{tenant, yields})
}

func termsOf(ctx context.Context) terms {
	t, _ := ctx.Value(tenantKey{}).(terms)
	return t
}

// usage is what a tenant used of the workers' time in a lane.
type usage struct {
	used time.Duration
	seen time.Time
}

// accounts are those of a lane. The pool's mutex guards them.
type accounts struct {
	of     map[uuid.UUID]*usage
	clock  time.Duration // the use of the one that had most of those whose batches began
	forget time.Time     // when to look for those that have been silent
}

// open gives a tenant's account, for a request that comes now.
func (a *accounts) open(tenant uuid.UUID, now time.Time) *usage {
	if now.After(a.forget) {
		for id, of := range a.of {
			if now.Sub(of.seen) > remembered {
				delete(a.of, id)
			}
		}
		a.forget = now.Add(remembered)
	}
	of := a.of[tenant]
	if of == nil {
		of = &usage{}
		if a.of == nil {
			a.of = map[uuid.UUID]*usage{}
		}
		a.of[tenant] = of
	}
	of.seen = now
	of.used = max(of.used, a.clock-credit)
	return of
}

// begin tells that a batch of an account's begins.
func (a *accounts) begin(of *usage) { a.clock = max(a.clock, of.used) }

// rank is the place of a request in its lane.
type rank struct {
	used    time.Duration
	arrived time.Time
}

func (r *request) rank() rank { return rank{r.account.used, r.arrived} }

// before reports whether a goes before b: by use, then by age.
func (a rank) before(b rank) bool {
	return a.used < b.used || a.used == b.used && a.arrived.Before(b.arrived)
}

// charge books the time of a run on the accounts of its items, by cells. The pool's mutex is held.
func charge[T any](batch []entry[T], took time.Duration) {
	cells := 0
	for _, e := range batch {
		cells += e.size.Cells
	}
	for _, e := range batch {
		e.request.account.used += took * time.Duration(e.size.Cells) / time.Duration(max(1, cells))
	}
}
