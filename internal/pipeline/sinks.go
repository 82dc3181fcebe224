package pipeline

import (
	"context"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/internal/poison"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/ticketopener"
)

// sinkPart is a sink with its runner.
type sinkPart struct {
	part
	config  configs.Sink
	options sinks.Options // without PausedSince, which attach sets
	runner  *sinks.Runner
}

// newSink returns the part of a sink. It has no runner until attach is called.
func (p *Pipeline) newSink(s configs.Sink, n configs.TicketNotes) (*sinkPart, error) {
	var notes *ticketopener.Notes
	var poll func(context.Context, sinks.Sink) (time.Duration, error)
	if n.Out && s.Follows() {
		notes = &ticketopener.Notes{Add: p.noteFor(s.Name), Every: time.Duration(n.Interval)}
		poll = func(ctx context.Context, opened sinks.Sink) (time.Duration, error) {
			return opened.(*webhook.Sink).Poll(ctx)
		}
	}
	open := func() (sinks.Sink, error) {
		return endpoint.OpenSink(s, endpoint.SinkOptions{
			Version: p.options.Version, Memories: p.store, Link: p.linkFor(s.Name), Notes: notes, Stdout: p.options.Stdout, Log: p.options.Log.With("sink", s.Name),
			Lease: p.lease(),
		})
	}
	// Open it once so that configuration errors are reported now, not while running.
	sink, err := open()
	if err != nil {
		return nil, err
	}
	if err := sink.Close(); err != nil {
		return nil, err
	}
	prepare, err := endpoint.Prepare(s, p.options.Version)
	if err != nil {
		return nil, err
	}
	selection, err := endpoint.Selection(s)
	if err != nil {
		return nil, err
	}
	return &sinkPart{part: part{phase: deliveryPhase}, config: s, options: sinks.Options{
		Name:         s.Name,
		Open:         open,
		Batch:        checkpoint.Batch{MaxEvents: s.Batch.MaxEvents, MaxBytes: int(s.Batch.MaxBytes)},
		Linger:       time.Duration(s.Batch.Linger),
		RetryInitial: time.Duration(s.Retry.Initial),
		RetryMax:     time.Duration(s.Retry.Max),
		Poison:       poison.Rule{Attempts: s.Poison.Attempts, After: time.Duration(s.Poison.After)},
		MaxAttempts:  s.MaxAttempts,
		Probe:        time.Duration(s.Probe),
		RateLimit:    s.RateLimit,
		Lag: sinks.Lag{
			Skip: s.Lag.Policy == configs.LagSkip, MaxAge: time.Duration(s.Lag.MaxAge), MaxBytes: int64(s.Lag.MaxBytes),
			Events: p.ownEvents(),
		},
		Lease:     p.lease(),
		Selection: selection,
		Prepare:   prepare,
		Poll:      poll,
		Log:       p.options.Log.With("sink", s.Name),
		Metrics:   p.metrics.sinks,
	}}, nil
}

// attach makes the runner of a sink that is registered in the state. No other runner of
// that sink may run.
func (p *sinkPart) attach(journal sinks.Journal, stats checkpoint.SinkStats) {
	p.options.PausedSince = stats.PausedSince
	p.runner = sinks.NewRunner(journal, p.options)
	p.tasks = []task{p.runner.Run}
}
