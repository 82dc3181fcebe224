package poller_test

import (
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// backlog is a stream with a long past.
type backlog struct {
	source poller.Source
	state  *memory
	stream string
	// between is called before each request, and now returns the appliance's time.
	between func(func())
	now     func() int64
}

// stopwatch is the bridge's clock, in another year than the appliance's.
type stopwatch struct{ at time.Time }

func (s *stopwatch) now() time.Time { return s.at }

const hour = int64(time.Hour / time.Millisecond)

func detectionsOfAnHour(t *testing.T, local *stopwatch) backlog {
	w := newWorld(t)
	w.options.Start, w.options.Now = fromTheBeginning, local.now
	for i := range hour / 30_000 {
		w.add(w.clock - hour + i*30_000)
	}
	w.restart()
	return backlog{w.source, w.state, transform.StreamDetections, func(f func()) { w.between = f }, w.time}
}

func auditLogOfAnHour(t *testing.T, local *stopwatch) backlog {
	w := newAuditWorld(t)
	w.options.Start, w.options.Now = fromTheBeginning, local.now
	w.clock -= hour
	for range hour / 30_000 {
		w.clock += 30_000
		w.writeMany(1)
	}
	w.restartSource()
	return backlog{w.source, w.state, transform.StreamAudit, func(f func()) { w.between = f }, func() int64 { return w.clock }}
}

func TestHowFarAStreamWasRead(t *testing.T) {
	for name, begin := range map[string]func(*testing.T, *stopwatch) backlog{"detections": detectionsOfAnHour, "the audit log": auditLogOfAnHour} {
		t.Run(name, func(t *testing.T) {
			local := &stopwatch{time.UnixMilli(1_700_000_000_000)}
			b := begin(t, local)
			p, ok := b.source.Progress()
			assert.False(t, ok, "before the first page", p)
			committed := func() time.Time {
				t.Helper()
				at, err := poller.ReadUpTo(t.Context(), b.state, checkpoint.Source{Appliance: "hq", Stream: b.stream})
				require.NoError(t, err)
				return at
			}
			at := committed()
			assert.True(t, at.IsZero(), "without a position it was read up to", at)
			var half poller.Progress
			b.between(func() {
				local.at = local.at.Add(time.Second)
				p, ok := b.source.Progress()
				if !ok {
					return
				}
				at := committed()
				assert.True(t, p.At.Equal(at), "it was read up to", p.At, at, "is committed")
				if half.At.IsZero() && p.Behind < 30*time.Minute {
					half = p
				}
			})
			require.Value(b.source.Poll(t.Context()))(t)
			assert.True(t, half.Behind >= 25*time.Minute && half.EventsPerSecond > 1 && half.SpeedUp > 30 && half.Left > 0 && half.Left <= time.Minute, "halfway it", half)
			p, ok = b.source.Progress()
			end := b.now()
			assert.True(t, ok && p.Behind == 0 && p.Left == 0 && p.At.UnixMilli() >= end-1000 && p.At.UnixMilli() <= end, p, time.UnixMilli(end))
		})
	}
	t.Run("the speed is measured again after a while", func(t *testing.T) {
		w := newWorld(t)
		local := &stopwatch{time.UnixMilli(1_700_000_000_000)}
		w.options.Start, w.options.Now = fromTheBeginning, local.now
		for i := range int64(800) {
			w.add(w.clock - 800_000 + i*1000)
		}
		w.restart()
		step, requests := time.Second, 0
		var speeds []poller.Progress // after 60 requests of a second, and after 60 of ten
		w.between = func() {
			local.at = local.at.Add(step)
			if requests++; requests%60 == 0 {
				p, _ := w.source.Progress()
				speeds = append(speeds, p)
				step = 10 * time.Second
			}
		}
		w.mustPoll()
		// A page shows four that are new, a second apart.
		for i, want := range []float64{4, 0.4} {
			p := speeds[i]
			assert.True(t, p.EventsPerSecond >= want*0.9 && p.EventsPerSecond <= want*1.1 && p.SpeedUp >= want*0.9 && p.SpeedUp <= want*1.1, 60*(i+1), p, want)
		}
	})
	t.Run("the speed of a backlog is not that of the one before", func(t *testing.T) {
		w := newWorld(t)
		local := &stopwatch{time.UnixMilli(1_700_000_000_000)}
		w.options.Now = local.now
		w.restart()
		w.mustPoll()
		var speeds []float64
		w.between = func() {
			local.at = local.at.Add(time.Second)
			if p, _ := w.source.Progress(); p.Behind > 0 {
				speeds = append(speeds, p.EventsPerSecond)
			}
		}
		for range 2 {
			for range 20 {
				w.clock += 60_000
				w.add(w.clock)
			}
			speeds = nil
			w.mustPoll()
			assert.True(t, len(speeds) >= 2 && speeds[0] == 0 && speeds[1] != 0, "speeds", speeds, "want that the first is not known")
		}
	})
	t.Run("a position that cannot be read is an error", func(t *testing.T) {
		state := newMemory(func(checkpoint.Commit) {})
		state.position = []byte("{")
		for _, stream := range []string{transform.StreamDetections, transform.StreamAudit, transform.StreamRecords + "/dns"} {
			at, err := poller.ReadUpTo(t.Context(), state, checkpoint.Source{Appliance: "hq", Stream: stream})
			assert.Error(t, err, stream, "was read up to", at)
		}
	})
	t.Run("that of records is the end of the last window", func(t *testing.T) {
		w := newRecordWorld(t)
		w.mustPoll()
		at, err := poller.ReadUpTo(t.Context(), w.state, w.source.Source())
		p, _ := w.source.Progress()
		assert.True(t, err == nil && !at.IsZero() && !at.After(p.At) && p.At.Sub(at) <= time.Minute, at, err, "and progress", p)
	})
}
