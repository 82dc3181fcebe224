package sinks

import (
	"context"
	"errors"
	"slices"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/transform"
)

// The bounds of consecutive requests of which the target accepts nothing. Once a pass has sent so
// many, it looks for an event behind the batch that the target accepts; it tries half as many of
// these, at most triesBehind.
const (
	triesWhenUp   = 256 // once the target has accepted something in the pass
	triesAtFirst  = 16
	triesWhenDown = 6 // after manyPasses that had no event accepted
	manyPasses    = 10
	triesBehind   = 16
)

// pass is one pass over the pending events of a batch. It sends all of them in one request.
// If a request fails because of any of its events, it sends parts of it, from everywhere in
// the batch, until it knows the result of each event. An event that fails, alone in its
// request or by a result of its own, blocks the events behind it that have its ordering key,
// and no others. If the target accepts nothing after a failure, the pass tries events from
// behind the batch. In the end, it draws its conclusions:
//
//   - If the target accepted something after an event failed, the target is up. The event is
//     parked, with those behind it of its key, and if its part of the target accepted
//     something, the failure counts against it.
//   - If the target accepted something, an event whose part of the target is down is parked,
//     with those behind it of its key. That does not count against it.
//   - All others stay pending. The target may be down.
//
// An error of the target as a whole ends the pass.
type pass struct {
	d         *delivery
	w         *worker
	b         *deliveryBatch
	ctx, late context.Context

	ranges [][]int              // indexes of events to send, in the order of sending
	size   int                  // the most events of the next request
	before []int                // by index: that of the pending event before it with its key, or -1; nil: not made yet
	failed map[int]eventFailure // by index
	tried  map[int]bool         // by index: was in a request that failed, and no part of the target was down

	accepted bool // the target accepted something
	inVain   int  // requests since then
	progress bool // an event of the batch was acknowledged, dead-lettered or parked
	last     error
}

// eventFailure is the failure of one event in a pass.
type eventFailure struct {
	err  error
	part bool // its part of the target is down
	at   mark
}

func newPass(d *delivery, ctx, late context.Context) *pass {
	pending := d.b.pending()
	p := &pass{
		d: d, w: d.w, b: d.b, ctx: ctx, late: late,
		ranges: [][]int{pending}, size: len(pending), failed: make(map[int]eventFailure), tried: make(map[int]bool),
	}
	if w := d.w; w.fruitless > 0 && len(pending) > 0 {
		// Earlier passes tried some of these in vain. Try others, in smaller requests, so
		// that each is tried alone in the end.
		p.ranges[0] = pending[w.triedInVain%len(pending):]
		p.size = max(1, len(pending)>>min(w.fruitless, 16))
	}
	return p
}

// run sends events until the result of each is known, the target seems to be down, or an
// error ends the pass, which it returns.
func (p *pass) run() error {
	if p.w.rejections.TargetAtFault() {
		if err := p.probe(); err != nil {
			return err
		}
	}
	for {
		if err := p.ctx.Err(); err != nil {
			return err // start nothing new
		}
		enough := p.inVain >= p.tries()
		if !enough {
			if indexes := p.take(); indexes != nil {
				if err := p.attempt(indexes); err != nil {
					return err
				}
				continue
			}
		}
		if !enough && !p.lacksEvidence() {
			return nil
		}
		if found, err := p.explore(); err != nil || !found {
			return err
		}
	}
}

// tries returns how many requests in a row may be in vain.
func (p *pass) tries() int {
	switch {
	case p.accepted || p.b.up:
		return triesWhenUp
	case p.w.fruitless < manyPasses:
		return triesAtFirst
	}
	return triesWhenDown
}

// take removes from p.ranges the events of the next request. It returns nil if no event is
// left that may be sent.
func (p *pass) take() []int {
	for rest := false; ; rest = true {
		for len(p.ranges) > 0 {
			indexes := p.sendable(p.ranges[0])
			p.ranges = p.ranges[1:]
			if len(indexes) == 0 {
				continue
			}
			n := min(p.size, p.b.fits(indexes, p.w.r.o.Batch))
			if n < len(indexes) {
				p.push(indexes[n:])
			}
			return indexes[:n]
		}
		if rest {
			return nil
		}
		p.push(p.b.pending()) // some may have been blocked by an event that is done now
	}
}

func (p *pass) push(indexes []int) { p.ranges = append(p.ranges, indexes) }

// sendable returns those of indexes that are pending, have not failed in this pass, and
// follow no pending event of their key, unless that is among them too.
func (p *pass) sendable(indexes []int) []int {
	if p.before == nil && len(p.failed) == 0 && len(indexes) == len(p.b.pending()) {
		return indexes // the first request
	}
	p.findKeys()
	sendable := make([]int, 0, len(indexes))
	for _, i := range indexes {
		if p.b.entries[i].state != entryPending {
			continue
		}
		if _, failed := p.failed[i]; failed {
			continue
		}
		if before := p.before[i]; before >= 0 && p.b.entries[before].blocks() {
			if _, with := slices.BinarySearch(sendable, before); !with {
				continue
			}
		}
		sendable = append(sendable, i)
	}
	return sendable
}

// blocks reports whether events behind e with its key have to wait for it.
func (e *batchEntry) blocks() bool { return e.state == entryPending || e.state.isParked() }

// findKeys fills p.before.
func (p *pass) findKeys() {
	if p.before != nil {
		return
	}
	p.before = make([]int, len(p.b.entries))
	latest := make(map[string]int)
	for i := range p.b.entries {
		p.before[i] = -1
		e := &p.b.entries[i]
		if key := e.record.Order; key != "" && e.blocks() {
			if before, found := latest[key]; found {
				p.before[i] = before
			}
			latest[key] = i
		}
	}
}

// attempt sends the events at indexes in one request and records their results. It returns
// the error that ends the pass, if there is one.
func (p *pass) attempt(indexes []int) error {
	names, err := p.w.r.send(p.late, p.b.eventsAt(indexes))
	now := time.Now()
	if err == nil {
		for n, i := range indexes {
			p.acknowledge(i, nameAt(names, n), now)
		}
		p.size = min(2*p.size, len(p.b.entries))
		return nil
	}
	each, ok := errors.AsType[failure.EventErrors](err)
	if !ok || len(each) != len(indexes) {
		if len(indexes) > 1 {
			return p.split(indexes, err)
		}
		each = failure.EventErrors{err}
	}
	noLease := hadNoLease(err)
	ended := p.applyResults(indexes, each, names, noLease, now)
	switch {
	case noLease:
		return err
	case ended != nil:
		return ended
	}
	p.push(indexes) // some may not have been tried
	return nil
}

// split records that a request with several events failed because of err, and divides it.
func (p *pass) split(indexes []int, err error) error {
	if p.endsPass(err) {
		return err
	}
	p.last = err
	half := len(indexes) / 2
	if class, _ := failure.ClassOf(err); class == failure.Rejected { // the target is up: keep the order
		p.ranges = slices.Insert(p.ranges, 0, indexes[:half], indexes[half:])
		return nil
	}
	p.inVain++
	for _, i := range indexes {
		p.tried[i] = p.tried[i] || failure.ScopeOf(err) != failure.ScopePart
	}
	p.size = half
	p.push(indexes[:half])
	p.push(indexes[half:])
	return nil
}

// endsPass reports whether err is about the target or the sink as a whole.
func (p *pass) endsPass(err error) bool {
	scope := failure.ScopeOf(err)
	class, _ := failure.ClassOf(err)
	return hadNoLease(err) || p.late.Err() != nil || class == failure.Halted || scope == failure.ScopeTarget
}

// applyResults records the result of each event at indexes. Without a lease, only
// acknowledgements and rejections count. It returns the most severe of the errors that end the
// pass.
func (p *pass) applyResults(indexes []int, each failure.EventErrors, names []string, noLease bool, now time.Time) error {
	var ended, rejected error
	took, down := make(map[string]bool), make(map[string]bool) // parts
	known, failed := false, false                              // results of events
	for n, err := range each {
		i, part := indexes[n], nameAt(names, n)
		class, _ := failure.ClassOf(err)
		switch {
		case err == nil:
			p.acknowledge(i, part, now)
			took[part], known = true, true
		case class == failure.Rejected:
			p.reject(i, err)
			rejected, known = err, true
		case noLease || errors.Is(err, failure.ErrNotTried):
		case p.endsPass(err):
			ended = failure.MostSevere(ended, err)
		case failure.ScopeOf(err) == failure.ScopePart:
			p.fail(i, eventFailure{err: err, part: true})
			failed = true
			if !errors.Is(err, errPartDown) {
				down[part] = true
			}
		case failure.ScopeOf(err) == failure.ScopeRequest && len(indexes) > 1:
			p.last, p.tried[i], failed = err, true, true
			p.size = min(p.size, len(indexes)/2)
		default:
			p.fail(i, eventFailure{err: err, at: p.w.r.parts.mark(part)})
			p.tried[i], failed = true, true
		}
	}
	for part := range down {
		if !took[part] {
			p.w.r.parts.fail(part, now)
		}
	}
	if failed && len(took) == 0 {
		p.inVain++
	}
	switch {
	case ended != nil:
		return ended
	case !known && !failed:
		return failure.ErrNotTried
	case p.w.rejections.TargetAtFault():
		return rejected
	}
	return nil
}

// accept records that the target accepted an event.
func (p *pass) accept(e transform.Event, part string, now time.Time) {
	r := p.w.r
	r.metrics.delivered.Inc()
	if !e.Redelivered { // the age of a redelivery is no measure of delivery
		r.metrics.delivery.Observe(now.Sub(e.RecordedTime).Seconds())
	}
	r.parts.accept(part)
	p.w.rejections.Accepted()
	r.setDelivered(now)
	p.accepted, p.inVain, p.w.fruitless, p.w.triedInVain = true, 0, 0, 0
}

// acknowledge records that the target accepted the event at index.
func (p *pass) acknowledge(index int, part string, now time.Time) {
	p.accept(p.b.events[index], part, now)
	p.b.acknowledge(index)
	p.progress = true
}

// reject dead-letters an event that will never be delivered. It counts as a
// rejection by the target unless the event was never sent, or is a requeued dead
// letter: that returns to the dead letters and proves nothing new about the target.
func (p *pass) reject(index int, err error) {
	p.b.deadLetter(index, err)
	p.progress = true
	if p.b.entries[index].record.Seq != 0 && !failure.IsUnsent(err) {
		p.w.rejections.Add()
	}
}

// fail records that the event at index failed by itself.
func (p *pass) fail(index int, f eventFailure) {
	p.failed[index], p.last = f, f.err
	_, p.b.entries[index].retryAfter = failure.ClassOf(f.err)
}
