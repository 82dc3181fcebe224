package operations

import (
	"cmp"
	"context"
	"time"

	"ndrbridge/internal/admin"
)

// history merges the histories of the shards. The samples of the shards were taken at slightly
// different times, up to half a step apart. A sum is that of the shards that know the
// value: a shard's history begins when its owner takes it.
func (c *control) history(ctx context.Context, _ admin.None) (admin.History, error) {
	ctx, cancel := context.WithTimeout(ctx, partialTimeout)
	defer cancel()
	answers := askAll(ctx, c.shards, func(ctx context.Context, s *admin.Client) (admin.History, error) {
		h, err := admin.API.GetHistory.Call(ctx, s, admin.None{})
		return h, slow(ctx, err)
	})
	var histories []admin.History
	for _, a := range answers {
		if a.err == nil {
			histories = append(histories, a.value)
		}
	}
	if len(histories) == 0 {
		return admin.History{}, missing(answers)
	}
	return c.mergeHistories(histories), nil
}

func (c *control) mergeHistories(histories []admin.History) admin.History {
	merged := admin.History{Streams: []admin.StreamHistory{}, Sinks: []admin.SinkHistory{}}
	length := 0
	for _, h := range histories {
		merged.StepSeconds = max(merged.StepSeconds, h.StepSeconds)
		merged.Until = latest(merged.Until, h.Until)
		length = max(length, len(h.Journal.Bytes))
	}
	grid := grid{until: merged.Until, step: time.Duration(max(1, merged.StepSeconds)) * time.Second, length: length}
	merged.Journal.Bytes = make([]*int64, length)
	type key struct{ appliance, stream string }
	streams := make(map[key]admin.StreamHistory)
	sinks := make(map[string]admin.SinkHistory)
	var order []key
	for _, s := range c.o.Config().Sinks {
		sinks[s.Name] = admin.SinkHistory{
			Sink: s.Name, EventsPerSecond: make([]*float64, length), LagEvents: make([]*uint64, length), LagSeconds: make([]*float64, length),
		}
	}
	for _, h := range histories {
		addSamples(grid, merged.Journal.Bytes, h.Journal.Bytes, h.Until, sum)
		for _, s := range h.Streams {
			of := admin.StreamHistory{Appliance: s.Appliance, Stream: s.Stream, EventsPerSecond: make([]*float64, length), LagSeconds: make([]*float64, length)}
			addSamples(grid, of.EventsPerSecond, s.EventsPerSecond, h.Until, sum)
			addSamples(grid, of.LagSeconds, s.LagSeconds, h.Until, higher)
			k := key{s.Appliance, s.Stream}
			streams[k] = of
			order = append(order, k)
		}
		for _, s := range h.Sinks {
			if of, ok := sinks[s.Sink]; ok {
				addSamples(grid, of.EventsPerSecond, s.EventsPerSecond, h.Until, sum)
				addSamples(grid, of.LagEvents, s.LagEvents, h.Until, sum)
				addSamples(grid, of.LagSeconds, s.LagSeconds, h.Until, higher)
			}
		}
	}
	for _, a := range c.o.Config().Appliances {
		for _, k := range order {
			if k.appliance == a.Name {
				merged.Streams = append(merged.Streams, streams[k])
			}
		}
	}
	for _, s := range c.o.Config().Sinks {
		merged.Sinks = append(merged.Sinks, sinks[s.Name])
	}
	return merged
}

// grid is the times of a merged history's samples.
type grid struct {
	until  time.Time
	step   time.Duration
	length int
}

// addSamples merges the samples of a shard, whose last was taken at until, into merged.
func addSamples[T cmp.Ordered](g grid, merged, samples []*T, until time.Time, merge func(a, b T) T) {
	behind := int((g.until.Sub(until) + g.step/2) / g.step)
	for i, sample := range samples {
		at := g.length - len(samples) + i - behind
		if sample == nil || at < 0 || at >= g.length {
			continue
		}
		value := *sample
		if merged[at] != nil {
			value = merge(*merged[at], value)
		}
		merged[at] = &value
	}
}

func sum[T cmp.Ordered](a, b T) T    { return a + b }
func higher[T cmp.Ordered](a, b T) T { return max(a, b) }
