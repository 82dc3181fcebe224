package sinks

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// preparer filters a sink's events and brings them into the form in which they are
// sent, according to its options.
type preparer struct {
	o                 *Options
	metrics           sinkMetrics
	matched, filtered prometheus.Counter // nil without Match
	logged            sync.Once          // a failure of Match

	mu        sync.Mutex
	lastError string // of Match
	// consecutive is the number of events since the last one that Match did not filter, and
	// since when it filters them.
	consecutive uint64
	since       time.Time
}

func newPreparer(o *Options, metrics sinkMetrics) *preparer {
	p := &preparer{o: o, metrics: metrics}
	if o.Match != nil {
		p.matched, p.filtered = metrics.matches.WithLabelValues("matched"), metrics.matches.WithLabelValues("filtered")
	}
	return p
}

// matchStatus returns the results of Match so far, or nil if there is none.
func (p *preparer) matchStatus() *MatchStatus {
	if p.o.Match == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return &MatchStatus{
		Matched: counterValue(p.matched), Filtered: counterValue(p.filtered),
		ConsecutiveFiltered: p.consecutive, FilteredSince: p.since,
		Errors: counterValue(p.metrics.matchErrors), Error: p.lastError,
	}
}

// add appends a record to b: prepared, filtered, or as a dead letter if Match or
// Prepare failed. A requeued dead letter is never filtered: an operator asked for
// its delivery, and filtering would lose it.
func (p *preparer) add(b *deliveryBatch, r checkpoint.Parked) {
	r.Order = orderingKey(r.Redelivered)
	event, err := r.Event, error(nil)
	if redelivery := r.Offset.Item; redelivery != 0 {
		event = event.Redeliver(redelivery)
	}
	if requeued := r.Seq == 0; p.o.Match != nil && !requeued {
		switch verdict, err := p.decide(event); verdict {
		case VerdictDeadLetter:
			b.add(r, transform.Event{}, fmt.Errorf("match failed: %w", err))
			return
		case VerdictFilter:
			b.addFiltered(r)
			return
		}
	}
	if p.o.Prepare != nil {
		if event, err = p.o.Prepare(event); err != nil {
			err = fmt.Errorf("prepare the event: %w", err)
		}
	}
	b.add(r, event, err)
}

// decide returns the verdict about an event, and counts it. It logs the first failure of
// Match.
func (p *preparer) decide(e transform.Event) (Verdict, error) {
	verdict, err := p.o.Decide(e)
	if !p.o.Notify || !e.IsTrouble() { // otherwise Match did not decide
		p.count(verdict, err)
	}
	if err != nil {
		p.logged.Do(func() {
			p.o.Log.Warn("match failed for an event; later failures are only counted",
				"on_error", cmp.Or(p.o.OnError, onMatchErrorSend), "error", err)
		})
	}
	return verdict, err
}

// count counts a result of Match.
func (p *preparer) count(verdict Verdict, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && verdict != VerdictSend {
		p.filtered.Inc()
		if p.consecutive++; p.consecutive == 1 {
			p.since = time.Now()
		}
		return
	}
	p.consecutive, p.since = 0, time.Time{}
	if err == nil {
		p.matched.Inc()
		return
	}
	p.metrics.matchErrors.Inc()
	p.lastError = beginning(err.Error())
}

// beginning returns the beginning of an error's text, for a status.
func beginning(text string) string {
	const most = 500 // bytes
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}
