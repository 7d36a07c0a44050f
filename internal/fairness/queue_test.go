package fairness

// This file tests the order of the queue, by examples and on random work.

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

func anything(string) bool { return true }

func anyTenant(*tenant[uuid.UUID]) bool { return true }

// TestLeastUsageIsServedFirst: tenants with the least use are served first, then those with the
// fewest running items, then those served longest ago.
func TestLeastUsageIsServedFirst(t *testing.T) {
	now := time.Unix(0, 0)
	q := NewQueue[string](0)
	for tenant, name := range map[uuid.UUID]string{loud: "loud", quiet: "quiet"} {
		for range 3 {
			q.Put(tenant, name, now)
		}
	}
	first := func(want string) {
		t.Helper()
		if got, _ := q.First(anything); got != want {
			t.Fatalf("%s is first, want %s", got, want)
		}
	}
	q.Charge(loud, time.Second)
	first("quiet")
	q.Charge(quiet, time.Second)
	q.Begin(loud)
	first("quiet")
	q.Begin(quiet)
	first("loud")
	q.End(quiet, now)
	first("quiet")
	if got, found := q.First(func(name string) bool { return name == "loud" }); !found || got != "loud" {
		t.Errorf("%q is first of what may be, want loud", got)
	}
	if _, found := q.First(func(string) bool { return false }); found {
		t.Error("something is first of nothing")
	}
}

// TestAQueueForgetsTenants: it forgets silent tenants, except those with waiting or running items.
func TestAQueueForgetsTenants(t *testing.T) {
	q, now := NewQueue[string](0), time.Unix(0, 0)
	for i := range 100 {
		tenant := uuid.UUID{byte(i)}
		if q.Put(tenant, "an item", now); i != 7 {
			q.Remove(tenant, "an item")
		}
		if i == 8 {
			q.Begin(tenant)
		}
	}
	now = now.Add(tenantTTL)
	q.Put(uuid.UUID{200}, "an item", now)
	if len(q.tenants) != 3 {
		t.Errorf("%d tenants are known, want those that wait, run and came", len(q.tenants))
	}
}

// TestATenantsUseIsItsShare: whatever items cost, tenants that always have items waiting use the
// same, up to one item's cost and the credit.
func TestATenantsUseIsItsShare(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		const credit, most = 20 * time.Millisecond, 100 * time.Millisecond
		q, now := NewQueue[uuid.UUID](credit), time.Unix(0, 0)
		tenants := make([]uuid.UUID, 2+r.IntN(6))
		cost, used := map[uuid.UUID]time.Duration{}, map[uuid.UUID]time.Duration{}
		for i := range tenants {
			tenants[i] = uuid.UUID{byte(i + 1)}
			cost[tenants[i]] = 1 + rand.N(most)
			for range 1 + r.IntN(5) {
				q.Put(tenants[i], tenants[i], now)
			}
		}
		for range 2000 {
			id := q.take(q.first(anyTenant))
			took := 1 + time.Duration(r.Int64N(int64(cost[id])))
			now = now.Add(took)
			q.Charge(id, took)
			q.End(id, now)
			used[id] += took
			q.Put(id, id, now)
		}
		least, largest := used[tenants[0]], used[tenants[0]]
		for _, id := range tenants {
			least, largest = min(least, used[id]), max(largest, used[id])
		}
		if largest-least > most+credit {
			t.Errorf("seed %d: tenants used %v", seed, used)
		}
	}
}

// TestATenantThatComesBackWaitsForNoBacklog: it is served before all that wait, as long as its
// credit lasts.
func TestATenantThatComesBackWaitsForNoBacklog(t *testing.T) {
	q, now := NewQueue[uuid.UUID](20*time.Millisecond), time.Unix(0, 0)
	for range 1000 {
		q.Put(loud, loud, now)
		q.Put(third, third, now)
	}
	serve := func() uuid.UUID {
		id := q.take(q.first(anyTenant))
		q.Charge(id, 5*time.Millisecond)
		q.End(id, now)
		return id
	}
	for range 500 {
		serve()
	}
	for range 8 {
		q.Put(quiet, quiet, now)
	}
	var got []uuid.UUID
	for range 8 {
		got = append(got, serve())
	}
	if own := slices.IndexFunc(got, func(id uuid.UUID) bool { return id != quiet }); own < 4 || own > 5 {
		t.Errorf("it was served %d times in a row, want for 20ms", own)
	}
}
