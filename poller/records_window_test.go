package poller_test

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// atMinute returns a world whose stream began a minute ago, with n records since
// then, half a second apart.
func atMinute(t tb, n int, change func(*recordWorld)) *recordWorld {
	w := newRecordWorld(t)
	if change != nil {
		change(w)
	}
	w.restart()
	w.mustPoll()
	for i := range n {
		w.store(w.clock*1000 + int64(i)*500_123)
	}
	w.pass(time.Minute)
	w.searches, w.requests = nil, 0
	return w
}

func TestReadingAWindow(t *testing.T) {
	for _, c := range []struct {
		name    string
		records int
		setup   func(*recordWorld)
		check   func(*testing.T, *recordWorld)
	}{
		{"a window whose first answer holds all of it takes one request", 3,
			func(w *recordWorld) { w.options.Window = time.Minute },
			func(t *testing.T, w *recordWorld) {
				assert.Equal(t, w.requests, 1, "requests")
			}},
		{"the newest cursor is followed to its end", 60,
			func(w *recordWorld) { w.renew = true },
			func(t *testing.T, w *recordWorld) {
				assert.True(t, w.cursored != 0, "no cursor was used")
				for _, s := range w.searches {
					assert.True(t, s.Offset == 0, "a page was asked for by offset")
				}
			}},
		{"a first batch smaller than was asked for is not the end", 60, func(w *recordWorld) { w.firstCap = 3 }, nil},
		{"a first batch smaller than was asked for is not the end by offset", 60,
			func(w *recordWorld) { w.firstCap, w.thirdParty = 3, true }, nil},
		{"a cursor that passes rows over is found out by the total", 60, func(w *recordWorld) { w.skip = 1 }, nil},
		{"an appliance without cursors is read by offset, from the answer that showed it", 60,
			func(w *recordWorld) { w.thirdParty, w.options.Window, w.options.PageSize = true, time.Minute, 100 },
			func(t *testing.T, w *recordWorld) {
				assert.True(t, w.requests <= 10, w.requests, "requests")
			}},
		{"a third-party store is not asked for cursors", 60,
			func(w *recordWorld) { w.options.Store = poller.StoreThirdParty },
			func(t *testing.T, w *recordWorld) {
				assert.True(t, w.cursored <= 0 && !slices.ContainsFunc(w.searches, func(s appliance.RecordSearch) bool { return s.ContextTTL > 0 }), "a cursor was asked for")
			}},
		{"a search that is refused with context_ttl is tried without it, and later ones do without", 60,
			func(w *recordWorld) { w.refuseTTL = true },
			func(t *testing.T, w *recordWorld) {
				refused := 0
				for _, s := range w.searches {
					if s.ContextTTL > 0 {
						refused++
					}
				}
				assert.Equal(t, refused, 1, "context_ttl was sent … times")
			}},
		{"a total that counts only so far does not end a window", 60,
			func(w *recordWorld) {
				w.options.Window, w.options.PageSize, w.thirdParty = time.Minute, 10, true
				w.total = func(n int) int { return min(n, 10) }
			}, nil},
		{"without totals a window is read to its end", 60, func(w *recordWorld) { w.noTotals = true }, nil},
		{"without totals a window with too many records is divided", 100,
			func(w *recordWorld) { w.noTotals, w.options.Window, w.options.MaxWindowRecords = true, time.Minute, 10 },
			func(t *testing.T, w *recordWorld) {
				n := len(windowsOf(w))
				assert.True(t, n >= 5, n, "windows")
			}},
		{"a window with more records than it may have is divided", 100,
			func(w *recordWorld) { w.options.Window, w.options.MaxWindowRecords = time.Minute, 10 },
			func(t *testing.T, w *recordWorld) {
				n := len(windowsOf(w))
				assert.True(t, n >= 10 && n <= 60, n, "windows")
			}},
		{"a millisecond with more records than a window may have is read all the same", 0,
			func(w *recordWorld) {
				w.options.MaxWindowRecords = 8
				for range 200 {
					w.store(w.clock*1000 + 7_000_500)
				}
			}, nil},
		{"a limit that is refused is made smaller, and grows again", 60,
			func(w *recordWorld) { w.refuseOver, w.options.PageSize, w.thirdParty = 3, 8, true },
			func(t *testing.T, w *recordWorld) {
				w.refuseOver, w.searches = 0, nil
				for range 60 {
					w.store(w.clock * 1000)
					w.pass(time.Second)
				}
				w.drain()
				assert.True(t, slices.ContainsFunc(w.searches, func(s appliance.RecordSearch) bool { return s.Limit == 8 }), "the limit did not grow again")
			}},
		{"a limit that is refused many times is no failure of a page", 60,
			func(w *recordWorld) {
				w.refuseOver, w.options.PageSize, w.thirdParty = 3, 1000, true
				w.options.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					assert.NotContains(t, a.Value.String(), "keeps failing")
					return a
				}}))
			},
			func(t *testing.T, w *recordWorld) {
				refused := 0
				for _, s := range w.searches {
					if s.Limit > 3 {
						refused++
					}
				}
				if refused > 20 { // 9 to find the limit, and one each time that it grows
					t.Errorf("%d of %d searches were refused", refused, len(w.searches))
				}
			}},
		{"an offset that is refused makes windows shorter", 100,
			func(w *recordWorld) {
				w.maxOffset, w.options.Window, w.thirdParty, w.options.MaxWindowRecords = 20, time.Minute, true, 1000
			}, nil},
		{"an answer that is too large is asked for in parts", 60, func(w *recordWorld) { w.maxRows = 2 }, nil},
		{"ties that come in another order each time are read by windows of one page", 100,
			func(w *recordWorld) {
				w.shuffled, w.thirdParty, w.options.PageSize = true, true, 30
				w.options.Window, w.options.MaxWindowRecords = time.Minute, 1000
				for i := range 80 {
					w.store(w.clock*1000 + 3_000_000 + int64(i%4)*1500)
				}
			}, nil},
		{"a millisecond with more of them than a page is read until the total is there", 0,
			func(w *recordWorld) {
				w.shuffled, w.thirdParty, w.options.PageSize = true, true, 30
				for range 80 {
					w.store(w.clock*1000 + 3_000_000)
				}
			}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := atMinute(t, c.records, c.setup)
			w.mustPoll()
			if c.check != nil {
				c.check(t, w)
			}
			w.drain()
			w.judge(true)
		})
	}
}

// windowsOf returns the windows that were searched.
func windowsOf(w *recordWorld) map[[2]int64]bool {
	windows := make(map[[2]int64]bool)
	for _, s := range w.searches {
		windows[[2]int64{s.From, s.Until}] = true
	}
	return windows
}

func TestCursorsThatFail(t *testing.T) {
	expire := func(w *recordWorld, times int) {
		w.between = func() {
			if times > 0 && len(w.cursors) > 0 {
				clear(w.cursors)
				times--
			}
		}
	}
	t.Run("the window of an expired cursor is read again within the poll", func(t *testing.T) {
		w := atMinute(t, 60, nil)
		expire(w, 1)
		w.mustPoll()
		w.drain()
		w.judge(true)
	})
	t.Run("after two of them the window and those that follow are read by offset, and then cursors are tried again", func(t *testing.T) {
		w := atMinute(t, 60, func(w *recordWorld) { w.options.Window, w.options.PageSize = 2*time.Second, 2 })
		expire(w, 2)
		require.Value(w.poll())(t)
		w.searches = nil
		for range 16 {
			require.Value(w.poll())(t)
		}
		assert.False(t, slices.ContainsFunc(w.searches, func(s appliance.RecordSearch) bool { return s.ContextTTL > 0 }), "a cursor was asked for")
		w.searches = nil
		w.mustPoll()
		assert.True(t, slices.ContainsFunc(w.searches, func(s appliance.RecordSearch) bool { return s.ContextTTL > 0 }), "cursors were not tried again")
		w.drain()
		w.judge(true)
	})
	t.Run("a cursor that advanced although its answer was lost is not used again", func(t *testing.T) {
		w := atMinute(t, 60, nil)
		w.lose = true
		_, err := w.poll()
		require.ErrorIs(t, err, errDown)
		w.mustPoll()
		w.drain()
		w.judge(true)
	})
	t.Run("a rejected key and too many requests are the poll's error", func(t *testing.T) {
		for _, status := range []int{http.StatusUnauthorized, http.StatusTooManyRequests} {
			w := atMinute(t, 60, nil)
			cursored := 0
			w.between = func() { w.failing, cursored = w.cursored > cursored, w.cursored }
			w.err = answered(status)
			_, err := w.poll()
			e, ok := errors.AsType[*appliance.Error](err)
			require.True(t, ok && e.Status == status && cursored == 1, err, cursored, "requests with a cursor")
			w.between, w.failing = func() {}, false
			w.drain()
			w.judge(true)
		}
	})
	t.Run("after a restart its window continues after the committed records", func(t *testing.T) {
		w := atMinute(t, 60, func(w *recordWorld) { w.options.Window = 20 * time.Second })
		w.between = func() { w.failing = w.cursored > 3 }
		_, err := w.poll()
		require.True(t, err != nil, "no")
		require.True(t, len(w.arrived) != 0, "nothing was committed")
		w.between, w.failing = func() {}, false
		w.options.Window = 7 * time.Second
		w.restart()
		w.drain()
		w.judge(true)
	})
}

func TestRecordsThatGoBetweenTwoPagesHideNoOthers(t *testing.T) {
	w := atMinute(t, 60, func(w *recordWorld) {
		w.thirdParty, w.noTotals, w.options.Window, w.options.MaxWindowRecords = true, true, time.Minute, 1000
	})
	purged := 0
	w.between = func() {
		if last := w.searches[len(w.searches)-1]; last.Offset > 10 && purged < 2 {
			w.purge(w.rows[0])
			purged++
		}
	}
	w.mustPoll()
	w.judge(true)
	assert.Equal(t, purged, 2, "purged")
	assert.True(t, len(w.arrived) >= 50, len(w.arrived), "arrived")
}

func TestWindowsThatStayIncomplete(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(*recordWorld)
	}{
		{"with a total that is too high", func(w *recordWorld) { w.total = func(n int) int { return n + 1 } }},
		{"when every search is terminated early", func(w *recordWorld) { w.early, w.firstCap = true, 4 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			w := atMinute(t, 60, func(w *recordWorld) {
				c.setup(w)
				w.options.Metrics = poller.NewMetrics(registry)
			})
			w.mustPoll()
			n := gathered(t, registry, "ndrbridge_source_incomplete_windows_total")
			assert.True(t, n >= 3, n, "windows were reported as incomplete")
			// Once it is known that totals lie, they are not believed for ever.
			most := 6*4*13 + 100
			assert.True(t, w.requests <= most, w.requests, "requests")
			w.drain()
			w.judge(true)
		})
	}
}

func TestAStoreThatAlwaysShowsMoreAndNeverAllIsNotAskedForEver(t *testing.T) {
	w := atMinute(t, 20, func(w *recordWorld) {
		w.options.Store, w.options.Window, w.options.MaxWindowRecords = poller.StoreThirdParty, time.Minute, 1000
		w.total = func(n int) int { return n + 1 }
	})
	until, attempts := int64(0), 0
	w.between = func() {
		s := w.searches[len(w.searches)-1]
		if s.Until > 2 && until == 0 {
			until = s.Until
		}
		if s.Until == until && s.Offset == 0 && attempts < 100 {
			attempts++
			w.store(until*1000 - 2000 - int64(attempts))
		}
	}
	w.mustPoll()
	assert.Equal(t, attempts, 1+30, "readings of the window")
	w.drain()
	w.judge(true)
}

func TestAPollThatIsRefusedOrThrottledDoesNotShortenWindows(t *testing.T) {
	windows := func(status int) int {
		w := atMinute(t, 60, func(w *recordWorld) { w.options.Window, w.options.MaxWindowRecords = 30*time.Second, 1000 })
		if w.err = answered(status); status != 0 {
			w.between = func() { w.failing = w.searches[len(w.searches)-1].Until > 2 }
			for range 10 {
				_, err := w.poll()
				require.True(t, err != nil, "a poll succeeded")
			}
			w.between, w.failing = func() {}, false
		}
		w.searches = nil
		w.mustPoll()
		return len(windowsOf(w))
	}
	want := windows(0)
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests} {
		assert.Equal(t, windows(status), want, "windows were read after answers of", status, "before")
	}
	n := windows(http.StatusInternalServerError)
	assert.True(t, n > want, n, "windows were read after answers of 500, and", want, "before")
}

func TestABacklogOfARecordStoreThatCannotSearchLong(t *testing.T) {
	const reach = 6 * 3600_000 // milliseconds
	for name, limit := range map[string]func(*recordWorld){
		"since it gives up":  func(w *recordWorld) { w.earlyOver = reach },
		"since it times out": func(w *recordWorld) { w.failOver = reach },
	} {
		t.Run(name, func(t *testing.T) {
			w := newRecordWorld(t)
			w.options.Start = func(now time.Time) time.Time { return now.Add(-30 * 24 * time.Hour) }
			w.options.Recheck = 10 * time.Minute
			limit(w)
			for hour := range int64(30 * 24) {
				w.store((w.clock - (hour*3600+1800)*1000) * 1000)
			}
			w.restart()
			failed := 0
			for {
				next, err := w.poll()
				if err != nil {
					failed++
				} else if next == poller.Idle {
					break
				}
			}
			w.judge(true)
			assert.True(t, failed <= 200, failed, "polls failed")
			assert.True(t, w.requests <= 3000, w.requests, "requests")
		})
	}
}

func TestAWindowIsNotReadBeforeItIsClosed(t *testing.T) {
	for _, c := range []struct {
		name  string
		ahead time.Duration // by which the local clock is set forward
		lag   time.Duration // by which the next answers are behind the earlier ones
	}{
		{"when the local clock is set forward", time.Hour, 0},
		{"when another node of the appliance answers", 0, 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := atMinute(t, 60, func(w *recordWorld) { w.options.Recheck = 0 })
			w.mustPoll()
			w.local = w.local.Add(c.ahead)
			w.pass(w.options.Window)
			w.lag = c.lag.Milliseconds()
			latest := w.clock - w.lag - w.options.Delay.Milliseconds()
			w.mustPoll()
			assert.True(t, w.until <= latest, "records are read up to", w.until-latest, "ms after the last closed moment")
			// What is stored within the delay arrives, although no window is checked again.
			w.store((w.clock - w.lag - w.options.Delay.Milliseconds() + 1) * 1000)
			w.lag = 0
			w.drain()
			w.judge(true)
		})
	}
}
