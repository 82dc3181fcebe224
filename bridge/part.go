package bridge

import (
	"context"
	"sync"
)

// part is something that runs until it is stopped. It owns its goroutines.
type part struct {
	stop    context.CancelFunc
	running sync.WaitGroup
}

// startPart runs tasks, each of which ends with its context: when ctx does, or
// when the part is stopped.
func startPart(ctx context.Context, tasks ...func(context.Context)) *part {
	ctx, stop := context.WithCancel(ctx)
	p := &part{stop: stop}
	for _, task := range tasks {
		p.running.Go(func() { task(ctx) })
	}
	return p
}

// end stops the parts, and waits until all of them have ended.
func end(parts ...*part) {
	for _, p := range parts {
		p.stop()
	}
	for _, p := range parts {
		p.running.Wait()
	}
}
