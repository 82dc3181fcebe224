package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// status merges the statuses of the shards. Appliances of shards that cannot be asked have an error
// and no streams.
func (c *control) status(ctx context.Context, _ admin.None) (admin.Status, error) {
	config := c.o.Config()
	merged := admin.Status{Version: c.o.Version, Running: true, Started: c.o.Started, State: admin.StateStatus{Path: config.State}}
	appliances := make(map[string]admin.ApplianceStatus)
	sinks, unconfigured := make(map[string]*admin.SinkStatus), make(map[string]*admin.SinkStatus)
	failed := make(map[int]error)
	for _, a := range c.statuses(ctx) {
		if a.err != nil {
			failed[a.shard] = a.err
			merged.ShardErrors = append(merged.ShardErrors, admin.ShardError{Shard: a.shard, Error: a.err.Error()})
			continue
		}
		addStateStatus(&merged.State, a.value.State)
		for _, of := range a.value.Appliances {
			appliances[of.Name] = of
		}
		merged.Intakes = append(merged.Intakes, a.value.Intakes...)
		for _, of := range a.value.Sinks {
			addSink(sinks, a.shard, of)
		}
		for _, of := range a.value.Unconfigured {
			addSink(unconfigured, a.shard, of)
		}
	}
	for _, a := range config.Appliances {
		of, ok := appliances[a.Name]
		if !ok {
			of = admin.ApplianceStatus{Name: a.Name, URL: a.URL, Streams: []admin.StreamStatus{}}
			if err := failed[c.shards.Of(a.Name)]; err != nil {
				of.Error = err.Error()
			}
		}
		merged.Appliances = append(merged.Appliances, of)
	}
	for _, s := range config.Sinks {
		of := admin.SinkStatus{Name: s.Name, Kind: s.Kind(), Preset: s.Preset(), Target: s.Target()}
		if m := sinks[s.Name]; m != nil {
			of = *m
		}
		merged.Sinks = append(merged.Sinks, of)
	}
	for _, name := range slices.Sorted(maps.Keys(unconfigured)) {
		of := *unconfigured[name]
		of.State, of.Shard, of.Since = "", "", time.Time{}
		merged.Unconfigured = append(merged.Unconfigured, of)
	}
	return merged, nil
}

// statuses returns the statuses of all shards.
func (c *control) statuses(ctx context.Context) []answer[admin.Status] {
	ctx, cancel := context.WithTimeout(ctx, partialTimeout)
	defer cancel()
	return askAll(ctx, c.shards, func(ctx context.Context, s *admin.Client) (admin.Status, error) {
		status, err := s.Status(ctx)
		return status, slow(ctx, err)
	})
}

// slow returns an error that a shard does not answer if that is why ctx is done, else err.
func slow(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s: %w", partialTimeout, admin.ErrUnavailable)
	}
	return err
}

// addStateStatus adds the state of a shard to sum.
func addStateStatus(sum *admin.StateStatus, of admin.StateStatus) {
	sum.FileBytes += of.FileBytes
	sum.Journal.Events += of.Journal.Events
	sum.Journal.Bytes += of.Journal.Bytes
	sum.Journal.MaxBytes += of.Journal.MaxBytes
	sum.Journal.Full = sum.Journal.Full || of.Journal.Full
	sum.Commands.Pending += of.Commands.Pending
	sum.Commands.Done += of.Commands.Done
}

// addSink merges the status of a sink in a shard into that of the others.
func addSink(sinks map[string]*admin.SinkStatus, shard int, of admin.SinkStatus) {
	if badness(of.State) > badness(stateRunning) {
		of.Shard = configs.ShardName(shard)
	}
	sum := sinks[of.Name]
	if sum == nil {
		sinks[of.Name] = &of
		return
	}
	switch difference := badness(of.State) - badness(sum.State); {
	case difference > 0:
		sum.State, sum.Since, sum.Error, sum.Shard = of.State, of.Since, of.Error, of.Shard
	case difference == 0 && of.State == stateRunning:
		sum.Since = latest(sum.Since, of.Since) // since then, all run
	case difference == 0 && !of.Since.IsZero() && of.Since.Before(sum.Since):
		sum.Since, sum.Error, sum.Shard = of.Since, of.Error, of.Shard
	}
	sum.LagEvents += of.LagEvents
	sum.LagBytes += of.LagBytes
	sum.Oldest = earliest(sum.Oldest, of.Oldest)
	sum.LagSeconds = max(sum.LagSeconds, of.LagSeconds)
	sum.Delivered += of.Delivered
	sum.LastDelivery = latest(sum.LastDelivery, of.LastDelivery)
	sum.NextAttempt = earliest(sum.NextAttempt, of.NextAttempt)
	sum.EventsPerSecond += of.EventsPerSecond
	sum.Match = addMatch(sum.Match, of.Match)
	sum.OverLag = sum.OverLag || of.OverLag
	if fills := of.FillsJournalInSeconds; fills > 0 && (sum.FillsJournalInSeconds == 0 || fills < sum.FillsJournalInSeconds) {
		sum.FillsJournalInSeconds = fills
	}
	sum.DeadLetters += of.DeadLetters
	sum.DeadLetterBytes += of.DeadLetterBytes
	sum.DeadLetterMaxBytes += of.DeadLetterMaxBytes
	sum.Redeliveries += of.Redeliveries
	sum.Parked += of.Parked
	sum.Skipped += of.Skipped
}

// addMatch adds the results of a match in two shards, either of which may be nil.
func addMatch(a, b *admin.MatchStatus) *admin.MatchStatus {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return &admin.MatchStatus{
		Matched: a.Matched + b.Matched, Filtered: a.Filtered + b.Filtered,
		Errors: a.Errors + b.Errors, Error: cmp.Or(a.Error, b.Error),
	}
}

// stateRunning is the best state of a sink.
const stateRunning = "running"

// badness orders the states of a sink, best first.
func badness(state string) int {
	return slices.Index([]string{"", stateRunning, "paused", "retrying", "halted"}, state)
}

// earliest returns the earlier of two times, of which zero ones are not set.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
