package webhook

// How many attempts run at once, and to whom. Each endpoint has a share of its
// own, so that one that hangs or refuses keeps no other waiting: the share grows
// while it accepts, and is one attempt when it does not, or is not known yet.
// Those with one attempt have half of the process's places at most.

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	atOnce      = 256 // attempts of one process
	unproven    = 128 // of them to endpoints that did not accept the last one
	perEndpoint = 16

	keepEndpoint = time.Hour // that an endpoint is remembered without an attempt
)

// endpoint is what this process knows of a webhook's receiver.
type endpoint struct {
	inFlight int
	share    int // attempts at once
	proven   bool
	more     bool // the last look took all it might: there may be more to take
	used     time.Time
}

// endpoints are those of one process.
type endpoints struct {
	// wake has something when there may be more to take.
	wake chan struct{}

	mu       sync.Mutex
	of       map[uuid.UUID]*endpoint
	inFlight int
	full     bool // the last look took all that the process might
}

func newEndpoints() *endpoints {
	return &endpoints{of: map[uuid.UUID]*endpoint{}, wake: make(chan struct{}, 1)}
}

// room is what may be claimed now.
func (e *endpoints) room(now time.Time) Room {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := Room{Limit: atOnce - e.inFlight, Unproven: unproven}
	for id, p := range e.of {
		if p.inFlight == 0 && (!p.proven || now.Sub(p.used) > keepEndpoint) {
			delete(e.of, id) // as if it was not known
			continue
		}
		if !p.proven {
			r.Unproven -= p.inFlight
		}
		r.Webhooks, r.Each, r.Proven = append(r.Webhooks, id), append(r.Each, max(0, p.share-p.inFlight)), append(r.Proven, p.proven)
	}
	r.Unproven = max(0, r.Unproven)
	return r
}

// begin takes note of what was claimed for a room.
func (e *endpoints) begin(claimed []Claimed, r Room, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	took := map[uuid.UUID]int{}
	for _, c := range claimed {
		took[c.Webhook]++
		p := e.of[c.Webhook]
		if p == nil {
			p = &endpoint{share: 1}
			e.of[c.Webhook] = p
		}
		p.inFlight++
		p.used = now
		p.more = true // it was not known, or see below
	}
	// Of what it had room for at the look: attempts have ended since.
	for i, id := range r.Webhooks {
		if p := e.of[id]; p != nil {
			p.more = took[id] == r.Each[i]
		}
	}
	e.inFlight += len(claimed)
	e.full = len(claimed) == r.Limit
}

// end takes note of how an attempt ended. One that failed is followed by the next
// at the next look, not sooner.
func (e *endpoints) end(webhook uuid.UUID, accepted bool) {
	e.mu.Lock()
	p := e.of[webhook]
	p.inFlight--
	e.inFlight--
	again := e.full && e.inFlight < atOnce/2
	if accepted {
		again = again || p.more && p.inFlight <= p.share/2
		p.proven, p.share = true, min(2*p.share, perEndpoint)
	} else {
		p.proven, p.share = false, 1
	}
	e.mu.Unlock()
	if again {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}
