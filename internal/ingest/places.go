package ingest

// How many batches are open, and whose is next. Ingestion is patient and searches are not: while somebody searches, fewer
// batches run beside each other, so that processor and database are not all theirs. Among tenants that wait, the one
// with the fewest open batches goes first.

import (
	"time"

	"github.com/google/uuid"
)

// Searches tells whether somebody searches.
type Searches interface {
	// Left is for how much longer somebody counts as searching; 0 when nobody does.
	Left(now time.Time) time.Duration
}

// places are the batches that are open and those that wait to be. Only the intake's loop touches them.
type places struct {
	most, beside int // open at once; while somebody searches
	searches     Searches

	sealed []*group // full, waiting for a place; the oldest first
	open   int
	of     map[uuid.UUID]int // open batches by tenant
}

func newPlaces(o Options, searches Searches) places {
	return places{most: o.Batches, beside: min(o.Batches, o.Beside), searches: searches, of: map[uuid.UUID]int{}}
}

// limit is how many batches may be open now.
func (p *places) limit(now time.Time) int {
	if p.searches.Left(now) > 0 {
		return p.beside
	}
	return p.most
}

// free reports whether more messages should be fetched: there is a place for them and nothing waits for it.
func (p *places) free(now time.Time) bool { return len(p.sealed) == 0 && p.open < p.limit(now) }

// next opens the batch whose turn it is; nil when there is no place, or nothing waits.
func (p *places) next(now time.Time) *group {
	if len(p.sealed) == 0 || p.open >= p.limit(now) {
		return nil
	}
	at := 0
	for i, g := range p.sealed {
		if p.of[g.tenant] < p.of[p.sealed[at].tenant] {
			at = i
		}
	}
	g := p.sealed[at]
	p.sealed = append(p.sealed[:at:at], p.sealed[at+1:]...)
	p.open++
	p.of[g.tenant]++
	return g
}

// end gives the place of a tenant's batch back.
func (p *places) end(tenant uuid.UUID) {
	p.open--
	if p.of[tenant]--; p.of[tenant] == 0 {
		delete(p.of, tenant)
	}
}

// wait is how long it takes until there is a place without any batch's end: when nobody searches any more.
func (p *places) wait(now time.Time) time.Duration {
	left := p.searches.Left(now)
	if left > 0 && p.open >= p.beside && p.open < p.most {
		return left
	}
	return time.Minute
}
