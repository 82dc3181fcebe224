package poller_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/lease"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/leasetest"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// timed is a source whose polls are functions of how many there were before.
type timed struct {
	stream string
	polls  int
	poll   func(n int) (poller.Next, error)
}

func (s *timed) Source() checkpoint.Source {
	return checkpoint.Source{Appliance: "hq", Stream: cmp.Or(s.stream, "detections")}
}

func (s *timed) Poll(context.Context) (poller.Next, error) {
	s.polls++
	return s.poll(s.polls - 1)
}

func (s *timed) Progress() (poller.Progress, bool) { return poller.Progress{}, false }

// newPoller returns a Poller of a source, and its log.
func newPoller(source poller.Source) (*poller.Poller, *bytes.Buffer) {
	return newLeasedPoller(source, nil)
}

func newLeasedPoller(source poller.Source, l *lease.Lease) (*poller.Poller, *bytes.Buffer) {
	said := new(bytes.Buffer)
	log := slog.New(slog.NewTextHandler(said, nil))
	return poller.New(source, poller.Options{
		Interval: time.Minute, RetryInitial: time.Second, RetryMax: 10 * time.Second, AuthRetry: 30 * time.Second, Lease: l,
		Watch: poller.NewWatch(newMemory(func(checkpoint.Commit) {}), poller.WatchOptions{Appliance: "hq", After: 3, Log: log}),
		Log:   log, Metrics: poller.NewMetrics(prometheus.NewRegistry()),
	}), said
}

func TestWhenAStreamIsPolledAgain(t *testing.T) {
	throttled := &appliance.Error{Status: http.StatusTooManyRequests, RetryAfter: 2 * time.Minute}
	for name, c := range map[string]struct {
		next        poller.Next
		err         error
		least, most time.Duration
	}{
		"after the interval":                         {poller.Idle, nil, 54 * time.Second, 66 * time.Second},
		"before long while a slow task is under way": {poller.Soon, nil, 4500 * time.Millisecond, 5500 * time.Millisecond},
		"at once while there is more to read":        {poller.Now, nil, 0, 0},
		"not soon if the key is refused":             {poller.Idle, answered(http.StatusUnauthorized), 30 * time.Second, 30 * time.Second},
		"when the appliance asks for it":             {poller.Now, throttled, 2 * time.Minute, 2 * time.Minute},
		"after a failure":                            {poller.Now, answered(http.StatusInternalServerError), 500 * time.Millisecond, 1500 * time.Millisecond},
		"after a failure of our own":                 {poller.Now, errors.New("disk full"), 500 * time.Millisecond, 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				begin := time.Now()
				var waited time.Duration
				p, _ := newPoller(&timed{poll: func(n int) (poller.Next, error) {
					if n == 1 {
						waited = time.Since(begin)
						stop()
					}
					return c.next, c.err
				}})
				p.Run(ctx)
				assert.True(t, waited >= c.least, c.least, "to", c.most, waited, "it waits")
				assert.True(t, waited <= c.most, c.least, "to", c.most)
			})
		})
	}
	t.Run("after longer and longer waits while it fails, and soon after the first failure again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			last := time.Now()
			var waits []time.Duration
			p, _ := newPoller(&timed{poll: func(n int) (poller.Next, error) {
				waits = append(waits, time.Since(last))
				last = time.Now()
				switch n {
				case 30:
					return poller.Now, nil
				case 32:
					stop()
				}
				return poller.Now, errDown
			}})
			p.Run(ctx)
			for i, wait := range waits[1:31] {
				assert.True(t, wait <= 15*time.Second && (i <= 10 || wait >= 5*time.Second), i+1, "failures it waits", wait)
			}
			assert.True(t, waits[32] <= 1500*time.Millisecond, "after one failure it waits", waits[32])
		})
	})
}

func TestPollsWaitForWhatComesFirst(t *testing.T) {
	for name, until := range map[string]time.Duration{
		"until it is over": 10 * time.Second,
		"until the stop":   time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				begin := time.Now()
				source := &timed{poll: func(int) (poller.Next, error) {
					assert.True(t, time.Since(begin) >= until, "it is polled after", time.Since(begin))
					stop()
					return poller.Now, nil
				}}
				poller.New(source, poller.Options{
					Yield: func() bool { return time.Since(begin) < until },
					Log:   slog.New(slog.DiscardHandler), Metrics: poller.NewMetrics(prometheus.NewRegistry()),
				}).Run(ctx)
				assert.Equal(t, source.polls == 1, until < time.Minute, "it is polled")
				assert.True(t, time.Since(begin) <= min(until+5*time.Second, time.Minute), "it ends after", time.Since(begin))
			})
		})
	}
}

// progressing is a source that was read so far.
type progressing struct {
	timed
	progress poller.Progress
	ok       bool
}

func (p *progressing) Progress() (poller.Progress, bool) { return p.progress, p.ok }

func TestWhenASourceIsCatchingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for _, c := range []struct {
			name   string
			source progressing
			want   bool
		}{
			{"while it reads a backlog", progressing{progress: poller.Progress{Behind: time.Hour, Known: now}, ok: true}, true},
			{"not before anything is known", progressing{}, false},
			{"not once everything is read", progressing{progress: poller.Progress{Known: now}, ok: true}, false},
			{"not if it keeps up with many changes", progressing{progress: poller.Progress{Behind: 10 * time.Second, Known: now}, ok: true}, false},
			{"not if it could not read on for long", progressing{progress: poller.Progress{Behind: time.Hour, Known: now.Add(-time.Hour)}, ok: true}, false},
		} {
			assert.Equal(t, poller.CatchingUp(&c.source), c.want, c.name)
		}
	})
}

func TestPollNowEndsTheWaitForTheNextPoll(t *testing.T) {
	throttled := &appliance.Error{Status: http.StatusTooManyRequests, RetryAfter: 40 * time.Second}
	const asked = 10 * time.Second // after the first poll began
	for _, c := range []struct {
		name  string
		err   error         // of the first poll
		lasts time.Duration // how long the first poll lasts
		calls int
		want  []time.Duration // when it is polled within 45 s
	}{
		{"for the interval", nil, 0, 1, []time.Duration{0, asked}},
		{"after a refused key", answered(http.StatusUnauthorized), 0, 1, []time.Duration{0, asked}},
		{"but not the wait that the appliance asked for", throttled, 0, 1, []time.Duration{0, throttled.RetryAfter, throttled.RetryAfter}},
		{"with one poll for several calls during a poll", nil, asked + time.Second, 3, []time.Duration{0, asked + time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				begin := time.Now()
				var polled []time.Duration
				p, _ := newPoller(&timed{poll: func(n int) (poller.Next, error) {
					if polled = append(polled, time.Since(begin)); n > 0 {
						return poller.Idle, nil
					}
					time.Sleep(c.lasts)
					return poller.Idle, c.err
				}})
				time.AfterFunc(asked, func() {
					for range c.calls {
						p.PollNow()
					}
				})
				time.AfterFunc(45*time.Second, stop) // before the interval has passed again
				p.Run(ctx)
				assert.EqualSlices(t, polled, c.want, "polled")
			})
		})
	}
}

func TestAnOptionalSourceThatTheApplianceRefusesIsOffForAnHour(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				said, registry := new(bytes.Buffer), prometheus.NewRegistry()
				ctx, stop := context.WithCancel(t.Context())
				refused := fmt.Errorf("read the rules: %w", answered(status))
				ends := []error{nil, refused, refused, refused, nil, errDown, nil}
				waits := []time.Duration{time.Minute, time.Hour, time.Hour, time.Hour, time.Minute, time.Second, time.Minute}
				begin := time.Now()
				var p *poller.Poller
				p = poller.New(&timed{stream: "rules", poll: func(n int) (poller.Next, error) {
					if n > 0 { // jitter adds or takes half of the first retry, and a twentieth of the interval
						waited, want := time.Since(begin), waits[n-1]
						assert.True(t, waited >= want/2 && waited <= want*3/2 && (want < time.Hour || waited == want), "after poll", n, "it waits", waited, "of", want)
						begin = time.Now()
						s, off := p.Status(), errors.Is(ends[n-1], refused)
						assert.Equal(t, s.Off, off, "after poll", n, "it is off")
						assert.Equal(t, sourceOff(t, registry), off, "after poll", n, "the metric shows that it is off")
						assert.True(t, !off || s.Error == refused.Error() && s.NextAttempt.Equal(begin) && !s.LastSuccess.IsZero(), "after poll", n, s)
					}
					if n == len(ends) {
						stop()
						return poller.Idle, nil
					}
					return poller.Idle, ends[n]
				}}, poller.Options{
					Interval: time.Minute, RetryInitial: time.Second, RetryMax: 10 * time.Second, AuthRetry: 30 * time.Second,
					Optional: true, Log: slog.New(slog.NewTextHandler(said, nil)), Metrics: poller.NewMetrics(registry),
				})
				p.Run(ctx)
				for part, count := range map[string]int{"level=WARN": 2, "which is off until it is asked again": 1, "polls succeed again": 2} {
					assert.Equal(t, strings.Count(said.String(), part), count, part, "in", said)
				}
			})
		})
	}
	t.Run("but not if the key is refused, or the source is not optional", func(t *testing.T) {
		for _, c := range []struct {
			optional bool
			status   int
			wait     time.Duration
		}{{true, http.StatusUnauthorized, 30 * time.Second}, {false, http.StatusForbidden, 30 * time.Second}} {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				begin := time.Now()
				var p *poller.Poller
				p = poller.New(&timed{poll: func(n int) (poller.Next, error) {
					if n == 1 {
						assert.True(t, time.Since(begin) == c.wait && !p.Status().Off, c, time.Since(begin), p.Status())
						stop()
					}
					return poller.Idle, answered(c.status)
				}}, poller.Options{
					Interval: time.Minute, RetryInitial: time.Second, RetryMax: 10 * time.Second, AuthRetry: 30 * time.Second,
					Optional: c.optional, Log: slog.New(slog.DiscardHandler), Metrics: poller.NewMetrics(prometheus.NewRegistry()),
				})
				p.Run(ctx)
			})
		}
	})
}

// sourceOff returns what ndrbridge_source_off shows of the only stream.
func sourceOff(t *testing.T, registry *prometheus.Registry) bool {
	t.Helper()
	for _, f := range require.Value(registry.Gather())(t) {
		if f.GetName() == "ndrbridge_source_off" {
			return f.GetMetric()[0].GetGauge().GetValue() == 1
		}
	}
	t.Fatal("there is no metric")
	return false
}

func TestPollsWithoutALeaseAreNoFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		l, clock := leasetest.NewLease(time.Minute)
		p, said := newLeasedPoller(&timed{poll: func(n int) (poller.Next, error) {
			switch {
			case n < 5: // its lease ends while it waits for an answer
				clock.Advance(time.Hour)
				time.AfterFunc(500*time.Millisecond, func() { l.Renew(clock.Now()) })
				return poller.Now, errDown
			case n == 5:
				return poller.Now, nil
			}
			stop()
			return poller.Now, nil
		}}, l)
		p.Run(ctx)
		s := p.Status()
		assert.True(t, s.Failures <= 0 && !s.LastSuccess.IsZero() && said.Len() <= 0, "status", s, "it logs", said)
		clock.Advance(time.Hour)
		s = p.Status()
		assert.Equal(t, s.Error, lease.ErrExpired.Error(), "without a lease the status", s)
	})
}

func TestTheStatusOfAStreamIsThatOfItsLastPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := answered(http.StatusUnauthorized)
		ends := []error{nil, errDown, errDown, errDown, errDown, refused, refused, errDown, nil, nil,
			errors.New("a"), errors.New("b"), errors.New("c"), errors.New("d"), nil}
		// An outage is logged when it begins, with up to three texts, and when it becomes
		// another one.
		warned := []int{0, 1, 1, 1, 1, 2, 2, 3, 3, 3, 4, 5, 6, 6, 6}
		ctx, stop := context.WithCancel(t.Context())
		var p *poller.Poller
		var said *bytes.Buffer
		failures := 0
		var succeeded time.Time
		p, said = newPoller(&timed{poll: func(n int) (poller.Next, error) {
			if n > 0 {
				text := ""
				if err := ends[n-1]; err != nil {
					failures++
					text = err.Error()
				} else {
					failures = 0
				}
				s := p.Status()
				assert.True(t, s.Error == text && s.Failures == failures && (failures <= 0 || s.LastSuccess.Equal(succeeded)) && !s.LastSuccess.Before(succeeded), n, s, failures, text)
				succeeded = s.LastSuccess
				assert.Equal(t, strings.Count(said.String(), "level=WARN"), warned[n-1], "after poll", n, "there are", "warnings", said)
			}
			if n == len(ends) {
				stop()
				return poller.Idle, nil
			}
			return poller.Idle, ends[n]
		}})
		p.Run(ctx)
		assert.Equal(t, strings.Count(said.String(), "polls succeed again"), 2, "logs of the end of the outage")
	})
}

// The clients of the next test keep the first page that they fill.

type keptDetections struct {
	poller.DetectionsClient
	page *appliance.Page
}

func (k *keptDetections) SearchDetections(ctx context.Context, s appliance.Search, page *appliance.Page) error {
	if s.Limit > 1 {
		k.page = page
	}
	return k.DetectionsClient.SearchDetections(ctx, s, page)
}

type keptEntries struct {
	poller.AuditClient
	page *appliance.Page
}

func (k *keptEntries) AuditLog(ctx context.Context, limit, offset int, page *appliance.Page) error {
	if k.page == nil {
		k.page = page
	}
	return k.AuditClient.AuditLog(ctx, limit, offset, page)
}

type keptRecords struct {
	poller.RecordsClient
	page *appliance.RecordPage
}

func (k *keptRecords) SearchRecords(ctx context.Context, s appliance.RecordSearch, page *appliance.RecordPage) error {
	k.page = page
	return k.RecordsClient.SearchRecords(ctx, s, page)
}

// TestNoPageIsKeptBetweenPolls checks that a stream that waits holds none of the memory
// that all streams share.
func TestNoPageIsKeptBetweenPolls(t *testing.T) {
	t.Run("detections", func(t *testing.T) {
		w := newWorld(t)
		kept := &keptDetections{DetectionsClient: w.client}
		w.client = kept
		w.restart()
		w.mustPoll()
		w.clock += 1000
		w.add(w.clock)
		w.mustPoll()
		assert.True(t, len(w.events) == 1 && kept.page != nil && len(kept.page.Objects) == 0, len(w.events), "events, page", kept.page)
	})
	t.Run("the audit log", func(t *testing.T) {
		w := newAuditWorld(t)
		kept := &keptEntries{AuditClient: w.auditModel}
		w.source = poller.NewAudit(kept, w.state, w.options)
		w.mustPoll()
		w.writeMany(2)
		w.mustPoll()
		assert.True(t, len(w.events) == 2 && kept.page != nil && len(kept.page.Objects) == 0, len(w.events), "events, page", kept.page)
	})
	t.Run("records", func(t *testing.T) {
		w := atMinute(t, 3, nil)
		kept := &keptRecords{RecordsClient: w.recordModel}
		w.source = poller.NewRecords(kept, w.state, w.options)
		w.mustPoll()
		assert.True(t, len(w.arrived) == 3 && kept.page != nil && len(kept.page.Objects) == 0, len(w.arrived), "events, page", kept.page)
	})
}

// ownWrites takes the versions with these mod_times for writes of the bridge.
type ownWrites map[int64]bool

func (o ownWrites) IsOwnWrite(seen transform.Detection, _ int64, _ []byte) bool {
	return o[seen.ModTime]
}

func (o ownWrites) Delivered([]transform.Detection) {}

func TestAVersionThatTheBridgeWroteIsCausedByIt(t *testing.T) {
	w := newWorld(t)
	own := make(ownWrites)
	w.options.OwnWrites = own
	w.restart()
	w.mustPoll()
	w.clock += 1000
	r := w.add(w.clock)
	for _, step := range []struct {
		version string
		own     bool
		want    string
	}{
		{"the first that is seen", true, ""},
		{"one that the bridge wrote", true, transform.CausedByWriteback},
		{"one of somebody else", false, ""},
	} {
		w.clock += 60_000
		own[w.clock] = step.own
		w.touch(w.rows[r.id], w.clock)
		w.events = nil
		w.mustPoll()
		assert.True(t, len(w.events) == 1 && w.events[0].CausedBy == step.want, step.version, w.events, "want one event caused by", step.want)
	}
}
