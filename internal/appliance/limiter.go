package appliance

import (
	"context"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// priorityLimiter is a rate limiter with two priorities. One caller at a time waits for the
// rate, and one caller in the background at a time waits for that turn. Since a stream sends
// its next request only after an answer, streams of the same priority take turns, and an urgent
// request waits for at most one in the background.
type priorityLimiter struct {
	limiter          *rate.Limiter
	turn, background *semaphore.Weighted // of 1
}

func newPriorityLimiter(perSecond float64) *priorityLimiter {
	return &priorityLimiter{
		limiter: rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond))),
		turn:    semaphore.NewWeighted(1), background: semaphore.NewWeighted(1),
	}
}

// wait blocks until the caller may send a request. It returns ctx's error, immediately
// if the rate would permit the request only after ctx's deadline.
func (l *priorityLimiter) wait(ctx context.Context, background bool) error {
	if background {
		if err := l.background.Acquire(ctx, 1); err != nil {
			return err
		}
		defer l.background.Release(1)
	}
	if err := l.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer l.turn.Release(1)
	err := l.limiter.Wait(ctx)
	if err != nil && ctx.Err() == nil {
		return context.DeadlineExceeded // the limiter predicted it
	}
	return err
}
