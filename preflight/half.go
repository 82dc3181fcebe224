package preflight

import (
	"context"
	"time"
)

// Half returns a context that ends after half of the time that ctx has left, or with
// ctx: whoever does not answer leaves time to what is tried next. Where ctx has no
// deadline, it has none.
func Half(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}
