package poller_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestLookingAtAWindowAgain(t *testing.T) {
	t.Run("a record that was stored late arrives when its window is checked again", func(t *testing.T) {
		w := atMinute(t, 20, nil)
		w.mustPoll()
		late := w.store((w.clock - 20_000) * 1000)
		w.mustPoll()
		require.True(t, w.arrived["i-1-"+late.id] == 0, "it arrived before its window was checked again")
		w.drain()
		w.judge(true)
	})
	t.Run("a record that is stored late while its window is read arrives, however long that takes", func(t *testing.T) {
		w := atMinute(t, 60, func(w *recordWorld) { w.snapshot = true })
		stored := false
		w.between = func() {
			if w.cursored > 0 && !stored {
				stored = true
				s := w.searches[len(w.searches)-1]
				w.store(s.Until*1000 - 1500)
				w.pass(w.options.Recheck)
			}
		}
		w.mustPoll()
		require.True(t, stored, "no window was read by a cursor")
		w.drain()
		w.judge(true)
	})
	t.Run("an idle stream takes a request a poll and one a window, and writes next to nothing", func(t *testing.T) {
		w := atMinute(t, 0, nil)
		w.drain()
		requests, commits := w.requests, w.state.commits
		for range 100 {
			w.pass(5 * time.Second)
			w.mustPoll()
		}
		n := w.requests - requests
		assert.True(t, n <= 200, n, "requests")
		n = w.state.commits - commits
		assert.True(t, n <= 10, n, "commits")
	})
	t.Run("a failing recheck does not fail the poll, and is given up eventually", func(t *testing.T) {
		registry := prometheus.NewRegistry()
		w := atMinute(t, 20, func(w *recordWorld) { w.options.Metrics = poller.NewMetrics(registry) })
		w.mustPoll()
		w.err = &appliance.Error{Status: http.StatusInternalServerError}
		asked := make(map[int64]int) // by the end of the window
		w.between = func() {
			s := w.searches[len(w.searches)-1]
			if w.failing = s.Limit == 1 && s.Until > 2; w.failing { // not the one that asks for the time
				asked[s.Until]++
			}
		}
		for range 60 {
			w.pass(5 * time.Second)
			w.mustPoll()
		}
		givenUp := 0
		for until, n := range asked {
			if n > 20 {
				t.Errorf("the window until %d was asked for %d times", until, n)
			} else if n == 20 {
				givenUp++
			}
		}
		n := gathered(t, registry, "ndrbridge_source_incomplete_windows_total")
		assert.True(t, n != 0 && int(n) == givenUp, n, "windows were given up, and", givenUp, "asked for 20 times")
		w.between, w.failing = func() {}, false
		w.drain()
		w.judge(true)
	})
	t.Run("a recheck that is throttled or refused fails the poll, and is not given up", func(t *testing.T) {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusUnauthorized} {
			registry := prometheus.NewRegistry()
			w := atMinute(t, 20, func(w *recordWorld) { w.options.Metrics = poller.NewMetrics(registry) })
			w.mustPoll()
			late := w.store((w.clock - 20_000) * 1000)
			w.err = answered(status)
			w.between = func() {
				s := w.searches[len(w.searches)-1]
				w.failing = s.Limit == 1 && s.Until > 2
			}
			w.pass(time.Minute)
			failed := 0
			for range 60 {
				if _, err := w.poll(); err != nil {
					failed++
				}
			}
			assert.True(t, failed >= 40, failed, "of 60 polls failed with answers of", status)
			w.between, w.failing = func() {}, false
			w.drain()
			w.judge(true)
			n := gathered(t, registry, "ndrbridge_source_incomplete_windows_total")
			assert.True(t, n <= 0 && w.arrived["i-1-"+late.id] == 1, n, "windows were given up after answers of", status)
		}
	})
	t.Run("the total of a search that was terminated early decides nothing", func(t *testing.T) {
		w := atMinute(t, 20, nil)
		w.mustPoll()
		w.store((w.clock - 20_000) * 1000)
		w.between = func() {
			s := w.searches[len(w.searches)-1]
			w.early = s.Limit == 1 && s.Until > 2
		}
		w.total = func(n int) int {
			if w.early { // it is the total before the record was stored
				n--
			}
			return n
		}
		w.drain()
		w.judge(true)
	})
	t.Run("entries are forgotten when no window can show them any more", func(t *testing.T) {
		w := atMinute(t, 60, nil)
		w.drain()
		w.pass(10 * time.Minute)
		w.store(w.clock * 1000)
		w.drain()
		w.store(w.clock * 1000)
		w.drain()
		assert.True(t, len(w.state.known) <= 3, len(w.state.known), "entries are remembered")
	})
}

func TestSecondLooksKeepUpWithManyWindows(t *testing.T) {
	w := newRecordWorld(t)
	w.options.MaxWindowRecords, w.options.Recheck = 8, time.Minute
	w.restart()
	w.mustPoll()
	most := 0
	for range 100 {
		for i := range int64(20) {
			w.store((w.clock + i*50) * 1000)
		}
		w.pass(time.Second)
		w.mustPoll()
		var p struct{ Lists []any }
		require.NoError(t, json.Unmarshal(w.state.position, &p))
		most = max(most, len(p.Lists))
	}
	// A window of half a second each, for a minute.
	assert.True(t, most <= 300, most, "lists are kept")
	w.drain()
	w.judge(true)
}
