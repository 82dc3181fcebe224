package appliance

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/time/rate"
)

// priorityLimiter is a rate limiter with two priorities. One caller at a time waits for
// the rate; the others wait in two FIFO queues, of which the urgent one is served
// first. Since a stream sends its next request only after an answer, streams of the
// same priority take turns, and an urgent request waits for at most one other.
type priorityLimiter struct {
	limiter *rate.Limiter

	mu      sync.Mutex
	taken   bool               // a caller is waiting for the rate
	waiters [2][]chan struct{} // by priority
}

// The priorities of a priorityLimiter.
const (
	urgentPriority = iota
	backgroundPriority
)

// wait blocks until the caller may send a request. It returns ctx's error, immediately
// if the rate would permit the request only after ctx's deadline.
func (t *priorityLimiter) wait(ctx context.Context, priority int) error {
	if err := t.enter(ctx, priority); err != nil {
		return err
	}
	defer t.leave()
	err := t.limiter.Wait(ctx)
	if err != nil && ctx.Err() == nil {
		return context.DeadlineExceeded // the limiter predicted it
	}
	return err
}

// enter waits until the caller is the one that waits for the rate.
func (t *priorityLimiter) enter(ctx context.Context, priority int) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	called := make(chan struct{})
	t.waiters[priority] = append(t.waiters[priority], called)
	t.mu.Unlock()
	select {
	case <-called:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiters[priority], called); i >= 0 {
		t.waiters[priority] = slices.Delete(t.waiters[priority], i, i+1)
	} else {
		t.pass() // it was called when ctx was done
	}
	return ctx.Err()
}

// leave admits the next caller.
func (t *priorityLimiter) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass()
}

// pass is leave with t.mu held.
func (t *priorityLimiter) pass() {
	for i, queue := range t.waiters {
		if len(queue) > 0 {
			t.waiters[i] = queue[1:]
			close(queue[0])
			return
		}
	}
	t.taken = false
}
