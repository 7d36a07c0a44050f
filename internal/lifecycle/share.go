// This file divides the time that a Stop has among what is stopped one after the other.

package lifecycle

import (
	"context"
	"time"
)

// Share returns a context that ends with ctx or when this part, over 0 and under 1, of the time
// that is left to ctx is over. Any other part, and a ctx without a deadline, is all of it.
func Share(ctx context.Context, part float64) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok || !(part > 0 && part < 1) {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(part*float64(time.Until(deadline))))
}
