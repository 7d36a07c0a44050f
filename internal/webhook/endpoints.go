package webhook

// This file limits how many attempts run at once. Each endpoint has a share of its own, so that one
// that hangs or refuses does not delay others: the share grows while the endpoint accepts, and is
// one attempt when it does not, or is unknown. Endpoints that did not accept share at most half of
// the process's attempts.

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	atOnce      = 256 // attempts of one process
	unproven    = 128 // of these, to endpoints that did not accept the last one
	perEndpoint = 16

	keepEndpoint = time.Hour // how long an endpoint is remembered without an attempt
)

// endpoint is what this process knows about a webhook's receiver.
type endpoint struct {
	inFlight int
	share    int // attempts at once
	proven   bool
	more     bool // the last look claimed all that share allows: more may be due
	used     time.Time
}

// endpoints are the endpoints of one process.
type endpoints struct {
	// wake receives a value when more may be claimed.
	wake chan struct{}

	mu       sync.Mutex
	of       map[uuid.UUID]*endpoint
	inFlight int
	full     bool // the last look claimed all that the process may: more may be due
}

func newEndpoints() *endpoints {
	return &endpoints{of: map[uuid.UUID]*endpoint{}, wake: make(chan struct{}, 1)}
}

// room returns how many deliveries may be claimed now.
func (e *endpoints) room(now time.Time) Room {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := Room{Limit: atOnce - e.inFlight, Unproven: unproven}
	for id, p := range e.of {
		if p.inFlight == 0 && (!p.proven || now.Sub(p.used) > keepEndpoint) {
			delete(e.of, id) // unknown again
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

// begin records what was claimed for a room.
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
		p.more = true // it was unknown, or is set below
	}
	// Compared with the room at the look: attempts have ended since.
	for i, id := range r.Webhooks {
		if p := e.of[id]; p != nil {
			p.more = took[id] == r.Each[i]
		}
	}
	e.inFlight += len(claimed)
	e.full = len(claimed) == r.Limit
}

// end records the result of an attempt. After a failure the next look claims more, not an earlier
// one.
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
