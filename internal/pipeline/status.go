package pipeline

import (
	"cmp"
	"context"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/commands"
	"ndrbridge/poller"
	"ndrbridge/sinks"
)

// knownStatus returns the status as far as the state and the configuration know it.
func (p *operator) knownStatus(ctx context.Context) (admin.Status, checkpoint.Stats, error) {
	stats, err := p.store.Stats(ctx)
	if err != nil {
		return admin.Status{}, stats, err
	}
	path, _ := filepath.Abs(p.config.State) // clients of the API have other working directories
	status := admin.Status{
		Version: p.version,
		State: admin.StateStatus{Path: cmp.Or(path, p.config.State), FileBytes: stats.FileBytes, Journal: admin.Journal{
			Events: stats.Events, Bytes: stats.Bytes, MaxBytes: int64(p.config.Journal.MaxBytes), Full: stats.SourcesWait,
		}, Commands: admin.CommandCounts(stats.Commands)},
	}
	for _, a := range p.config.Appliances {
		of := admin.ApplianceStatus{Name: a.Name, URL: a.URL, Streams: []admin.StreamStatus{}}
		if _, known, err := storedIdentity(ctx, p.store, identitySource(a.Name)); err == nil {
			of.Replaced = known.Replaced
		}
		for _, stream := range StreamsOf(p.config, a) {
			source := checkpoint.Source{Appliance: a.Name, Stream: stream}
			owner := checkpoint.SourceOwner(source)
			// An unreadable position is reported by the stream's polls; the rest of the
			// status is still returned.
			position, _ := poller.ReadUpTo(ctx, p.store, source)
			of.Streams = append(of.Streams, admin.StreamStatus{
				Stream: stream, Position: position,
				DeadLetters: stats.DeadLetters[owner].Count, DeadLettersDropped: stats.DeadLetters[owner].Dropped,
			})
		}
		status.Appliances = append(status.Appliances, of)
	}
	unconfigured := maps.Clone(stats.Sinks)
	for _, s := range p.config.Sinks {
		of := sinkStatus(s.Name, stats)
		of.Kind, of.Preset, of.Target = s.Kind(), s.Preset(), s.Target()
		of.DeadLetterMaxBytes = limits(p.config).DeadShare(len(p.config.Sinks))
		if of.OverLag, err = overLag(ctx, p.store, s, stats); err != nil {
			return admin.Status{}, stats, err
		}
		status.Sinks = append(status.Sinks, of)
		delete(unconfigured, s.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(unconfigured)) {
		of := sinkStatus(name, stats)
		of.State, of.Since = "", time.Time{}
		status.Unconfigured = append(status.Unconfigured, of)
	}
	return status, stats, nil
}

func sinkStatus(name string, stats checkpoint.Stats) admin.SinkStatus {
	s, dead := stats.Sinks[name], stats.DeadLetters[checkpoint.SinkOwner(name)]
	of := admin.SinkStatus{
		Name: name, LagEvents: s.LagEvents, LagBytes: s.LagBytes, Oldest: s.Oldest, LagSeconds: ageSeconds(s.Oldest, time.Now()),
		DeadLetters: dead.Count, DeadLetterBytes: dead.Bytes,
		Redeliveries: s.Queued, Parked: s.Parked,
		// Trimmed events move into Skipped when the sink is moved past them.
		Skipped: s.Skipped + s.Trimmed,
	}
	if !s.PausedSince.IsZero() {
		of.State, of.Since = string(sinks.StatePaused), s.PausedSince
	}
	return of
}

// overLag reports whether the sink's unacknowledged events exceed its lag budget.
func overLag(ctx context.Context, store *checkpoint.Store, s configs.Sink, stats checkpoint.Stats) (bool, error) {
	if _, known := stats.Sinks[s.Name]; !known || !s.Lag.IsBounded() {
		return false, nil
	}
	budget := checkpoint.Budget{MaxBytes: int64(s.Lag.MaxBytes)}
	if s.Lag.MaxAge > 0 {
		budget.Since = time.Now().Add(-time.Duration(s.Lag.MaxAge))
	}
	over, err := store.Over(ctx, s.Name, budget)
	return over.Cursor > over.Expect, err
}

func (c *control) status(ctx context.Context, _ admin.None) (admin.Status, error) {
	status, stats, err := c.knownStatus(ctx)
	if err != nil {
		return admin.Status{}, err
	}
	now := time.Now()
	status.Running, status.Started = true, c.pipeline.options.Started
	for i, a := range c.all.appliances {
		a.report(&status.Appliances[i])
		for n, stream := range a.streams {
			of, polled := &status.Appliances[i].Streams[n], stream.poller.Status()
			of.LastSuccess, of.Failures, of.Error, of.Cause = polled.LastSuccess, polled.Failures, polled.Error, polled.Cause
			of.Off = polled.Off
			of.NextAttempt = polled.NextAttempt
			of.Events, of.Skipped = polled.Events, polled.Skipped
			of.EventsPerSecond = c.pipeline.history.rate(checkpoint.SourceOwner(polled.Source), polled.Events, now)
			if p, ok := stream.source.Progress(); ok {
				of.Position, of.Backlog = p.At, backlogOf(p)
			}
			if p, ok := stream.poller.Progress(); ok {
				of.LagSeconds = new(p.Behind.Seconds())
			}
		}
		for _, w := range a.writers {
			s := w.Status()
			of := &admin.WriterStatus{State: string(s.State), Since: s.Since, Error: s.Error, Cause: s.Cause}
			switch w.Kind() {
			case commands.KindRule:
				status.Appliances[i].Rules = of
			case commands.KindNote:
				status.Appliances[i].Notes = of
			default:
				status.Appliances[i].Tickets = of
			}
		}
	}
	for _, p := range c.all.intakes {
		status.Intakes = append(status.Intakes, p.status())
	}
	fills := fillingSink(c.config, stats)
	for i, p := range c.all.sinks {
		of, s := &status.Sinks[i], p.runner.Status()
		of.State, of.Since, of.Error, of.Cause = string(s.State), s.Since, s.Error, s.Cause
		of.Delivered, of.LastDelivery, of.NextAttempt = s.Delivered, s.LastDelivery, s.NextAttempt
		of.EventsPerSecond = c.pipeline.history.rate(checkpoint.SinkOwner(of.Name), s.Delivered, now)
		if s.Match != nil {
			of.Match = new(admin.MatchStatus(*s.Match))
		}
		if of.Name == fills {
			of.FillsJournalInSeconds = c.pipeline.history.secondsUntil(stats.MaxBytes, checkpoint.SinkOwner(of.Name), s.Delivered, of.LagBytes, now)
		}
	}
	return status, nil
}

// report adds the appliance's reachability, firmware and clock to of.
func (p *appliancePart) report(of *admin.ApplianceStatus) {
	r := p.watch.Reach()
	if of.Since, of.Error, of.Cause = r.Since, r.Error, r.Cause; r.Known {
		of.Reachable = &r.Reachable
	}
	of.Firmware = p.system.version()
	of.DatesDisbelieved = p.client.DisbelievedDates()
	if ahead, ok := p.client.ClockSkew(); ok {
		of.ClockSkewSeconds = new(math.Round(ahead.Seconds()*1000) / 1000)
	}
}

// backlogOf returns nil if the source is not behind.
func backlogOf(p poller.Progress) *admin.Backlog {
	if p.Behind == 0 {
		return nil
	}
	return &admin.Backlog{
		At: p.At, BehindSeconds: p.Behind.Seconds(), LeftSeconds: p.Left.Seconds(),
		EventsPerSecond: p.EventsPerSecond, RecordsPerSecond: p.EventsPerSecond,
	}
}
