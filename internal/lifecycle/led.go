// This file has loops that one process of all runs at a time.

package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Elector says which process leads a loop.
type Elector interface {
	// Lead makes holder the leader of a loop for a time from now on, and reports
	// whether it is: not while another holder's time lasts.
	Lead(ctx context.Context, loop, holder string, ttl time.Duration) (bool, error)
	// Yield ends holder's lead.
	Yield(ctx context.Context, loop, holder string) error
}

// Led describes a loop that one process runs at a time, of all that have it. When its leader is gone another one leads
// within three looks.
type Led struct {
	Name    string // of the loop, the same in all processes
	Elector Elector
	Every   time.Duration // between two rounds
	// Round does the work, once. fetch and work are a Loop's; both also end when the lead is lost. What a round that lost
	// the lead has begun may overlap with the next leader's.
	Round func(fetch, work context.Context) error
	// Resting, if any, is called instead of Round when another process leads; err is why nobody knows whether it does.
	Resting func(ctx context.Context, err error)
}

// errLed ends a round of a process that does not lead any more.
var errLed = errors.New("another process leads this loop")

const (
	// lookEvery is how often processes look who leads, or more often where rounds are. A leader that has not said so for two
	// looks leads no more.
	lookEvery = 5 * time.Second
	// yieldTime bounds the last word of a leader that stops.
	yieldTime = time.Second
)

// NewLed makes the loop. A round that fails is logged, and followed by the next.
func NewLed(o Led) *Loop {
	return NewLoop(o.Name, nil, func(fetch, work context.Context) error {
		look := min(o.Every, lookEvery)
		l := led{Led: o, holder: uuid.NewString(), ttl: 2 * look}
		tick := time.NewTicker(look)
		defer tick.Stop()
		defer l.yield(work)
		for {
			l.turn(fetch, work)
			select {
			case <-fetch.Done():
				return fetch.Err()
			case <-tick.C:
			}
		}
	})
}

// led is one process's part in a loop.
type led struct {
	Led
	holder string
	ttl    time.Duration
	leads  bool
	began  time.Time // the last round
}

// turn runs a round if this process leads.
func (l *led) turn(fetch, work context.Context) {
	asked := time.Now()
	leads, err := l.Elector.Lead(fetch, l.Name, l.holder, l.ttl)
	if fetch.Err() != nil {
		l.leads = l.leads || leads || err != nil // it may
		return
	}
	if leads != l.leads && err == nil {
		slog.DebugContext(fetch, "the lead of a loop changed", "loop", l.Name, "leads", leads)
		l.began = time.Time{}
	}
	l.leads = leads
	if err != nil {
		slog.WarnContext(fetch, "cannot tell which process leads a loop; trying again", "loop", l.Name, "error", err)
	}
	if !leads {
		if l.Resting != nil {
			l.Resting(fetch, err)
		}
		return
	}
	if asked.Sub(l.began) < l.Every-l.ttl/4 { // a look may come a little early
		return
	}
	l.began = asked
	if err := l.round(fetch, work, asked.Add(l.ttl)); err != nil && fetch.Err() == nil {
		slog.WarnContext(fetch, "a round of a loop failed; trying again", "loop", l.Name, "error", err)
	}
}

// round runs one round, and keeps the lead meanwhile.
func (l *led) round(fetch, work context.Context, until time.Time) error {
	fetch, loseFetch := context.WithCancelCause(fetch)
	defer loseFetch(nil)
	work, loseWork := context.WithCancelCause(work)
	defer loseWork(nil)
	over := make(chan struct{})
	var keeping sync.WaitGroup
	defer keeping.Wait()
	defer close(over)
	keeping.Go(func() {
		tick := time.NewTicker(l.ttl / 3)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-work.Done():
				return
			case <-tick.C:
			}
			asked := time.Now()
			asking, cancel := context.WithDeadline(work, until)
			leads, err := l.Elector.Lead(asking, l.Name, l.holder, l.ttl)
			cancel()
			switch {
			case leads:
				until = asked.Add(l.ttl)
			case err == nil, time.Now().After(until):
				loseFetch(errLed)
				loseWork(errLed)
				return
			}
		}
	})
	return l.Round(fetch, work)
}

// yield lets another process lead at once.
func (l *led) yield(ctx context.Context) {
	if !l.leads {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), yieldTime)
	defer cancel()
	if err := l.Elector.Yield(ctx, l.Name, l.holder); err != nil {
		slog.DebugContext(ctx, "a loop's lead ends by itself", "loop", l.Name, "error", err)
	}
}
