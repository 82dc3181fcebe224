package sinks

import (
	"fmt"
	"time"

	"ndrbridge/checkpoint"
)

// conclude draws the pass's conclusions. ended is true if an error ended the pass. It reports
// whether events are left.
func (p *pass) conclude(now time.Time, ended bool) (left bool) {
	if len(p.failed) > 0 {
		p.findKeys()
	}
	p.countAttempts()
	for i := range p.b.entries {
		e := &p.b.entries[i]
		if e.state != entryPending {
			continue
		}
		f, failed := p.failed[i]
		switch {
		case failed && f.part:
			if p.accepted {
				p.park(i, f.err)
			}
		case failed:
			p.judge(i, f, now)
		case p.before != nil && p.before[i] >= 0 && p.b.entries[p.before[i]].state.isParked():
			p.park(i, nil)
		}
		if e.state == entryPending && e.record.Number != 0 && !ended {
			e.state, e.reason = entryParked, f.err // it was parked before, and stays so
		}
		left = left || e.state == entryPending
	}
	return left
}

// countAttempts counts an attempt for each event that was tried, and gives up the events that
// have reached Options.MaxAttempts.
func (p *pass) countAttempts() {
	most := p.w.r.o.MaxAttempts
	for i, counts := range p.tried {
		if !counts {
			continue
		}
		e := &p.b.entries[i]
		if e.record.Attempts++; most == 0 || e.record.Attempts < most || e.state != entryPending {
			continue
		}
		err := p.last
		if f, failed := p.failed[i]; failed {
			err = f.err
		}
		p.giveUp(i, fmt.Errorf("given up after %d attempts (max_attempts): %w", most, err))
	}
}

// judge parks the event at index, which failed perhaps by its own fault, if the target accepted
// something after it. If its part of the target did, the failure counts, and may be the last.
func (p *pass) judge(index int, f eventFailure, now time.Time) {
	e := &p.b.entries[index]
	target, part := p.w.r.parts.since(f.at)
	if e.failed = &f.at; part {
		e.failed = nil
		countFailure(&e.record.ParkedHead, now)
	}
	switch r := e.record; {
	case r.Failures > 0 && p.w.r.o.Poison.GivesUp(r.Failures, r.First, now):
		p.giveUp(index, fmt.Errorf("given up after %d failures since %s, while the target accepted other events: %w",
			r.Failures, r.First.UTC().Format(time.RFC3339), f.err))
	case target:
		p.park(index, f.err)
	}
}

// park parks the event at index.
func (p *pass) park(index int, reason error) {
	p.b.entries[index].state, p.b.entries[index].reason = entryParked, reason
	p.progress = true
}

// giveUp dead-letters the event at index.
func (p *pass) giveUp(index int, reason error) {
	p.b.giveUp(index, reason)
	p.progress = true
}

// countFailure counts a failure against an event.
func countFailure(r *checkpoint.ParkedHead, now time.Time) {
	if r.Failures++; r.First.IsZero() {
		r.First = now
	}
}
