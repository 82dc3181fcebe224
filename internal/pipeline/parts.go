package pipeline

import (
	"context"
	"slices"
	"sync"
)

// phase is the point of the shutdown at which a part is stopped.
type phase int

// The phases, in their order.
const (
	sourcePhase   phase = iota // parts that commit events or accept commands; stopped first
	deliveryPhase              // parts that deliver events
)

// task is the work of a part. It must start nothing new once ctx is done, and must
// abandon work in progress once late is done.
type task func(ctx, late context.Context)

// prompt returns a task that ignores late: run ends with ctx.
func prompt(run func(context.Context)) task {
	return func(ctx, _ context.Context) { run(ctx) }
}

// runningPart is a group of tasks that runs until it is stopped. It owns its goroutines.
type runningPart struct {
	name  string // for log and error messages, such as "sink lake"
	phase phase
	stop  context.CancelFunc // cancels ctx of the tasks
	cut   context.CancelFunc // cancels late of the tasks
	ended chan struct{}      // closed when all tasks have returned
}

// partSet is the set of parts that run, including those that were asked to stop and have
// not yet. Its zero value is ready to use, and it is safe for concurrent use.
type partSet struct {
	mu      sync.Mutex
	running []*runningPart
	stopped bool // start does nothing
}

// start runs tasks under ctx as a part. It first waits, in the background, for earlier
// parts of the same name that are stopping: no two may read one stream or deliver to
// one sink.
func (ps *partSet) start(ctx context.Context, name string, at phase, tasks ...task) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.stopped {
		return
	}
	late, cut := context.WithCancel(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancel(ctx)
	p := &runningPart{name: name, phase: at, stop: stop, cut: cut, ended: make(chan struct{})}
	earlier := ps.named([]string{name})
	ps.running = append(ps.running, p)
	go func() {
		defer ps.end(p)
		for _, b := range earlier {
			select {
			case <-b.ended:
			case <-ctx.Done():
				return
			}
		}
		var running sync.WaitGroup
		for _, t := range tasks {
			running.Go(func() { t(ctx, late) })
		}
		running.Wait()
	}()
}

// named returns the running parts with one of the names. ps.mu must be held.
func (ps *partSet) named(names []string) []*runningPart {
	return slices.DeleteFunc(slices.Clone(ps.running), func(p *runningPart) bool { return !slices.Contains(names, p.name) })
}

func (ps *partSet) end(p *runningPart) {
	p.stop()
	p.cut()
	ps.mu.Lock()
	ps.running = slices.DeleteFunc(ps.running, func(other *runningPart) bool { return other == p })
	ps.mu.Unlock()
	close(p.ended)
}

// of returns the running parts with one of the names.
func (ps *partSet) of(names ...string) []*runningPart {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.named(names)
}

// all returns the running parts and prevents any further start.
func (ps *partSet) all() []*runningPart {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.stopped = true
	return slices.Clone(ps.running)
}
