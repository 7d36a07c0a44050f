package webhook

import (
	"context"
	"sync"
	"time"
)

// askedAgain is how long this process's clock is used before the store's is read again.
const askedAgain = 10 * time.Second

// clock follows the store's clock. One process writes the times that deliveries wait for, and
// another compares them: with wall clocks, a clock that is wrong for a moment would delay
// deliveries until the time that it had shown.
type clock struct {
	read func(context.Context) (time.Time, error)
	set  func() time.Time // replaces it in tests; nil: not set

	mu sync.Mutex
	at time.Time // the store's time
	by time.Time // this process's time then, whose monotonic clock is used
}

// look returns the time, and reads the store's clock every askedAgain.
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

// now returns the time without reading the store's clock.
func (c *clock) now() time.Time {
	if c.set != nil {
		return c.set()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at.Add(time.Since(c.by))
}
