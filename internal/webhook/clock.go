package webhook

import (
	"context"
	"sync"
	"time"
)

// askedAgain is how long the store's clock is taken to go as fast as this process's.
const askedAgain = 10 * time.Second

// clock is the store's. Deliveries wait for times that one process writes and another compares: by
// wall clocks, one that is set wrong for a moment would have them wait until its time comes.
type clock struct {
	read func(context.Context) (time.Time, error)
	set  func() time.Time // a test's time instead; nil: none

	mu sync.Mutex
	at time.Time // the store's time
	by time.Time // this process's at that moment, of which the monotonic clock is used
}

// look returns the time, and asks the store for it now and then.
func (c *clock) look(ctx context.Context) (time.Time, error) {
	if c.set != nil {
		return c.set(), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by.IsZero() || time.Since(c.by) > askedAgain {
		at, err := c.read(ctx)
		if err != nil {
			return time.Time{}, err
		}
		c.at, c.by = at, time.Now()
	}
	return c.at.Add(time.Since(c.by)), nil
}

// now returns the time by the last look.
func (c *clock) now() time.Time {
	if c.set != nil {
		return c.set()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at.Add(time.Since(c.by))
}
