package poller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestVerifyReportsHowAnAuditLogDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		oldestFirst bool
		pages       int
		change      func(w *auditWorld)
		want        []string
	}{
		"not at all":                      {},
		"not at all, over many pages":     {pages: 5},
		"not at all, oldest first":        {oldestFirst: true, pages: 5},
		"an entry that is yet to be read": {change: func(w *auditWorld) { w.writeMany(1) }, want: []string{"pending 21"}},
		"an entry of another log": {change: func(w *auditWorld) {
			e := *w.log[7]
			e.raw = fmt.Sprintf(`{"id":%d,"time":%d,"body":"another"}`, e.id, e.time+1000)
			w.log[7] = &e
		}, want: []string{"missing 8"}},
		"an entry that was given up": {change: func(w *auditWorld) {
			w.write(`{}`, func(e *logEntry) { e.fail, e.unreadable = answered(500), true })
			for polls := 0; len(w.state.dead) == 0 && polls < 20; polls++ {
				_ = w.poll() // until it is
			}
		}, want: []string{"dead"}},
		"an entry that became no event": {change: func(w *auditWorld) {
			w.write(`{}`, func(e *logEntry) { e.huge = true })
			w.mustPoll()
		}, want: []string{"dead"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAuditWorld(t)
			w.oldestFirst = c.oldestFirst
			if c.pages > 0 {
				w.options.PageSize = 20/c.pages + 1
				w.restartSource()
			}
			w.options.Start = func(time.Time) time.Time { return time.Time{} }
			w.restartSource()
			w.writeMany(20)
			w.mustPoll()
			if c.change != nil {
				c.change(w)
			}
			var found []string
			v, err := poller.VerifyAudit(t.Context(), w.auditModel, w.state, w.options, time.UnixMilli(w.log[0].time), poller.VerifyReport{
				Progress: func(string, int, time.Time) {},
				Found: func(d poller.Difference) {
					if d.Kind == "dead" {
						found = append(found, d.Kind)
						return
					}
					found = append(found, d.Kind+" "+d.ID)
				},
			})
			require.NoError(t, err)
			assert.EqualSlices(t, found, c.want, "found")
			assert.Equal(t, v.Compared, len(w.log), v, "entries")
			assert.Equal(t, v.Same, len(w.log)-len(c.want), v, "entries")
		})
	}
	t.Run("entries before the requested time do not count", func(t *testing.T) {
		w := newAuditWorld(t)
		w.writeMany(30)
		w.mustPoll() // behind them all
		w.clock += 5000
		w.writeMany(3)
		w.mustPoll()
		v, err := poller.VerifyAudit(t.Context(), w.auditModel, w.state, w.options, time.UnixMilli(1), poller.VerifyReport{
			Progress: func(string, int, time.Time) {},
			Found:    func(d poller.Difference) { t.Errorf("found %+v", d) },
		})
		assert.NoError(t, err, v)
		assert.Equal(t, v.Compared, 3, v)
	})
	t.Run("newest entries that are too large do not end it", func(t *testing.T) {
		w := newAuditWorld(t)
		w.options.PageSize = 6
		w.options.Start = func(time.Time) time.Time { return time.Time{} }
		w.restartSource()
		w.writeMany(20)
		w.mustPoll()
		w.writeMany(20)
		for range 6 {
			w.write(`{}`, func(e *logEntry) { e.huge = true })
		}
		v, err := poller.VerifyAudit(t.Context(), w.auditModel, w.state, w.options, time.UnixMilli(1), poller.VerifyReport{
			Progress: func(string, int, time.Time) {},
			Found:    func(poller.Difference) {},
		})
		assert.NoError(t, err, v)
		assert.Equal(t, v.Compared, 46, v)
	})
}

// journalled is a journal of the events committed to a memory.
type journalled struct {
	first  uint64
	events []transform.Event
}

func (j *journalled) Stats(context.Context) (checkpoint.Stats, error) {
	return checkpoint.Stats{First: j.first}, nil
}

func (j *journalled) Read(_ context.Context, after uint64, _ checkpoint.Batch) ([]checkpoint.Record, error) {
	at := int(after + 1 - j.first)
	if at >= len(j.events) {
		return nil, nil
	}
	return []checkpoint.Record{{Seq: after + 1, Event: j.events[at]}}, nil
}

func TestVerifyReportsRecordsThatWereNotJournalled(t *testing.T) {
	begin := func(t *testing.T) (w *recordWorld, j *journalled, since time.Time) {
		w = newRecordWorld(t)
		j = &journalled{first: 1}
		w.state = newMemory(func(c checkpoint.Commit) {
			j.events = append(j.events, c.Events...)
			w.journal(c)
		})
		w.restart()
		w.mustPoll()
		since = time.UnixMilli(w.clock)
		for i := range 100 {
			w.store(w.clock*1000 + int64(i)*500_123)
		}
		w.pass(10 * time.Minute)
		w.drain()
		return w, j, since
	}
	verify := func(t *testing.T, w *recordWorld, j *journalled, since time.Time) (v poller.Verification, found []string) {
		t.Helper()
		var compared int
		var until time.Time
		v, err := poller.VerifyRecords(t.Context(), w.recordModel, w.state, j, w.options, since, poller.VerifyReport{
			Progress: func(_ string, n int, at time.Time) { compared, until = n, at },
			Found:    func(d poller.Difference) { found = append(found, d.Kind) },
		})
		require.NoError(t, err)
		assert.Equal(t, compared, v.Compared, "were compared, until", until, "in the end")
		assert.True(t, until.UnixMilli() >= w.until, "were compared, until", until)
		return v, found
	}
	t.Run("none", func(t *testing.T) {
		w, j, since := begin(t)
		v, found := verify(t, w, j, since)
		assert.True(t, found == nil && v.Compared == 100 && v.Same == 100, v, found)
	})
	t.Run("one that was stored too late to be found", func(t *testing.T) {
		w, j, since := begin(t)
		w.store(since.UnixMilli()*1000 + 7_000_500)
		v, found := verify(t, w, j, since)
		assert.True(t, slices.Equal(found, []string{poller.DiffMissing}) && v.Same == 100, v, found)
	})
	t.Run("one whose window is still to be checked again", func(t *testing.T) {
		w, j, _ := begin(t)
		now := time.UnixMilli(w.clock)
		w.store(w.clock*1000 + 500_000)
		w.pass(20 * time.Second)
		w.mustPoll()
		w.mustPoll()
		w.store(now.UnixMilli()*1000 + 700_000)
		v, found := verify(t, w, j, now)
		assert.True(t, slices.Equal(found, []string{"pending"}) && v.Same == 1, v, found)
	})
	t.Run("one of the first window that is still to be checked again, and one before it", func(t *testing.T) {
		w, j, since := begin(t)
		var p struct {
			Lists []struct{ From, Until, Due int64 }
		}
		require.NoError(t, json.Unmarshal(w.state.position, &p))
		from := w.clock
		for _, l := range p.Lists {
			if l.Due > 0 {
				from = min(from, l.From)
			}
		}
		w.store(from*1000 - 5_000_000)
		w.store(from*1000 + 2_000_000)
		v, found := verify(t, w, j, since)
		assert.True(t, slices.Equal(found, []string{poller.DiffMissing, "pending"}) && v.Same == 100, v, found)
	})
	t.Run("records trimmed from the journal are not compared", func(t *testing.T) {
		w, j, since := begin(t)
		j.first, j.events = 51, j.events[50:]
		v, found := verify(t, w, j, since)
		assert.True(t, found == nil && !v.Since.Before(j.events[0].Time) && v.Compared <= 50, v, found)
	})
}
