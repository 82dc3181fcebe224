package pipeline

import (
	"context"
	"slices"
	"sync"
	"time"
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

// every calls do at each interval until ctx is done.
func every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do()
		}
	}
}

// part is a component of a pipeline that is started once and stopped on its own. It owns the
// goroutines of its tasks.
//
//	made ── partSet.start ──► running ── stop ──► stopping ── cut ──► cut short
//	                             └──────────── tasks return ────────────► ended
type part struct {
	name  string // for log and error messages, such as "sink lake"
	phase phase
	tasks []task
	// fingerprint identifies what the part was made from.
	fingerprint fingerprint
	close       func() // closes connections of the tasks; nil: none

	stop  context.CancelFunc // cancels ctx of the tasks
	cut   context.CancelFunc // cancels late of the tasks
	ended chan struct{}      // closed when all tasks have returned
}

func (p *part) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// partSet is the set of parts that run, including those that were asked to stop and have
// not yet. Its zero value is ready to use, and it is safe for concurrent use.
type partSet struct {
	mu      sync.Mutex
	running []*part
	stopped bool // start does nothing
}

// start runs a part until it is stopped or, unless it delivers, ctx is done. It first waits, in
// the background, for earlier parts of the same name that are stopping: no two may read one
// stream or deliver to one sink.
func (ps *partSet) start(ctx context.Context, p *part) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.stopped {
		return
	}
	late, cut := context.WithCancel(context.WithoutCancel(ctx))
	if p.phase == deliveryPhase {
		ctx = late
	}
	ctx, p.stop = context.WithCancel(ctx)
	p.cut, p.ended = cut, make(chan struct{})
	earlier := ps.named([]string{p.name})
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
		for _, t := range p.tasks {
			running.Go(func() { t(ctx, late) })
		}
		running.Wait()
	}()
}

// named returns the running parts with one of the names. ps.mu must be held.
func (ps *partSet) named(names []string) []*part {
	return slices.DeleteFunc(slices.Clone(ps.running), func(p *part) bool { return !slices.Contains(names, p.name) })
}

func (ps *partSet) end(p *part) {
	p.stop()
	p.cut()
	ps.mu.Lock()
	ps.running = slices.DeleteFunc(ps.running, func(other *part) bool { return other == p })
	ps.mu.Unlock()
	close(p.ended)
}

// of returns the running parts with one of the names.
func (ps *partSet) of(names ...string) []*part {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.named(names)
}

// all returns the running parts and prevents any further start.
func (ps *partSet) all() []*part {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.stopped = true
	return slices.Clone(ps.running)
}
