package sinks

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"ndrbridge/checkpoint"
)

// parkedIndex is an index of the events that a sink has parked, without their bytes, which are
// in the state. It schedules their delivery. It is safe for concurrent use.
type parkedIndex struct {
	journal Journal
	o       *Options
	parts   *parts

	mu      sync.Mutex
	loaded  bool
	events  []*parkedEvent // in the order of their numbers
	keys    map[string]int // how many of them have an ordering key
	changed chan struct{}  // closed and replaced when there are more
	// inVain counts consecutive events that the target did not accept. After some of them, a
	// rest begins, longer each time, which ends when the target accepts an event.
	inVain, rests int
	rest          time.Time // its end
	since         mark
}

// parkedEvent is the head of a parked event, and when to send it.
type parkedEvent struct {
	checkpoint.ParkedHead
	tries  int       // since it was loaded
	due    time.Time // of the next one
	failed *mark     // its last failure, which may yet count against it; nil: none
}

func newParkedIndex(journal Journal, o *Options, parts *parts) *parkedIndex {
	return &parkedIndex{journal: journal, o: o, parts: parts, keys: make(map[string]int), changed: make(chan struct{})}
}

// load adds the events that were parked since the last call, or reads all of them if again is
// set; those it knows stay scheduled. The first call finds those of an earlier run, which are due
// at once.
func (p *parkedIndex) load(ctx context.Context, again bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	after := uint64(0)
	if len(p.events) > 0 && !again {
		after = p.events[len(p.events)-1].Number
	}
	heads, err := p.journal.ParkedHeads(ctx, p.o.Name, after)
	if err != nil {
		return err
	}
	due := time.Time{}
	if p.loaded { // they have just failed
		due = time.Now().Add(p.o.RetryInitial)
	}
	p.loaded = true
	events := p.events
	if again {
		events = nil
		clear(p.keys)
	}
	for _, head := range heads {
		e := p.find(head.Number)
		if e == nil {
			e = &parkedEvent{due: due}
		}
		e.ParkedHead = head
		events = append(events, e)
		if head.Order != "" {
			p.keys[head.Order]++
		}
	}
	p.events = events
	if len(heads) > 0 {
		close(p.changed)
		p.changed = make(chan struct{})
	}
	return nil
}

// holds reports whether an event with an ordering key is parked: later events of the key have to
// wait.
func (p *parkedIndex) holds(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[key] > 0
}

// due returns the numbers of at most max events that are due, in ascending order: the events
// that have waited longest, each with the earlier ones of its ordering key. up reports whether
// the target has accepted something since the last of them failed. If none is due, it returns how
// long to wait (negative: without limit), unless changed is closed before.
func (p *parkedIndex) due(now time.Time, max int) (numbers []uint64, up bool, wait time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if up, _ = p.parts.since(p.since); up {
		p.inVain, p.rests, p.rest = 0, 0, time.Time{}
	}
	if wait = p.rest.Sub(now); wait > 0 {
		return nil, false, min(wait, time.Second), p.changed
	}
	wait = -1
	type dueEvent struct {
		number uint64
		since  time.Time // when the first one of its key was due
	}
	var due []dueEvent
	first := make(map[string]time.Time) // when the first event of a key is due
	for _, e := range p.events {
		since, behind := first[e.Order]
		if !behind || e.Order == "" {
			since = e.due
			first[e.Order] = since
		}
		if later(since, e.due).After(now) {
			first[e.Order] = later(since, e.due) // those behind it wait, too
			if until := e.due.Sub(now); until > 0 && (wait < 0 || until < wait) {
				wait = until
			}
			continue
		}
		due = append(due, dueEvent{e.Number, since})
	}
	if max > 0 && len(due) > max {
		slices.SortStableFunc(due, func(a, b dueEvent) int { return a.since.Compare(b.since) })
		due = due[:max]
	}
	for _, e := range due {
		numbers = append(numbers, e.number)
	}
	slices.Sort(numbers)
	return numbers, up, wait, p.changed
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// find returns the event with a number, or nil.
func (p *parkedIndex) find(number uint64) *parkedEvent {
	i, found := slices.BinarySearchFunc(p.events, number, func(e *parkedEvent, number uint64) int {
		return cmp.Compare(e.Number, number)
	})
	if !found {
		return nil
	}
	return p.events[i]
}

// confirm counts the last failure of r against it if its part of the target has accepted
// something since.
func (p *parkedIndex) confirm(r *checkpoint.ParkedHead, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.find(r.Number)
	if e == nil || e.failed == nil {
		return
	}
	if _, part := p.parts.since(*e.failed); !part {
		return
	}
	e.failed = nil
	countFailure(r, now)
}

// isStored reports whether the state holds the counts of r.
func (p *parkedIndex) isStored(r checkpoint.ParkedHead) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.find(r.Number)
	return e == nil || e.Failures == r.Failures && e.Attempts == r.Attempts
}

// remove removes events that are no longer parked.
func (p *parkedIndex) remove(numbers []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gone := make(map[uint64]bool, len(numbers))
	for _, number := range numbers {
		gone[number] = true
	}
	p.events = slices.DeleteFunc(p.events, func(e *parkedEvent) bool {
		if !gone[e.Number] {
			return false
		}
		if p.keys[e.Order]--; p.keys[e.Order] <= 0 {
			delete(p.keys, e.Order)
		}
		return true
	})
}

// postpone schedules the next attempt for the entries that stay parked, after a pass over them.
func (p *parkedIndex) postpone(entries []batchEntry, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	accepted, failed := false, 0
	for i := range entries {
		entry := &entries[i]
		accepted = accepted || entry.state == entryDone && !entry.filtered
		e := p.find(entry.record.Number)
		if e == nil || !entry.state.isParked() || entry.reason == nil { // without a reason, it was not tried, and stays due
			continue
		}
		failed++
		e.Failures, e.First, e.Attempts = entry.record.Failures, entry.record.First, entry.record.Attempts
		e.failed = entry.failed
		e.tries++
		longest := p.o.RetryMax
		if e.Failures > 0 { // as many tries as it is given, over as long as it is given
			longest = max(longest, 2*p.o.Poison.After/time.Duration(max(1, p.o.Poison.Attempts)))
		}
		e.due = now.Add(max(backoffAfter(e.tries, p.o.RetryInitial, longest), entry.retryAfter))
	}
	if accepted {
		return // and due notices it
	}
	if p.inVain == 0 {
		p.since = p.parts.mark("")
	}
	if p.inVain += failed; p.inVain >= triesAtFirst || failed == 0 {
		p.rests++
		p.inVain, p.rest = 0, now.Add(backoffAfter(p.rests, p.o.RetryInitial, p.o.RetryMax))
		p.since = p.parts.mark("")
	}
}

// backoffAfter returns the wait after so many failures in a row, from 1.
func backoffAfter(failures int, initial, longest time.Duration) time.Duration {
	return min(initial<<min(failures-1, 20), longest)
}
