package bridge

import (
	"context"
	"slices"
	"sync"
	"time"
)

// phase is when a part is stopped.
type phase int

const (
	sourcePhase   phase = iota // it commits events, or takes commands in: stopped first
	deliveryPhase              // it delivers events
)

// windDown is how long a part whose work was cut short at the end of
// shutdown_timeout has to commit what is done, before it is abandoned.
const windDown = 400 * time.Millisecond

// task is work of a part. It takes nothing up once ctx has ended, and what it has in
// hand then may go on until late ends.
type task func(ctx, late context.Context)

// prompt is a task that ends with its first context.
func prompt(run func(context.Context)) task {
	return func(ctx, _ context.Context) { run(ctx) }
}

// part is something that runs until it is stopped. It owns its goroutines.
type part struct {
	name  string // for a person, such as "sink lake"
	phase phase
	stop  context.CancelFunc // takes up nothing more
	cut   context.CancelFunc // ends what is in hand
	ended chan struct{}      // closed when all tasks have returned
}

// parts are the parts of a bridge that run, those too that were asked to stop and
// have not. It is safe for concurrent use.
type parts struct {
	mu      sync.Mutex
	running []*part
	stopped bool // nothing begins any more
}

// start runs tasks under ctx as a part. While others of its name have not ended,
// which were stopped before, it waits for them: no two may read one stream or deliver
// to one sink.
func (ps *parts) start(ctx context.Context, name string, at phase, tasks ...task) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.stopped {
		return
	}
	late, cut := context.WithCancel(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancel(ctx)
	p := &part{name: name, phase: at, stop: stop, cut: cut, ended: make(chan struct{})}
	before := ps.named(name)
	ps.running = append(ps.running, p)
	go func() {
		defer ps.end(p)
		for _, b := range before {
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

// named returns the parts of a name. mu is held.
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

// of returns the parts of names that run.
func (ps *parts) of(names ...string) []*part {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(ps.running), func(p *part) bool { return !slices.Contains(names, p.name) })
}

// all returns the parts that run, and lets none begin after them.
func (ps *parts) all() []*part {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.stopped = true
	return slices.Clone(ps.running)
}

// deadline is when a stop has to be over.
type deadline struct {
	begun, end time.Time
}

// within returns the deadline of a stop that begins now.
func within(timeout time.Duration) deadline {
	now := time.Now()
	return deadline{now, now.Add(timeout)}
}

// half is when the next phase begins, whatever has become of the first.
func (d deadline) half() time.Time { return d.begun.Add(d.end.Sub(d.begun) / 2) }

// stop stops parts in the order of their phases. What they have in hand is cut short
// at the deadline, and what has not ended windDown later is abandoned: it is
// returned. It returns early, with what runs then, if ctx ends.
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

// await waits until parts have ended, or until a time, or ctx ends. It returns those
// that run.
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

// names are those of parts, sorted, each once.
func names(all []*part) []string {
	var found []string
	for _, p := range all {
		found = append(found, p.name)
	}
	slices.Sort(found)
	return slices.Compact(found)
}
