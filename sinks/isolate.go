package sinks

import (
	"context"
	"fmt"

	"ndrbridge/internal/poison"
)

// isolate implements isolating and quarantining: it makes one pass over a batch that
// keeps failing, extended by some of the events that follow it, to see which events
// fail individually while others are delivered. An event that is poison is
// dead-lettered.
func (d *delivery) isolate(ctx, late context.Context) outcome {
	alone := false
	var err error
	if !d.isolation.again {
		alone, err = d.extend(ctx)
	}
	d.isolation.begin()
	if err != nil {
		return d.end(ctx, late, fmt.Errorf("read the events after a batch that keeps failing: %w", err))
	}
	d.ranges = append(d.ranges[:0], d.b.pending())
	d.pass = &isolationPass{failed: make(map[int]error), blocked: make(map[string]bool)}
	defer func() { d.pass = nil }()
	err = d.runPass(ctx, late)
	if d.w.delivered > d.deliveredBefore {
		d.giveUp()
	}
	o := d.end(ctx, late, err)
	d.isolation.again = o == outcomeNoLease
	if o == outcomeSomeFailed {
		d.quarantined = true
	}
	if d.targetDown() {
		d.quarantined = false // whatever was seen before
	}
	// With a match, most events that follow are filtered and no reason to retry at once.
	d.pause.untilMore = o == outcomeFailed && alone && d.w.r.o.Match == nil
	return o
}

// runPass sends the events of d.ranges. It halves what fails until each event was
// tried, or is excluded by the pass, or until a failure concerns all of them. It returns
// the last error.
func (d *delivery) runPass(ctx, late context.Context) (last error) {
	for {
		indexes := d.take()
		switch {
		case indexes == nil:
			return last
		case ctx.Err() != nil:
			return ctx.Err() // start nothing new
		}
		err := d.attempt(late, indexes)
		if err == nil {
			d.push(indexes) // events that were not tried come next
			continue
		}
		class, _ := ClassOf(err)
		if class == Halted || class == Throttled || hadNoLease(err) {
			return err
		}
		if d.w.rejections.TargetAtFault() || d.targetDown() {
			// Events that are yet to be tried must not overtake these.
			d.pass.block(d.b, indexes)
			if class != Transient {
				return err
			}
			last = err
			continue
		}
		tried := len(indexes)
		switch left := d.sendable(indexes); {
		case len(left) < tried: // the results of some events are known
			last = err
			d.push(left)
		case len(left) == 1:
			last = err
		default:
			d.pushHalves(left)
		}
	}
}

// giveUp dead-letters the events that are poison after a pass that delivered others.
func (d *delivery) giveUp() {
	for _, i := range d.b.pending() {
		if err := d.pass.failed[i]; err != nil && d.b.entries[i].soloFailures.Add(d.w.delivered) {
			d.b.giveUp(i, fmt.Errorf("given up after %d attempts of its own while other events were delivered: %w", poison.GiveUpAfter, err))
		}
	}
}

// maxExtendReads bounds the reads with which extend looks for an event that is not
// filtered.
const maxExtendReads = 100

// extend appends events to a batch that keeps failing, if it may grow. It reports
// whether a quarantined batch may grow and no event follows it.
func (d *delivery) extend(ctx context.Context) (alone bool, err error) {
	if !d.b.mayGrow(d.w.r.o.Batch, d.quarantined) {
		return false, nil
	}
	matchedBefore := d.b.matched()
	for range maxExtendReads {
		before := d.b.last()
		if err := d.w.queue.extend(ctx, d.b); err != nil {
			return false, err
		}
		if after := d.b.last(); before.Seq == after.Seq && before.Offset == after.Offset {
			return d.quarantined, nil
		}
		if d.b.matched() > matchedBefore {
			break
		}
	}
	return false, nil
}

// isolationSchedule decides when a batch that keeps failing is isolated.
type isolationSchedule struct {
	after    int // Options.IsolateAfter
	failures int // consecutive attempts that delivered nothing
	at       int // value of failures at which the next pass is due
	// again is set if the last pass was cut short because there was no lease. It is made
	// again with the same events: mayGrow allows only the neighbours that are needed.
	again bool
}

// maxIsolateInterval is the largest number of attempts between two passes. The
// interval grows while no event is delivered: the target is then probably down.
const maxIsolateInterval = 60

// due reports whether a batch with so many pending events is to be isolated.
func (s *isolationSchedule) due(pending int) bool {
	return s.again || s.failures >= s.at || s.failures >= s.after && pending == 1
}

// begin records that a pass begins.
func (s *isolationSchedule) begin() {
	s.again = false
	s.at = s.failures + min(max(s.failures, s.after), maxIsolateInterval)
}

// reset records an attempt that delivered events.
func (s *isolationSchedule) reset() { s.failures, s.at = 0, s.after }

// isolationPass records the events that failed individually in one pass over a
// batch, and their ordering keys, which block the events behind them. A nil
// *isolationPass records and excludes nothing; block must not be called on it.
type isolationPass struct {
	failed  map[int]error   // by index
	blocked map[string]bool // by ordering key
}

// addFailed records that the event at index failed individually with err, and blocks its
// ordering key.
func (p *isolationPass) addFailed(index int, key string, err error) {
	if p == nil {
		return
	}
	p.failed[index] = err
	if key != "" { // events without a key are not ordered
		p.blocked[key] = true
	}
}

// block blocks the ordering keys of the pending events at indexes.
func (p *isolationPass) block(b *deliveryBatch, indexes []int) {
	for _, i := range indexes {
		if key := orderingKey(b.events[i]); key != "" && !b.entries[i].done {
			p.blocked[key] = true
		}
	}
}

// excludes reports whether the event at index failed in the pass, or its ordering
// key is blocked.
func (p *isolationPass) excludes(index int, key string) bool {
	return p != nil && (p.failed[index] != nil || p.blocked[key])
}

// downAfter is the number of events that must fail individually in one pass, with
// none delivered, for the target to count as down.
const downAfter = 8

// targetDown reports whether at least downAfter events failed individually in the
// pass and none was delivered.
func (d *delivery) targetDown() bool {
	return d.pass != nil && len(d.pass.failed) >= downAfter && d.w.delivered == d.deliveredBefore
}
