package poller_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/transform"
)

// A rewind delivers as many objects as were counted before it.
func TestWhatARewindWouldReadIsCounted(t *testing.T) {
	t.Run("detections", func(t *testing.T) {
		w := newWorld(t)
		w.mustPoll()
		var times []int64
		for range 20 {
			w.clock += 60_000
			times = append(times, w.clock)
			w.add(w.clock)
		}
		w.clock += 1000
		w.mustPoll()
		count := func(to int64) (poller.Reread, error) {
			return poller.RereadDetections(t.Context(), w.model, w.state, w.options, time.UnixMilli(to))
		}
		for to, want := range map[int64]int64{times[7]: 13, times[7] + 1: 12, 0: 20, w.clock + 5000: 0} {
			if got, err := count(to); err != nil || got != (poller.Reread{Objects: want}) {
				t.Errorf("%+v (%v), want %d", got, err, want)
			}
		}
		w.failing = true
		if got, err := count(times[7]); err == nil || got.Objects != 13 {
			t.Errorf("%+v (%v), want an error, and the 13 that are known", got, err)
		}
		w.failing, w.titles = false, nil
		source := checkpoint.Source{Appliance: "hq", Stream: transform.StreamDetections}
		if err := poller.Rewind(t.Context(), w.state, source, time.UnixMilli(times[7])); err != nil {
			t.Fatal(err)
		}
		if got := w.delivered(w.mustPoll); len(got) != 13 {
			t.Errorf("%d are read again", len(got))
		}
	})
	for _, oldestFirst := range []bool{false, true} {
		t.Run(map[bool]string{false: "audit log entries, newest first", true: "audit log entries, oldest first"}[oldestFirst], func(t *testing.T) {
			w := newAuditWorld(t)
			w.oldestFirst = oldestFirst
			w.options.PageSize = 6
			w.options.Start = func(time.Time) time.Time { return time.Time{} }
			w.restartSource()
			w.writeMany(20)
			w.mustPoll()
			w.writeMany(3) // not read yet
			at := w.log[12].time
			for to, want := range map[int64]int64{0: 20, w.clock + 3600_000: 0, at: int64(20 - slices.IndexFunc(w.log, func(e *logEntry) bool { return e.time >= at }))} {
				got, err := poller.RereadAudit(t.Context(), w.auditModel, w.state, w.options, time.UnixMilli(to))
				if err != nil || got != (poller.Reread{Objects: want}) {
					t.Errorf("from %d: %+v (%v), want %d", to, got, err, want)
				}
			}
		})
	}
	t.Run("records", func(t *testing.T) {
		w := newRecordWorld(t)
		w.mustPoll()
		since := time.UnixMilli(w.clock)
		for i := range 100 {
			w.store(w.clock*1000 + int64(i)*500_123)
		}
		w.pass(10 * time.Minute)
		w.drain()
		for to, want := range map[time.Time]int64{since: 100, since.Add(10 * time.Second): 80, since.Add(time.Hour): 0} {
			got, err := poller.RereadRecords(t.Context(), w.recordModel, w.state, w.options, to)
			if err != nil || got != (poller.Reread{Objects: want}) {
				t.Errorf("%+v (%v), want %d", got, err, want)
			}
		}
		w.noTotals = true
		if _, err := poller.RereadRecords(t.Context(), w.recordModel, w.state, w.options, since); err == nil {
			t.Error("a count without totals")
		}
	})
	t.Run("detections of an appliance where one appears with every request", func(t *testing.T) {
		w := newWorld(t)
		w.mustPoll()
		for range 20 {
			w.clock += 60_000
			w.add(w.clock)
		}
		w.mustPoll()
		got, err := poller.RereadDetections(limited(t), busy{w.model}, w.state, w.options, time.UnixMilli(0))
		if err != nil || got.AtLeast || got.Objects < 20 || got.Objects > 40 {
			t.Errorf("%+v (%v), want the 20 and a few more", got, err)
		}
	})
	t.Run("nothing of a stream that was never read", func(t *testing.T) {
		w := newWorld(t)
		if _, err := poller.RereadDetections(t.Context(), w.model, w.state, w.options, time.UnixMilli(5)); err == nil {
			t.Error("no error")
		}
	})
}

func TestAVerificationOfABusyApplianceEnds(t *testing.T) {
	report := poller.VerifyReport{Progress: func(string, int, time.Time) {}, Found: func(d poller.Difference) {
		if d.Kind != poller.DiffPending {
			t.Errorf("found %+v", d)
		}
	}}
	check := func(v poller.Verification, err error) {
		t.Helper()
		if pending := v.Differences[poller.DiffPending]; err != nil || v.Same != 20 || v.Compared != v.Same+pending || pending > 20 {
			t.Errorf("%+v (%v), want the 20 that were read, and a few more", v, err)
		}
	}
	t.Run("where a detection appears with every request", func(t *testing.T) {
		w := newWorld(t)
		w.mustPoll()
		since := w.clock
		for range 20 {
			w.clock += 60_000
			w.add(w.clock)
		}
		w.mustPoll()
		check(poller.VerifyDetections(limited(t), busy{w.model}, w.state, w.options, time.UnixMilli(since), report))
	})
	for _, oldestFirst := range []bool{false, true} {
		t.Run(map[bool]string{false: "that logs with every request, newest first", true: "that logs with every request, oldest first"}[oldestFirst], func(t *testing.T) {
			w := newAuditWorld(t)
			w.oldestFirst = oldestFirst
			w.options.PageSize = 6
			w.options.Start = func(time.Time) time.Time { return time.Time{} }
			w.restartSource()
			w.writeMany(1)
			w.clock += 60_000
			since := w.clock
			w.writeMany(20)
			w.mustPoll()
			check(poller.VerifyAudit(limited(t), busyLog{w.auditModel, w}, w.state, w.options, time.UnixMilli(since), report))
		})
	}
}

// busy has another detection with every request.
type busy struct{ *model }

func (b busy) SearchDetections(ctx context.Context, s appliance.Search, page *appliance.Page) error {
	b.clock += 1000
	b.add(b.clock)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return b.model.SearchDetections(ctx, s, page)
}

// busyLog has another entry with every request.
type busyLog struct {
	*auditModel
	world *auditWorld
}

func (b busyLog) AuditLog(ctx context.Context, limit, offset int, page *appliance.Page) error {
	b.clock += 1000
	b.world.writeMany(1)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return b.auditModel.AuditLog(ctx, limit, offset, page)
}
