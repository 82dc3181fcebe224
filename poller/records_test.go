package poller_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/poller"
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
				if w.requests != 1 {
					t.Errorf("%d requests", w.requests)
				}
			}},
		{"the newest cursor is followed to its end", 60,
			func(w *recordWorld) { w.renew = true },
			func(t *testing.T, w *recordWorld) {
				if w.cursored == 0 {
					t.Error("no cursor was used")
				}
				for _, s := range w.searches {
					if s.Offset > 0 {
						t.Error("a page was asked for by offset")
					}
				}
			}},
		{"a first batch smaller than was asked for is not the end", 60, func(w *recordWorld) { w.firstCap = 3 }, nil},
		{"a first batch smaller than was asked for is not the end by offset", 60,
			func(w *recordWorld) { w.firstCap, w.thirdParty = 3, true }, nil},
		{"a cursor that passes rows over is found out by the total", 60, func(w *recordWorld) { w.skip = 1 }, nil},
		{"an appliance without cursors is read by offset, from the answer that showed it", 60,
			func(w *recordWorld) { w.thirdParty, w.options.Window, w.options.PageSize = true, time.Minute, 100 },
			func(t *testing.T, w *recordWorld) {
				if w.requests > 10 {
					t.Errorf("%d requests", w.requests)
				}
			}},
		{"a third-party store is not asked for cursors", 60,
			func(w *recordWorld) { w.options.Store = poller.StoreThirdParty },
			func(t *testing.T, w *recordWorld) {
				if w.cursored > 0 || slices.ContainsFunc(w.searches, func(s appliance.RecordSearch) bool { return s.ContextTTL > 0 }) {
					t.Error("a cursor was asked for")
				}
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
				if refused != 1 {
					t.Errorf("context_ttl was sent %d times", refused)
				}
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
				if n := len(windowsOf(w)); n < 5 {
					t.Errorf("%d windows", n)
				}
			}},
		{"a window with more records than it may have is divided", 100,
			func(w *recordWorld) { w.options.Window, w.options.MaxWindowRecords = time.Minute, 10 },
			func(t *testing.T, w *recordWorld) {
				if n := len(windowsOf(w)); n < 10 || n > 60 {
					t.Errorf("%d windows", n)
				}
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
				w.settle()
				if !slices.ContainsFunc(w.searches, func(s appliance.RecordSearch) bool { return s.Limit == 8 }) {
					t.Error("the limit did not grow again")
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
			w.settle()
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
	t.Run("a cursor that expired takes the window again within the poll", func(t *testing.T) {
		w := atMinute(t, 60, nil)
		expire(w, 1)
		w.mustPoll()
		w.settle()
		w.judge(true)
	})
	t.Run("after two of them the window and those that follow are read by offset, and then cursors are tried again", func(t *testing.T) {
		w := atMinute(t, 60, func(w *recordWorld) { w.options.Window, w.options.PageSize = 2*time.Second, 2 })
		expire(w, 2)
		if _, err := w.poll(); err != nil {
			t.Fatal(err)
		}
		w.searches = nil
		for range 16 {
			if _, err := w.poll(); err != nil {
				t.Fatal(err)
			}
		}
		if slices.ContainsFunc(w.searches, func(s appliance.RecordSearch) bool { return s.ContextTTL > 0 }) {
			t.Error("a cursor was asked for")
		}
		w.searches = nil
		w.mustPoll()
		if !slices.ContainsFunc(w.searches, func(s appliance.RecordSearch) bool { return s.ContextTTL > 0 }) {
			t.Error("cursors were not tried again")
		}
		w.settle()
		w.judge(true)
	})
	t.Run("one that moved although its answer was lost is not asked again", func(t *testing.T) {
		w := atMinute(t, 60, nil)
		w.lose = true
		if _, err := w.poll(); !errors.Is(err, errDown) {
			t.Fatalf("error %v", err)
		}
		w.mustPoll()
		w.settle()
		w.judge(true)
	})
	t.Run("a refused key is the poll's error", func(t *testing.T) {
		w := atMinute(t, 60, nil)
		w.between = func() { w.failing = len(w.cursors) > 0 }
		w.err = &appliance.Error{Status: http.StatusUnauthorized}
		_, err := w.poll()
		if e, ok := errors.AsType[*appliance.Error](err); !ok || !e.Refused() {
			t.Fatalf("error %v", err)
		}
		w.between, w.failing = func() {}, false
		w.settle()
		w.judge(true)
	})
	t.Run("its window goes on behind what was committed after a restart", func(t *testing.T) {
		w := atMinute(t, 60, func(w *recordWorld) { w.options.Window = 20 * time.Second })
		w.between = func() { w.failing = w.cursored > 3 }
		if _, err := w.poll(); err == nil {
			t.Fatal("no error")
		}
		if len(w.arrived) == 0 {
			t.Fatal("nothing was committed")
		}
		w.between, w.failing = func() {}, false
		w.options.Window = 7 * time.Second
		w.restart()
		w.settle()
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
	if purged != 2 || len(w.arrived) < 50 {
		t.Errorf("%d purged, %d arrived", purged, len(w.arrived))
	}
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
			if n := gathered(t, registry, "ndrbridge_source_incomplete_windows_total"); n < 3 {
				t.Errorf("%v windows were told to be incomplete", n)
			}
			// Once it is known that totals lie, they are not believed for ever.
			if most := 6*4*13 + 100; w.requests > most {
				t.Errorf("%d requests", w.requests)
			}
			w.settle()
			w.judge(true)
		})
	}
}

func gathered(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

func TestMetricsOfRecordsFollowTheNamingRules(t *testing.T) {
	registry := prometheus.NewRegistry()
	w := atMinute(t, 60, func(w *recordWorld) {
		w.options.Metrics = poller.NewMetrics(registry)
		w.warnings = []string{"2 nodes did not answer"}
	})
	w.mustPoll()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if gathered(t, registry, "ndrbridge_source_warnings_total") == 0 {
		t.Error("no warning was counted")
	}
}

func TestAWarningIsToldOnce(t *testing.T) {
	var said bytes.Buffer
	w := atMinute(t, 60, func(w *recordWorld) {
		w.options.Log = slog.New(slog.NewTextHandler(&said, nil))
		w.warnings = []string{"2 nodes did not answer"}
	})
	w.mustPoll()
	if n := strings.Count(said.String(), "2 nodes did not answer"); n != 1 {
		t.Errorf("told %d times", n)
	}
}

func TestLookingAtAWindowAgain(t *testing.T) {
	t.Run("a record that was stored late arrives when its window is looked at again", func(t *testing.T) {
		w := atMinute(t, 20, nil)
		w.mustPoll()
		late := w.store((w.clock - 20_000) * 1000)
		w.mustPoll()
		if w.arrived["i-1-"+late.id] > 0 {
			t.Fatal("it arrived before its window was looked at again")
		}
		w.settle()
		w.judge(true)
	})
	t.Run("an idle stream takes a request a poll and one a window, and writes next to nothing", func(t *testing.T) {
		w := atMinute(t, 0, nil)
		w.settle()
		requests, commits := w.requests, w.state.commits
		for range 100 {
			w.pass(5 * time.Second)
			w.mustPoll()
		}
		if n := w.requests - requests; n > 200 {
			t.Errorf("%d requests", n)
		}
		if n := w.state.commits - commits; n > 10 {
			t.Errorf("%d commits", n)
		}
	})
	t.Run("one that fails does not fail the poll, and is given up in the end", func(t *testing.T) {
		registry := prometheus.NewRegistry()
		w := atMinute(t, 20, func(w *recordWorld) { w.options.Metrics = poller.NewMetrics(registry) })
		w.mustPoll()
		w.err = &appliance.Error{Status: http.StatusInternalServerError}
		w.between = func() {
			s := w.searches[len(w.searches)-1]
			w.failing = s.Limit == 1 && s.Until > 2 // not the one that asks for the time
		}
		for range 60 {
			w.pass(5 * time.Second)
			w.mustPoll()
		}
		if gathered(t, registry, "ndrbridge_source_incomplete_windows_total") == 0 {
			t.Error("none was given up")
		}
		w.between, w.failing = func() {}, false
		w.settle()
		w.judge(true)
	})
	t.Run("what is remembered is forgotten when no window can show it any more", func(t *testing.T) {
		w := atMinute(t, 60, nil)
		w.settle()
		w.pass(10 * time.Minute)
		w.store(w.clock * 1000)
		w.settle()
		w.store(w.clock * 1000)
		w.settle()
		if len(w.state.known) > 3 {
			t.Errorf("%d entries are remembered", len(w.state.known))
		}
	})
}

func TestTheClockOfTheAppliance(t *testing.T) {
	t.Run("a local clock years away makes no difference", func(t *testing.T) {
		for _, years := range []int{-10, 10} {
			w := atMinute(t, 60, nil)
			w.local = w.local.AddDate(years, 0, 0)
			w.mustPoll()
			w.local = w.local.AddDate(-2*years, 0, 0)
			w.settle()
			w.judge(true)
		}
	})
	t.Run("when it goes back, what is stored from then on arrives, and little comes twice", func(t *testing.T) {
		w := atMinute(t, 100, nil)
		w.mustPoll()
		w.clock -= 20_000
		w.mustPoll()
		w.store(w.clock * 1000)
		w.store((w.clock - 30_000) * 1000)
		w.settle()
		w.judge(true)
		w.clock -= 3600_000
		w.mustPoll()
		w.store(w.clock * 1000)
		w.pass(time.Hour)
		w.settle()
		w.judge(false)
	})
}

func TestARecordThatIsTooLargeIsADeadLetterOnce(t *testing.T) {
	for _, store := range []poller.RecordStore{poller.StoreOwn, poller.StoreThirdParty} {
		for place := range 12 {
			t.Run(fmt.Sprintf("%s, record %d", store, place), func(t *testing.T) {
				w := atMinute(t, 12, func(w *recordWorld) { w.options.Store = store })
				w.rows[place].huge = true
				dead := 0
				w.state.journal = func(c checkpoint.Commit) { dead += len(c.Dead); w.journal(c) }
				w.mustPoll()
				w.restart()
				w.noTotals = true // looks again at every window
				w.settle()
				w.judge(true)
				if _, there := w.state.dead[w.rows[place].id]; !there || dead != 1 {
					t.Errorf("%d dead letters: %v", dead, w.state.dead)
				}
			})
		}
	}
}

func TestWhereAStreamOfRecordsBegins(t *testing.T) {
	ages := []int{1, 200, 40_000_000} // seconds; the last is more than a year
	for _, c := range []struct {
		name  string
		start func(now time.Time) time.Time
		first int // of the ages, how many arrive
	}{
		{"now", func(now time.Time) time.Time { return now }, 0},
		{"a time to come", func(now time.Time) time.Time { return now.Add(time.Hour) }, 0},
		{"100 seconds ago", func(now time.Time) time.Time { return now.Add(-100 * time.Second) }, 1},
		{"the beginning", func(time.Time) time.Time { return time.Time{} }, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newRecordWorld(t)
			w.options.Start = c.start
			for i, age := range ages {
				w.store((w.clock - int64(age)*1000) * 1000).demanded = i < c.first
			}
			w.restart()
			w.between = func() { w.failing = w.until > 0 }
			_, _ = w.poll() // the first contact, and no more
			w.between, w.failing = func() {}, false
			w.pass(time.Hour)
			w.restart() // what start means is not asked again
			w.store(w.clock * 1000)
			w.settle()
			w.judge(true)
			if n := len(w.arrived); n != c.first+1 {
				t.Errorf("%d records arrived", n)
			}
			if w.requests > 2000 {
				t.Errorf("it took %d requests", w.requests)
			}
		})
	}
	t.Run("the beginning of a store that does not sort, or whose first record is too large", func(t *testing.T) {
		for _, huge := range []bool{true, false} {
			w := newRecordWorld(t)
			w.clock = 100 * 24 * 3600_000 // the spring of 1970: it is far from the epoch to now
			for i := range 10 {
				w.store((w.clock - 20*24*3600_000 + int64(i)*3600_000) * 1000)
			}
			w.options.Start = func(time.Time) time.Time { return time.Time{} }
			w.rows[0].huge = huge
			w.restart()
			hidden := w.rows[:9]
			w.between = func() {
				if w.requests == 2 && !huge { // the first record is asked for
					w.rows = w.rows[9:]
				} else if len(w.rows) == 1 {
					w.rows = append(slices.Clone(hidden), w.rows...)
				}
			}
			w.settle()
			w.judge(true)
			if len(w.state.dead) != len(w.rows)-len(w.arrived) {
				t.Errorf("dead letters %v", w.state.dead)
			}
		}
	})
	t.Run("the beginning of a store that has nothing yet", func(t *testing.T) {
		w := newRecordWorld(t)
		w.options.Start = func(time.Time) time.Time { return time.Time{} }
		w.restart()
		w.mustPoll()
		w.store((w.clock - 50_000) * 1000)
		w.settle()
		w.judge(true)
	})
}

func TestAStreamOfRecordsIsRewound(t *testing.T) {
	w := atMinute(t, 100, nil)
	w.settle()
	w.judge(true)
	half := w.rows[50]
	source := w.source.Source()
	if err := poller.Rewind(t.Context(), w.state, source, time.UnixMilli(half.at/1000)); err != nil {
		t.Fatal(err)
	}
	w.settle()
	for _, r := range w.rows {
		n := w.arrived["i-1-"+r.id]
		if r.at < half.at-10_000_000 && n != 1 || r.at >= half.at && n != 2 {
			t.Errorf("record %s of %s arrived %d times", r.id, stamp(r.at), n)
		}
	}
	before := len(w.arrived)
	if err := poller.Rewind(t.Context(), w.state, source, time.UnixMilli(w.clock+3600_000)); err != nil {
		t.Fatal(err)
	}
	w.store(w.clock * 1000)
	w.settle()
	if len(w.arrived) != before+1 {
		t.Errorf("a time to come moved the position")
	}
}

func TestAWindowThatAwaitsALookIsLookedAtAfterARewindToItsMiddle(t *testing.T) {
	w := atMinute(t, 100, nil)
	w.mustPoll()
	middle := w.clock - 8_000
	late := w.store((middle - 500) * 1000)
	if err := poller.Rewind(t.Context(), w.state, w.source.Source(), time.UnixMilli(middle)); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.judge(false)
	if w.arrived["i-1-"+late.id] == 0 {
		t.Error("the late record did not arrive")
	}
}

func TestAChangedQueryIsToldAndGoesOn(t *testing.T) {
	var said bytes.Buffer
	w := atMinute(t, 60, nil)
	w.mustPoll()
	w.options.Log = slog.New(slog.NewTextHandler(&said, nil))
	w.options.URL, w.options.Filter = "https://other.example", json.RawMessage(`{"field":"a"}`)
	w.restart()
	w.settle()
	w.judge(true)
	for _, text := range []string{"address changed", "query changed"} {
		if !strings.Contains(said.String(), text) {
			t.Errorf("%q is not told in:\n%s", text, said.String())
		}
	}
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
			if failed > 200 || w.requests > 3000 {
				t.Errorf("%d polls failed, in %d requests", failed, w.requests)
			}
		})
	}
}

func TestSecondLooksKeepUpWithManyWindows(t *testing.T) {
	w := newRecordWorld(t)
	w.options.MaxWindowRecords, w.options.Recheck = 8, time.Minute
	w.restart()
	w.mustPoll()
	most := 0
	for range 400 {
		for i := range int64(20) {
			w.store((w.clock + i*50) * 1000)
		}
		w.pass(time.Second)
		w.mustPoll()
		var p struct{ Lists []any }
		if err := json.Unmarshal(w.state.position, &p); err != nil {
			t.Fatal(err)
		}
		most = max(most, len(p.Lists))
	}
	// A window of half a second each, for a minute.
	if most > 300 {
		t.Errorf("%d lists are kept", most)
	}
	w.settle()
	w.judge(true)
}

func TestAnswersOfNodesWhoseClocksDiffer(t *testing.T) {
	w := newRecordWorld(t)
	w.options.Delay = 10 * time.Second
	w.restart()
	w.mustPoll()
	w.between = func() {
		if w.lag = 0; w.requests%3 == 0 {
			w.lag = 3000
		}
	}
	w.requests = 0
	for range 300 {
		w.store(w.clock * 1000)
		w.pass(time.Second)
		w.mustPoll()
	}
	if w.requests > 300*6 {
		t.Errorf("%d requests in 300 polls", w.requests)
	}
	w.settle()
	w.judge(true)
}

func TestAFencedCommitGoesOnFromWhatSomebodyElseCommitted(t *testing.T) {
	w := atMinute(t, 60, nil)
	other := poller.NewRecords(w.recordModel, w.state, w.options)
	w.between = func() {
		w.between = func() {}
		if _, err := other.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if next, err := w.poll(); next != poller.Soon || err != nil {
		t.Fatalf("next %v, error %v", next, err)
	}
	w.settle()
	w.judge(true)
}

func TestProgressOfABacklog(t *testing.T) {
	var said bytes.Buffer
	w := newRecordWorld(t)
	w.options.Start = func(now time.Time) time.Time { return now.Add(-time.Hour) }
	w.options.Log = slog.New(slog.NewTextHandler(&said, nil))
	w.options.MaxWindowRecords = 20
	for i := range 3600 {
		w.store((w.clock - 3600_000 + int64(i)*1000) * 1000)
	}
	w.restart()
	if _, ok := w.source.Progress(); ok {
		t.Error("there is progress before the first window")
	}
	w.between = func() { w.pass(time.Second) }
	var half poller.Progress
	for {
		next, err := w.poll()
		if err != nil {
			t.Fatal(err)
		}
		p, ok := w.source.Progress()
		if !ok || p.At.UnixMilli() > w.clock {
			t.Fatalf("progress %+v, %t", p, ok)
		}
		if half.At.IsZero() && p.Behind < 30*time.Minute {
			half = p
		}
		if next == poller.Idle {
			break
		}
	}
	if half.RecordsPerSecond <= 0 || half.SpeedUp <= 1 || half.Left <= 0 {
		t.Errorf("halfway it is %+v", half)
	}
	if p, _ := w.source.Progress(); p.Behind != 0 || p.Left != 0 {
		t.Errorf("in the end it is %+v", p)
	}
	if !strings.Contains(said.String(), "reading a backlog") {
		t.Errorf("the backlog was not told:\n%s", said.String())
	}
}

// TestRecordsOfTheRealClient reads through the client and its JSON.
func TestRecordsOfTheRealClient(t *testing.T) {
	m := newRecordModel()
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var page appliance.RecordPage
		var err error
		if r.URL.Path == "/api/v1/records/cursor" {
			var body struct{ Cursor string }
			_ = json.NewDecoder(r.Body).Decode(&body)
			err = m.NextRecords(r.Context(), body.Cursor, time.Minute, &page)
		} else {
			var body struct {
				From, Until   int64
				Limit, Offset int
				TTL           int64 `json:"context_ttl"`
			}
			_ = json.NewDecoder(r.Body).Decode(&body)
			err = m.SearchRecords(r.Context(), appliance.RecordSearch{
				From: body.From, Until: body.Until, Limit: body.Limit, Offset: body.Offset,
				ContextTTL: time.Duration(body.TTL) * time.Millisecond,
			}, &page)
		}
		if e, ok := errors.AsType[*appliance.Error](err); ok {
			http.Error(rw, e.Excerpt, e.Status)
			return
		}
		rw.Header().Set("Date", page.Date.UTC().Format(http.TimeFormat))
		answer := map[string]any{"total": page.Total, "cursor": page.Cursor, "records": []json.RawMessage{}}
		for _, o := range page.Objects {
			answer["records"] = append(answer["records"].([]json.RawMessage), o.Raw)
		}
		_ = json.NewEncoder(rw).Encode(answer)
	}))
	defer server.Close()
	client, err := appliance.New(appliance.Options{URL: server.URL, Key: func() (string, error) { return "k", nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	w := newRecordWorld(t)
	w.recordModel = m
	w.source = poller.NewRecords(client, w.state, w.options)
	w.mustPoll()
	for i := range 60 {
		w.store(w.clock*1000 + int64(i)*500_123)
	}
	w.pass(time.Minute)
	m.between = func() {
		if m.cursored == 3 {
			clear(m.cursors)
		}
	}
	w.settle()
	w.judge(true)
	if m.cursored == 0 {
		t.Error("no cursor was used")
	}
}

func BenchmarkABacklogOfRecords(b *testing.B) {
	w := newRecordWorld(b)
	w.options.Start = func(now time.Time) time.Time { return now.Add(-2 * time.Hour) }
	w.options.PageSize, w.options.MaxWindowRecords, w.options.Window = 1000, 20_000, time.Minute
	const records = 100_000
	for i := range records {
		w.store((w.clock-7200_000)*1000 + int64(i)*36_000)
	}
	w.snapshot = true
	b.ReportAllocs()
	for b.Loop() {
		var events int
		var heap uint64
		w.state = newMemory(func(c checkpoint.Commit) {
			events += len(c.Events)
			if events%20_000 == 0 && len(c.Events) > 0 {
				runtime.GC()
				var s runtime.MemStats
				runtime.ReadMemStats(&s)
				heap = max(heap, s.HeapInuse)
			}
		})
		w.restart()
		w.mustPoll()
		if events != records {
			b.Fatalf("%d events", events)
		}
		b.ReportMetric(float64(heap)/(1<<20), "MiB-heap")
	}
	b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
