package webhook

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestMoreIsTakenThoughAttemptsEndedDuringTheLook: if a look claimed all that a share allowed, more
// may be due, whatever ended meanwhile.
func TestMoreIsTakenThoughAttemptsEndedDuringTheLook(t *testing.T) {
	e, w, now := newEndpoints(), uuid.UUID{1}, time.Now()
	look := func() Room {
		select { // from the previous look
		case <-e.wake:
		default:
		}
		return e.room(now)
	}
	claim := func(r Room) (n int) {
		n = 1
		if len(r.Each) > 0 {
			n = r.Each[0]
		}
		claimed := make([]Claimed, n)
		for i := range claimed {
			claimed[i].Webhook = w
		}
		e.begin(claimed, r, now)
		return n
	}
	inFlight := 0
	for range 20 {
		r := look()
		ended := inFlight / 4
		for range ended {
			e.end(w, true)
		}
		inFlight += claim(r) - ended
		for len(e.wake) == 0 {
			if inFlight == 0 {
				t.Fatal("all attempts ended, and nobody looks for more")
			}
			e.end(w, true)
			inFlight--
		}
	}
	if share := e.of[w].share; share != perEndpoint {
		t.Errorf("who accepts has a share of %d", share)
	}
}
