package bridge

import (
	"context"
	"slices"
	"sync"
	"time"
)

// phase is the point of the shutdown at which a part is stopped.
type phase int

const (
	sourcePhase   phase = iota // parts that commit events or accept commands; stopped first
	deliveryPhase              // parts that deliver events
)

// windDown is how long a part has to commit completed work after it was cut short at
// the end of shutdown_timeout, before it is abandoned.
const windDown = 400 * time.Millisecond

// task is the work of a part. It must start nothing new once ctx is done, and must
// abandon work in progress once late is done.
type task func(ctx, late context.Context)

// prompt returns a task that ignores late: run ends with ctx.
func prompt(run func(context.Context)) task {
	return func(ctx, _ context.Context) { run(ctx) }
}

// part is a group of tasks that runs until it is stopped. It owns its goroutines.
type part struct {
	name  string // for log and error messages, such as "sink lake"
	phase phase
	stop  context.CancelFunc // cancels ctx of the tasks
	cut   context.CancelFunc // cancels late of the tasks
	ended chan struct{}      // closed when all tasks have returned
}

// parts is the set of parts that run, including those that were asked to stop and have
// not yet. It is safe for concurrent use.
type parts struct {
	mu      sync.Mutex
	running []*part
	stopped bool // start does nothing
}

// start runs tasks under ctx as a part. It first waits, in the background, for earlier
// parts of the same name that are stopping: no two may read one stream or deliver to
// one sink.
func (ps *parts) start(ctx context.Context, name string, at phase, tasks ...task) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.stopped {
		return
	}
	late, cut := context.WithCancel(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancel(ctx)
	p := &part{name: name, phase: at, stop: stop, cut: cut, ended: make(chan struct{})}
	earlier := ps.named(name)
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

// named returns the running parts with a name. ps.mu must be held.
func (ps *parts) named(name string) []*part {
	var all []*part
	for _, p := range ps.running {
		if p.name == name {
			all = append(all, p)
		}
	}
	return all
}

func (ps *parts) end(p *part) {
	p.stop()
	p.cut()
	ps.mu.Lock()
	ps.running = slices.DeleteFunc(ps.running, func(other *part) bool { return other == p })
	ps.mu.Unlock()
	close(p.ended)
}

// of returns the running parts with one of the names.
func (ps *parts) of(names ...string) []*part {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(ps.running), func(p *part) bool { return !slices.Contains(names, p.name) })
}

// all returns the running parts and prevents any further start.
func (ps *parts) all() []*part {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.stopped = true
	return slices.Clone(ps.running)
}

// deadline is the period in which a stop must finish.
type deadline struct {
	begun, end time.Time
}

// within returns the deadline of a stop that begins now.
func within(timeout time.Duration) deadline {
	now := time.Now()
	return deadline{now, now.Add(timeout)}
}

// half returns the time at which the delivery phase begins, even if the source phase
// has not ended.
func (d deadline) half() time.Time { return d.begun.Add(d.end.Sub(d.begun) / 2) }

// stop stops parts phase by phase. Work in progress at the deadline is cut short. It
// returns the parts that have not ended windDown later; they are abandoned. If ctx is
// done it returns early, with the parts that still run.
func stop(ctx context.Context, all []*part, d deadline) []*part {
	each := func(at phase, do func(*part)) {
		for _, p := range all {
			if p.phase == at {
				do(p)
			}
		}
	}
	each(sourcePhase, func(p *part) { p.stop() })
	await(ctx, slices.DeleteFunc(slices.Clone(all), func(p *part) bool { return p.phase != sourcePhase }), d.half())
	each(deliveryPhase, func(p *part) { p.stop() })
	left := await(ctx, all, d.end)
	if ctx.Err() != nil {
		return left
	}
	for _, p := range left {
		p.cut()
	}
	return await(ctx, left, d.end.Add(windDown))
}

// await waits until all parts have ended, until the given time, or until ctx is done.
// It returns the parts that still run.
func await(ctx context.Context, all []*part, until time.Time) []*part {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for _, p := range all {
		select {
		case <-p.ended:
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		break
	}
	return slices.DeleteFunc(slices.Clone(all), func(p *part) bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
}

// names returns the sorted, distinct names of parts.
func names(all []*part) []string {
	var found []string
	for _, p := range all {
		found = append(found, p.name)
	}
	slices.Sort(found)
	return slices.Compact(found)
}
