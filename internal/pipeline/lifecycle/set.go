// Package lifecycle starts groups of goroutines and stops them in an order that loses
// nothing: first those that accept work, then those that deliver it, all within one
// deadline.
package lifecycle

import (
	"context"
	"slices"
	"sync"
)

// Phase is the point of the shutdown at which a part is stopped.
type Phase int

// The phases, in their order.
const (
	SourcePhase   Phase = iota // parts that commit events or accept commands; stopped first
	DeliveryPhase              // parts that deliver events
)

// Task is the work of a part. It must start nothing new once ctx is done, and must
// abandon work in progress once late is done.
type Task func(ctx, late context.Context)

// Prompt returns a task that ignores late: run ends with ctx.
func Prompt(run func(context.Context)) Task {
	return func(ctx, _ context.Context) { run(ctx) }
}

// Part is a group of tasks that runs until it is stopped. It owns its goroutines.
type Part struct {
	name  string // for log and error messages, such as "sink lake"
	phase Phase
	stop  context.CancelFunc // cancels ctx of the tasks
	cut   context.CancelFunc // cancels late of the tasks
	ended chan struct{}      // closed when all tasks have returned
}

// Set is the set of parts that run, including those that were asked to stop and have
// not yet. Its zero value is ready to use, and it is safe for concurrent use.
type Set struct {
	mu      sync.Mutex
	running []*Part
	stopped bool // Start does nothing
}

// Start runs tasks under ctx as a part. It first waits, in the background, for earlier
// parts of the same name that are stopping: no two may read one stream or deliver to
// one sink.
func (ps *Set) Start(ctx context.Context, name string, at Phase, tasks ...Task) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.stopped {
		return
	}
	late, cut := context.WithCancel(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancel(ctx)
	p := &Part{name: name, phase: at, stop: stop, cut: cut, ended: make(chan struct{})}
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
func (ps *Set) named(names []string) []*Part {
	return slices.DeleteFunc(slices.Clone(ps.running), func(p *Part) bool { return !slices.Contains(names, p.name) })
}

func (ps *Set) end(p *Part) {
	p.stop()
	p.cut()
	ps.mu.Lock()
	ps.running = slices.DeleteFunc(ps.running, func(other *Part) bool { return other == p })
	ps.mu.Unlock()
	close(p.ended)
}

// Of returns the running parts with one of the names.
func (ps *Set) Of(names ...string) []*Part {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.named(names)
}

// All returns the running parts and prevents any further start.
func (ps *Set) All() []*Part {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.stopped = true
	return slices.Clone(ps.running)
}
