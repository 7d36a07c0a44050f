package lifecycle

// Leader election for loops: of all processes that have a loop, one runs its rounds at a time.

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Elector elects the leader of a loop. Leadership is a lease: it ends when its holder does not
// renew it.
type Elector interface {
	// Elect makes holder the leader for ttl, or renews its lease, and reports whether it leads. It
	// reports false while another holder's lease lasts.
	Elect(ctx context.Context, loop, holder string, ttl time.Duration) (elected bool, err error)
	// Resign ends holder's lease, if it has one.
	Resign(ctx context.Context, loop, holder string) error
}

// LeaderLoop describes a loop that only its leader runs. When the leader dies, another process is
// elected within three intervals of the election.
type LeaderLoop struct {
	Name    string // of the loop, the same in all processes
	Elector Elector
	Every   time.Duration // interval of the rounds
	// Round does the work once. Its contexts are those of a LoopFunc; both also end when leadership
	// is lost. A round that has lost leadership may overlap with a round of the next leader.
	Round func(fetch, work context.Context) error
	// Standby, if not nil, is called at every election that this process does not win. err is the
	// error of a failed election.
	Standby func(ctx context.Context, err error)
}

// errLostLeadership is the cause with which a round's contexts end when leadership is lost.
var errLostLeadership = errors.New("another process leads this loop")

const (
	// electEvery is the longest interval between two elections; it is shorter where rounds are more
	// frequent. The lease is twice as long.
	electEvery    = 5 * time.Second
	resignTimeout = time.Second
)

// NewLeaderLoop returns the loop. A round that fails is logged, and followed by the next.
func NewLeaderLoop(o LeaderLoop) *Loop {
	return NewLoop(o.Name, nil, func(fetch, work context.Context) error {
		interval := min(o.Every, electEvery)
		c := electionCandidate{LeaderLoop: o, id: uuid.NewString(), ttl: 2 * interval}
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		defer c.resign(work)
		for {
			c.tick(fetch, work)
			select {
			case <-fetch.Done():
				return fetch.Err()
			case <-ticker.C:
			}
		}
	})
}

// electionCandidate is one process that runs for leadership of a loop.
type electionCandidate struct {
	LeaderLoop
	id        string
	ttl       time.Duration // of the lease
	leads     bool
	lastRound time.Time
}

// tick holds an election and, if this process wins, runs the round that is due.
func (c *electionCandidate) tick(fetch, work context.Context) {
	// The lease counts from before the request, so that it never ends later here than in the
	// elector.
	now := time.Now()
	elected, err := c.Elector.Elect(fetch, c.Name, c.id, c.ttl)
	if fetch.Err() != nil {
		// The reply may have been lost: resign to be sure.
		c.leads = c.leads || elected || err != nil
		return
	}
	if elected != c.leads && err == nil {
		slog.DebugContext(fetch, "leadership changed", "loop", c.Name, "leads", elected)
		c.lastRound = time.Time{}
	}
	c.leads = elected
	if err != nil {
		slog.WarnContext(fetch, "election failed; trying again", "loop", c.Name, "error", err)
	}
	if !elected {
		if c.Standby != nil {
			c.Standby(fetch, err)
		}
		return
	}
	if now.Sub(c.lastRound) < c.Every-c.ttl/4 { // the ticker may be a little early
		return
	}
	c.lastRound = now
	if err := c.runRound(fetch, work, now.Add(c.ttl)); err != nil && fetch.Err() == nil {
		slog.WarnContext(fetch, "a round of a loop failed; trying again", "loop", c.Name, "error", err)
	}
}

// runRound runs one round and renews the lease, which lasts until expires, meanwhile.
func (c *electionCandidate) runRound(fetch, work context.Context, expires time.Time) error {
	fetch, cancelFetch := context.WithCancelCause(fetch)
	defer cancelFetch(nil)
	work, cancelWork := context.WithCancelCause(work)
	defer cancelWork(nil)
	done := make(chan struct{})
	var renewal sync.WaitGroup
	defer renewal.Wait()
	defer close(done)
	renewal.Go(func() {
		if c.renew(work, done, expires) {
			return
		}
		cancelFetch(errLostLeadership)
		cancelWork(errLostLeadership)
	})
	return c.Round(fetch, work)
}

// renew renews the lease until done is closed or ctx ends. It returns false as soon as leadership
// is lost.
func (c *electionCandidate) renew(ctx context.Context, done <-chan struct{}, expires time.Time) bool {
	ticker := time.NewTicker(c.ttl / 3)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return true
		case <-ctx.Done():
			return true
		case <-ticker.C:
		}
		now := time.Now()
		request, cancel := context.WithDeadline(ctx, expires)
		elected, err := c.Elector.Elect(request, c.Name, c.id, c.ttl)
		cancel()
		switch {
		case elected:
			expires = now.Add(c.ttl)
		case err == nil, time.Now().After(expires):
			return false
		}
	}
}

// resign ends the lease, so that another process is elected at once.
func (c *electionCandidate) resign(ctx context.Context) {
	if !c.leads {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer cancel()
	if err := c.Elector.Resign(ctx, c.Name, c.id); err != nil {
		slog.DebugContext(ctx, "could not resign; the lease will expire", "loop", c.Name, "error", err)
	}
}
