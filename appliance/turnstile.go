package appliance

import (
	"context"
	"sync"

	"golang.org/x/time/rate"
)

// turnstile lets requests through at a rate, one waiting in front at a time.
// Those behind it wait in two lines: it takes the urgent first, and within a
// line the one that has waited longest. Since a stream asks again only after it
// has its answer, the streams of a line take turns, and an urgent one waits for
// one other at most.
type turnstile struct {
	limiter *rate.Limiter

	mu    sync.Mutex
	taken bool // somebody stands in front
	lines [2][]chan struct{}
}

// The lines of a turnstile.
const (
	urgentLine = iota
	backgroundLine
)

// wait returns when the caller may send a request, or ctx's error: at once where
// its turn would come later than ctx's deadline.
func (t *turnstile) wait(ctx context.Context, line int) error {
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
func (t *turnstile) enter(ctx context.Context, line int) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	called := make(chan struct{})
	t.lines[line] = append(t.lines[line], called)
	t.mu.Unlock()
	select {
	case <-called:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, waiting := range t.lines[line] {
		if waiting == called {
			t.lines[line] = append(t.lines[line][:i], t.lines[line][i+1:]...)
			return ctx.Err()
		}
	}
	t.pass() // it was called as it gave up
	return ctx.Err()
}

// leave lets the next one step in front.
func (t *turnstile) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass()
}

// pass is leave with the lock held.
func (t *turnstile) pass() {
	for i, line := range t.lines {
		if len(line) > 0 {
			t.lines[i] = line[1:]
			close(line[0])
			return
		}
	}
	t.taken = false
}
