package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

const (
	// haltInterval is how often the states of the sinks are looked at.
	haltInterval = time.Second
	// haltCooling is the minimum time between the end of a halt and the report of the sink's next
	// one, which bounds the events about a sink that halts again and again.
	haltCooling = time.Minute
)

// haltSource is the source whose position is which sinks were reported as halted, so that a
// restart neither repeats a report nor misses the end of a halt.
var haltSource = checkpoint.Source{Appliance: transform.Bridge, Stream: "sinks"}

// watchHalts journals an event when a sink halts, and one when it delivers again or is removed,
// until ctx is done. What cannot be journalled is tried again.
func (p *Pipeline) watchHalts(ctx context.Context) {
	over := make(map[string]time.Time) // when the last halt of a sink was over
	failed := false
	every(ctx, haltInterval, func() {
		err := p.reportHalts(ctx, over, time.Now())
		if err != nil && !failed && ctx.Err() == nil {
			p.options.Log.Warn("failed to journal that a sink halted or delivers again; retrying", "error", err)
		}
		failed = err != nil
	})
}

// reportHalts journals what has changed since the last report.
func (p *Pipeline) reportHalts(ctx context.Context, over map[string]time.Time, now time.Time) error {
	committed, err := p.store.Position(ctx, haltSource)
	if err != nil {
		return fmt.Errorf("read which sinks were halted: %w", err)
	}
	reported := make(map[string]time.Time) // since when
	if committed != nil {
		if err := json.Unmarshal(committed, &reported); err != nil {
			return fmt.Errorf("read which sinks were halted: %w", err)
		}
	}
	var changes []transform.SinkHalt
	removed := maps.Clone(reported)
	for _, s := range p.current.Load().sinks {
		name, status := s.config.Name, s.runner.Status()
		delete(removed, name)
		since, wasHalted := reported[name]
		switch {
		case !wasHalted && status.State == sinks.StateHalted && now.Sub(over[name]) >= haltCooling:
			changes = append(changes, transform.SinkHalt{Sink: name, Since: status.Since, Reason: status.Error})
		case wasHalted && status.State == sinks.StateRunning && status.LastDelivery.After(since):
			changes = append(changes, transform.SinkHalt{Sink: name, Since: since, Over: true})
		}
	}
	for name, since := range removed {
		changes = append(changes, transform.SinkHalt{Sink: name, Since: since, Over: true, Reason: "it was removed from the configuration"})
	}
	if len(changes) == 0 {
		return nil
	}
	events := make([]transform.Event, len(changes))
	for i, c := range changes {
		if events[i], err = p.ownEvents().SinkHalt(c, now); err != nil {
			return fmt.Errorf("encode the report about sink %s: %w", c.Sink, err)
		}
		if c.Over {
			delete(reported, c.Sink)
			over[c.Sink] = now
		} else {
			reported[c.Sink] = c.Since
		}
	}
	position, err := json.Marshal(reported)
	if err != nil {
		return err
	}
	// The reserve of a full journal, for a halted sink can be why it is full.
	return p.store.Commit(ctx, checkpoint.Commit{Source: haltSource, Expect: committed, Position: position, Events: events, NoWait: true})
}
