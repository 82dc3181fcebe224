package sinks

import (
	"errors"
	"fmt"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/poison"
	"ndrbridge/transform"
)

// lacksEvidence reports whether an event failed after which the target accepted nothing.
func (p *pass) lacksEvidence() bool {
	for _, f := range p.failed {
		if target, _ := p.w.r.parts.since(f.at); f.part && !p.accepted || !f.part && !target {
			return true
		}
	}
	return false
}

// explore sends single events from behind the batch until the target accepts one. It reports
// whether it did.
func (p *pass) explore() (found bool, err error) {
	for range min(p.tries()/2, triesBehind) {
		if err := p.ctx.Err(); err != nil {
			return false, err
		}
		c, err := p.nextBehind()
		if err != nil || c == nil {
			return false, err
		}
		if found, err := p.tryAhead(c); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// probe sends single events to a sink that rejected everything, from the batch and from
// behind it, until it accepts one: then the data is bad, not the sink, and the pass goes on.
// Events that the target rejects stay pending; events that cannot be sent are dead-lettered.
func (p *pass) probe() error {
	firsts := p.b.firstOfEachKey()
	for n := range poison.HaltAfter {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		accepted, err := p.probeOnce(firsts, n)
		if accepted {
			p.w.rejections.Trust()
		}
		if accepted || err != nil {
			return err
		}
	}
	return p.last
}

// probeOnce sends the n-th event of a probe: in its first half one of firsts, indexes of the
// batch, and after that one from behind the batch if there are any. It returns an error that
// ends the probe.
func (p *pass) probeOnce(firsts []int, n int) (accepted bool, err error) {
	if n >= poison.HaltAfter/2 || n >= len(firsts) {
		c, err := p.nextBehind()
		switch {
		case err != nil:
			return false, err
		case c != nil:
			return p.tryAhead(c)
		case n >= len(firsts):
			return false, p.last
		}
	}
	i := firsts[p.d.probed%len(firsts)]
	p.d.probed++
	if p.b.entries[i].state != entryPending {
		return false, nil
	}
	part, err := p.sendAlone(p.b.events[i])
	switch class, _ := failure.ClassOf(err); {
	case err == nil:
		p.acknowledge(i, part, time.Now())
		return true, nil
	case failure.IsUnsent(err):
		p.reject(i, err)
		return false, nil
	case class != failure.Rejected:
		return false, err
	}
	p.last = err
	return false, nil
}

// nextBehind returns the next event to try from behind the batch, or nil.
func (p *pass) nextBehind() (*candidate, error) {
	c, err := p.w.scout.next(p.ctx, p.b)
	if err != nil {
		return nil, fmt.Errorf("read events behind the batch: %w", err)
	}
	return c, nil
}

// tryAhead sends an event from behind the batch. Unless the target accepts it, it is sent
// again when its turn comes. It returns an error that ends the pass.
func (p *pass) tryAhead(c *candidate) (accepted bool, err error) {
	part, err := p.sendAlone(c.event)
	if err == nil {
		p.accept(c.event, part, time.Now())
		p.b.undoable = p.b.undoable[:0]
		p.w.queue.setAhead(c.record)
		return true, nil
	}
	if p.last == nil {
		p.last = err
	}
	if p.endsPass(err) {
		return false, err
	}
	return false, nil
}

// sendAlone sends an event in a request of its own. It returns the part of the target that the
// event goes to and the event's result.
func (p *pass) sendAlone(e transform.Event) (part string, err error) {
	names, err := p.w.r.send(p.late, []transform.Event{e})
	if each, ok := errors.AsType[failure.EventErrors](err); ok && len(each) == 1 && !hadNoLease(err) {
		err = each[0]
	}
	return nameAt(names, 0), err
}
