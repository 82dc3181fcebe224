package sinks

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/transform"
)

// Parted is a sink whose target has parts that fail on their own, such as the partitions of
// a topic.
type Parted interface {
	Sink
	// Part returns the name of the part of the target that the event goes to, or "" if it is
	// not known yet. It does not contact the target. It is not called during a Send.
	Part(transform.Event) string
}

// parts holds, for all workers of a runner, how much the parts of the target have accepted,
// and which of them are down. A target without parts is one part, named "".
type parts struct {
	initial, longest time.Duration // of the waits for a part that is down

	mu       sync.Mutex
	accepted map[string]uint64 // events
	total    uint64
	down     map[string]outage
	watched  bool // a part with a name has failed
}

// outage is a part that failed and has accepted nothing since.
type outage struct {
	wait  time.Duration
	until time.Time // nothing is sent to the part before
}

func newParts(initial, longest time.Duration) *parts {
	return &parts{initial: initial, longest: longest, accepted: make(map[string]uint64), down: make(map[string]outage)}
}

// mark holds the number of events that the target and one of its parts had accepted at a time.
type mark struct {
	part            string
	accepted, total uint64
}

func (p *parts) mark(part string) mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched = p.watched || part != ""
	return mark{part, p.accepted[part], p.total}
}

// since reports whether the target, and whether the mark's part of it, has accepted an event
// since the mark.
func (p *parts) since(m mark) (target, part bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total > m.total, p.accepted[m.part] > m.accepted
}

// accept records that a part accepted an event.
func (p *parts) accept(part string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted[part]++
	p.total++
	delete(p.down, part)
}

// fail records that a part failed and accepted nothing.
func (p *parts) fail(part string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched = p.watched || part != ""
	o := p.down[part]
	o.wait = min(max(2*o.wait, p.initial), p.longest)
	o.until = now.Add(o.wait)
	p.down[part] = o
}

// areWatched reports whether a part with a name has failed. Until then, the parts of accepted
// events need not be known.
func (p *parts) areWatched() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watched
}

// leaveOutDown returns the events whose parts, of these names (nil: there are none), are not
// down. If it leaves out some, results holds an error for each of them, and nil for the others.
func (p *parts) leaveOutDown(events []transform.Event, names []string, now time.Time) (up []transform.Event, results failure.EventErrors) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if names == nil || len(p.down) == 0 {
		return events, nil
	}
	results = make(failure.EventErrors, len(events))
	for i, name := range names {
		if wait := p.down[name].until.Sub(now); wait > 0 {
			results[i] = &failure.Error{Class: failure.Transient, Scope: failure.ScopePart, RetryAfter: wait, Err: fmt.Errorf("%w: %s", errPartDown, name)}
			continue
		}
		up = append(up, events[i])
	}
	if len(up) == len(events) {
		return events, nil
	}
	return up, results
}

// mergeResults completes the results that leaveOutDown returned with err, the result of the
// Send of the sent other events. An error that is not about each of them is returned as it is.
func mergeResults(results failure.EventErrors, err error, sent int) error {
	each, ok := errors.AsType[failure.EventErrors](err)
	if err != nil && (!ok || len(each) != sent || hadNoLease(err)) {
		return err
	}
	for i := range results {
		if results[i] == nil && len(each) > 0 {
			results[i], each = each[0], each[1:]
		}
	}
	return results
}

// errPartDown is the error of events that were not sent because their part of the target has
// just failed.
var errPartDown = errors.New("not sent: this part of the target is down")

// partsOf returns the part of each event; nil if the sink's target has none.
func partsOf(s Sink, events []transform.Event) []string {
	parted, ok := s.(Parted)
	if !ok {
		return nil
	}
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = parted.Part(e)
	}
	return names
}

// nameAt returns the i-th of the names that partsOf returned.
func nameAt(names []string, i int) string {
	if names == nil {
		return ""
	}
	return names[i]
}
