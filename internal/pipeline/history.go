package pipeline

import (
	"context"
	"sync"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
)

// The history covers one hour.
const (
	historyStep   = 15 * time.Second
	historyLength = 240
)

// history holds recent samples of the pipeline's counts and lags. It is safe for
// concurrent use; its zero value is ready to use.
type history struct {
	mu      sync.Mutex
	moments []moment // in the order of their times
}

// moment is one sample. Unknown values are absent or nil. A moment is immutable once it
// was added to a history.
type moment struct {
	at      time.Time
	journal *int64 // bytes
	rows    map[checkpoint.Owner]row
}

// row is the sample of one stream or sink.
type row struct {
	count      uint64   // of its events since the start
	perSecond  *float64 // since the previous moment
	lagEvents  *uint64  // nil for streams
	lagBytes   int64
	lagSeconds *float64
}

// keepHistory adds a sample at each historyStep until ctx is done.
func (p *Pipeline) keepHistory(ctx context.Context) {
	p.history.add(p.sample(ctx))
	every(ctx, historyStep, func() { p.history.add(p.sample(ctx)) })
}

// sample returns the current state of the pipeline. It costs as much as Stats.
func (p *Pipeline) sample(ctx context.Context) moment {
	all := p.current.Load()
	m := moment{at: time.Now(), rows: make(map[checkpoint.Owner]row)}
	for _, a := range all.appliances {
		for _, s := range a.streams {
			status := s.poller.Status()
			r := row{count: status.Events}
			if p, ok := s.poller.Progress(); ok {
				r.lagSeconds = new(p.Behind.Seconds())
			}
			m.rows[checkpoint.SourceOwner(status.Source)] = r
		}
	}
	stats, err := p.store.Stats(ctx)
	if err == nil {
		m.journal = new(stats.Bytes) // a copy, which does not keep all of stats in memory
	}
	for _, s := range all.sinks {
		r := row{count: s.runner.Status().Delivered}
		if of, known := stats.Sinks[s.config.Name]; known {
			r.lagEvents, r.lagBytes, r.lagSeconds = &of.LagEvents, of.LagBytes, new(ageSeconds(of.Oldest, m.at))
		}
		m.rows[checkpoint.SinkOwner(s.config.Name)] = r
	}
	return m
}

// ageSeconds returns the seconds from seen until now, or 0 if seen is zero.
func ageSeconds(seen, now time.Time) float64 {
	if seen.IsZero() {
		return 0
	}
	return max(0, now.Sub(seen).Seconds())
}

// add appends m and sets its rates since the previous moment. It drops the oldest
// moment if the history is full.
func (h *history) add(m moment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.moments); n > 0 {
		before := h.moments[n-1]
		for owner, r := range m.rows {
			if was, ok := before.rows[owner]; ok {
				r.perSecond = perSecond(was.count, r.count, m.at.Sub(before.at))
				m.rows[owner] = r
			}
		}
	}
	if len(h.moments) == historyLength {
		h.moments = h.moments[1:]
	}
	h.moments = append(h.moments, m)
}

// perSecond returns the rate at which a count has grown, or nil if the count restarted,
// for example because a sink was removed and added again.
func perSecond(was, is uint64, elapsed time.Duration) *float64 {
	if is < was || elapsed <= 0 {
		return nil
	}
	return new(float64(is-was) / elapsed.Seconds())
}

// back returns the first moment that is at least as long ago as over, or the oldest since the
// count of owner began, or nil. h.mu must be held.
func (h *history) back(owner checkpoint.Owner, count uint64, now time.Time, over time.Duration) (from *moment) {
	for i := len(h.moments) - 1; i >= 0; i-- {
		m := &h.moments[i]
		if r, ok := m.rows[owner]; !ok || r.count > count {
			break
		}
		if from = m; now.Sub(m.at) >= over {
			break
		}
	}
	return from
}

// rate returns the mean rate of a stream or sink over about the last minute, or since
// it was added; 0 if it was added just now.
func (h *history) rate(owner checkpoint.Owner, count uint64, now time.Time) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if from := h.back(owner, count, now, time.Minute); from != nil {
		if rate := perSecond(from.rows[owner].count, count, now.Sub(from.at)); rate != nil {
			return *rate
		}
	}
	return 0
}

// secondsUntil returns the seconds until the lag of a sink, now in bytes, reaches limit at the
// mean rate of about the last five minutes, or 0 if it does not grow.
func (h *history) secondsUntil(limit int64, owner checkpoint.Owner, count uint64, bytes int64, now time.Time) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	from := h.back(owner, count, now, 5*time.Minute)
	if from == nil || bytes <= from.rows[owner].lagBytes || limit <= bytes {
		return 0
	}
	return float64(limit-bytes) / float64(bytes-from.rows[owner].lagBytes) * now.Sub(from.at).Seconds()
}

func (c *control) history(context.Context, admin.None) (admin.History, error) {
	h := &c.pipeline.history
	h.mu.Lock()
	moments := append([]moment(nil), h.moments...)
	h.mu.Unlock()

	of := admin.History{
		StepSeconds: int(historyStep.Seconds()),
		Journal:     admin.JournalHistory{Bytes: column(moments, func(m moment) *int64 { return m.journal })},
		Streams:     []admin.StreamHistory{}, Sinks: []admin.SinkHistory{},
	}
	if n := len(moments); n > 0 {
		of.Until = moments[n-1].at
	}
	for _, a := range c.all.appliances {
		for _, s := range a.streams {
			source := s.source.Source()
			owner := checkpoint.SourceOwner(source)
			of.Streams = append(of.Streams, admin.StreamHistory{
				Appliance: source.Appliance, Stream: source.Stream,
				EventsPerSecond: column(moments, func(m moment) *float64 { return m.rows[owner].perSecond }),
				LagSeconds:      column(moments, func(m moment) *float64 { return m.rows[owner].lagSeconds }),
			})
		}
	}
	for _, s := range c.all.sinks {
		owner := checkpoint.SinkOwner(s.config.Name)
		of.Sinks = append(of.Sinks, admin.SinkHistory{
			Sink:            s.config.Name,
			EventsPerSecond: column(moments, func(m moment) *float64 { return m.rows[owner].perSecond }),
			LagEvents:       column(moments, func(m moment) *uint64 { return m.rows[owner].lagEvents }),
			LagSeconds:      column(moments, func(m moment) *float64 { return m.rows[owner].lagSeconds }),
		})
	}
	return of, nil
}

// column returns one value of each moment.
func column[T any](moments []moment, value func(moment) *T) []*T {
	values := make([]*T, len(moments))
	for i, m := range moments {
		values[i] = value(m)
	}
	return values
}
