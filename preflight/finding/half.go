package finding

import (
	"context"
	"time"
)

// Half returns a context that ends with ctx or after half of its remaining time, so
// that an unresponsive peer leaves time for the next trial. If ctx has no deadline,
// neither has the result.
func Half(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}
