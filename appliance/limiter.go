package appliance

import (
	"context"
	"sync"

	"golang.org/x/time/rate"
)

// priority limiter lets requests through at a rate, one waiting in front at a time.
// Those behind it wait in two lines: it takes the urgent first, and within a
// line the one that has waited longest. Since a stream asks again only after it
// has its answer, the streams of a line take turns, and an urgent one waits for
// one other at most.
type priorityLimiter struct {
	limiter *rate.Limiter

	mu      sync.Mutex
	taken   bool // somebody stands in front
	waiters [2][]chan struct{}
}

// The lines of a priority limiter.
const (
	urgentQueue = iota
	backgroundQueue
)

// wait returns when the caller may send a request, or ctx's error: at once where
// its turn would come later than ctx's deadline.
func (t *priorityLimiter) wait(ctx context.Context, line int) error {
	if err := t.enter(ctx, line); err != nil {
		return err
	}
	defer t.leave()
	err := t.limiter.Wait(ctx)
	if err != nil && ctx.Err() == nil {
		return context.DeadlineExceeded // the limiter saw it coming
	}
	return err
}

// enter waits until the caller stands in front.
func (t *priorityLimiter) enter(ctx context.Context, line int) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	called := make(chan struct{})
	t.waiters[line] = append(t.waiters[line], called)
	t.mu.Unlock()
	select {
	case <-called:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, waiting := range t.waiters[line] {
		if waiting == called {
			t.waiters[line] = append(t.waiters[line][:i], t.waiters[line][i+1:]...)
			return ctx.Err()
		}
	}
	t.pass() // it was called as it gave up
	return ctx.Err()
}

// leave lets the next one step in front.
func (t *priorityLimiter) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass()
}

// pass is leave with the lock held.
func (t *priorityLimiter) pass() {
	for i, line := range t.waiters {
		if len(line) > 0 {
			t.waiters[i] = line[1:]
			close(line[0])
			return
		}
	}
	t.taken = false
}
