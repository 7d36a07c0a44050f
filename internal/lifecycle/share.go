// This file divides the time of a Stop among steps that follow each other.

package lifecycle

import (
	"context"
	"time"
)

// Share returns a context that ends with ctx, or earlier when part of the time that is left to ctx
// has passed. part must be over 0 and under 1; with any other part, or a ctx without a deadline,
// only the end of ctx ends it.
func Share(ctx context.Context, part float64) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok || !(part > 0 && part < 1) {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(part*float64(time.Until(deadline))))
}
