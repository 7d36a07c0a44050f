package ingest

// This file tests whose batch is next and how many are open, without servers and with a clock of its own.

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

// until is the time until which somebody searches.
type until struct{ time.Time }

func (u *until) Left(now time.Time) time.Duration { return max(0, u.Sub(now)) }

func opens(t *testing.T, p *places, now time.Time, want ...uuid.UUID) {
	t.Helper()
	for i, tenant := range want {
		g := p.next(now)
		if g == nil || g.tenant != tenant {
			t.Fatalf("batch %d is %+v, want one of %s", i, g, tenant)
		}
	}
	if g := p.next(now); g != nil {
		t.Fatalf("a batch of %s was opened, too", g.tenant)
	}
}

func TestFewerBatchesAreOpenWhileSomebodySearches(t *testing.T) {
	tenant, now := uuid.UUID{1}, time.Unix(100, 0)
	searches := &until{now.Add(2 * time.Second)}
	p := newPlaces(Options{Batches: 4, Beside: 1}, searches)
	for range 6 {
		p.sealed = append(p.sealed, &group{tenant: tenant})
	}
	opens(t, &p, now, tenant)
	if wait := p.wait(now); wait != 2*time.Second {
		t.Errorf("looks again in %s, want when nobody searches any more: 2s", wait)
	}
	now = now.Add(2 * time.Second)
	opens(t, &p, now, tenant, tenant, tenant) // four in all
	searches.Time = now.Add(time.Second)
	for range 3 {
		p.end(tenant)
		opens(t, &p, now) // what was open before the search ends first
	}
	p.end(tenant)
	opens(t, &p, now, tenant)
	p.end(tenant)
	opens(t, &p, now, tenant)
	if p.free(now) {
		t.Error("more messages would be fetched beside a search and an open batch")
	}
	p.end(tenant)
	if !p.free(now) {
		t.Error("no messages would be fetched though no batch is open")
	}
}

func TestMoreBesideSearchesThanAtAllCountsAsAll(t *testing.T) {
	now := time.Unix(100, 0)
	p := newPlaces(Options{Batches: 1, Beside: 8}, &until{now.Add(time.Second)})
	p.sealed = []*group{{tenant: uuid.UUID{1}}, {tenant: uuid.UUID{1}}}
	opens(t, &p, now, uuid.UUID{1})
}

func TestTheTenantWithTheFewestOpenBatchesIsNext(t *testing.T) {
	loud, quiet, now := uuid.UUID{1}, uuid.UUID{2}, time.Unix(100, 0)
	p := newPlaces(Options{Batches: 2, Beside: 2}, &until{})
	for range 4 {
		p.sealed = append(p.sealed, &group{tenant: loud})
	}
	opens(t, &p, now, loud, loud)
	for range 2 {
		p.sealed = append(p.sealed, &group{tenant: quiet})
	}
	p.end(loud)
	opens(t, &p, now, quiet)
	p.end(loud)
	opens(t, &p, now, loud) // the quiet one has as many: the oldest
	p.end(quiet)
	opens(t, &p, now, quiet)
	if len(p.of) != 2 || len(p.sealed) != 1 {
		t.Errorf("%v are open and %d wait", p.of, len(p.sealed))
	}
	p.end(loud)
	p.end(quiet)
	if len(p.of) != 0 || p.open != 0 {
		t.Errorf("%v are open, want none", p.of)
	}
}
