package poller_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
)

// recordWorld is a record store, a state, and the source between them.
type recordWorld struct {
	tb
	*recordModel
	state   *memory
	options poller.RecordsOptions
	source  *poller.Records
	local   time.Time      // the bridge's own clock
	arrived map[string]int // by the id of the event
	until   int64          // the position last committed
	back    int64          // how far the appliance's clock may have gone back unseen
}

func newRecordWorld(t tb) *recordWorld {
	w := &recordWorld{tb: t, recordModel: newRecordModel(), arrived: make(map[string]int), local: time.UnixMilli(1_700_000_000_000)}
	w.state = newMemory(w.journal)
	w.options = poller.RecordsOptions{
		StreamOptions: poller.StreamOptions{
			Appliance: "hq", URL: "https://sensor.example",
			Start:    func(now time.Time) time.Time { return now },
			PageSize: 5,
			Now:      func() time.Time { return w.local },
			Log:      slog.New(slog.DiscardHandler),
			Metrics:  poller.NewMetrics(prometheus.NewRegistry()),
		},
		Query: "web", Types: []string{"~http"},
		Window: 10 * time.Second, Delay: 3 * time.Second, Recheck: time.Minute, ContextTTL: time.Minute,
		MaxWindowRecords: 40, Store: poller.StoreAuto,
	}
	w.restart()
	return w
}

// restart continues from the committed state, like a new process.
func (w *recordWorld) restart() {
	w.source = poller.NewRecords(w.recordModel, w.state, w.options)
}

// pass lets time pass, at the appliance and here.
func (w *recordWorld) pass(d time.Duration) {
	w.clock += d.Milliseconds()
	w.local = w.local.Add(d)
}

func (w *recordWorld) poll() (poller.Next, error) { return w.source.Poll(context.Background()) }

// mustPoll polls until there is nothing more to read.
func (w *recordWorld) mustPoll() {
	w.Helper()
	for range 100_000 {
		next, err := w.poll()
		if err != nil {
			w.Fatalf("poll: %v", err)
		}
		if next == poller.Idle {
			return
		}
	}
	w.Fatalf("the source always has more to read")
}

// drain lets so much time pass that everything must have arrived.
func (w *recordWorld) drain() {
	w.Helper()
	for end := w.clock + (2*w.options.Recheck + w.options.Delay + 20*time.Second).Milliseconds(); w.clock < end; w.pass(7 * time.Second) {
		w.mustPoll()
	}
	w.mustPoll()
}

// journal checks the invariants of every commit.
func (w *recordWorld) journal(c checkpoint.Commit) {
	var position struct {
		Until int64 `json:"until"`
	}
	if err := json.Unmarshal(c.Position, &position); err != nil {
		w.Fatalf("position %s: %v", c.Position, err)
	}
	if ahead := position.Until - (w.clock - w.options.Delay.Milliseconds()); w.until > 0 && position.Until > w.until && ahead > w.back {
		w.Errorf("the position %d is %d ms ahead of the appliance's clock less the delay", position.Until, ahead)
	}
	w.until = position.Until
	for _, e := range c.Events {
		w.arrived[e.ID]++
	}
}

// judge checks that every demanded record arrived, once if that is demanded, and that no
// unknown record did.
func (w *recordWorld) judge(once bool) {
	w.Helper()
	were := make(map[string]bool)
	for _, r := range w.gone {
		were["i-1-"+r.id] = true
	}
	for _, r := range w.rows {
		id := "i-1-" + r.id
		were[id] = true
		if n := w.arrived[id]; n == 0 && r.demanded && !r.huge {
			w.Fatalf("record %s of %s did not arrive", r.id, stamp(r.at))
		} else if n > 1 && once {
			w.Fatalf("record %s of %s arrived %d times", r.id, stamp(r.at), n)
		}
	}
	for id := range w.arrived {
		if !were[id] {
			w.Fatalf("%s arrived, but it never existed", id)
		}
	}
}

func TestNoRecordIsLostInventedOrRepeated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newRecordWorld(t)
		w.options.PageSize = rapid.IntRange(2, 8).Draw(t, "page size")
		w.options.MaxWindowRecords = rapid.SampledFrom([]int{8, 30, 200}).Draw(t, "records in a window")
		w.options.Store = rapid.SampledFrom([]poller.RecordStore{poller.StoreAuto, poller.StoreOwn, poller.StoreThirdParty}).Draw(t, "store")
		w.fromIncl = rapid.Bool().Draw(t, "from is inclusive")
		w.untilIncl = rapid.Bool().Draw(t, "until is inclusive")
		w.whole = rapid.Bool().Draw(t, "whole milliseconds")
		w.thirdParty = w.options.Store == poller.StoreThirdParty || rapid.Bool().Draw(t, "no cursors")
		w.snapshot = rapid.Bool().Draw(t, "snapshots")
		w.firstCap = rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "first batch")
		w.refuseTTL = w.options.Store == poller.StoreAuto && w.thirdParty && rapid.Bool().Draw(t, "refuses context_ttl")
		if w.thirdParty {
			w.shuffled = rapid.Bool().Draw(t, "shuffled")
		}
		if w.shuffled {
			// A millisecond with more records than that cannot be held together.
			w.options.PageSize, w.firstCap = w.options.PageSize+60, 0
		}
		// Where ties are shuffled, it takes the total to see that one is missing.
		w.noTotals = !w.shuffled && rapid.Bool().Draw(t, "no totals")

		begin := w.clock / 1000 * 1000_000
		if rapid.Bool().Draw(t, "a backlog") {
			for range rapid.IntRange(1, 60).Draw(t, "records before the start") {
				w.store((w.clock-600_000)*1000 + rapid.Int64Range(0, 590_000_000).Draw(t, "at"))
			}
			w.options.Start = func(time.Time) time.Time { return time.Time{} }
			begin = 0
			if rapid.Bool().Draw(t, "a part of it") {
				w.options.Start = func(now time.Time) time.Time { return now.Add(-300 * time.Second) }
				begin = w.clock/1000*1000_000 - 300_000_000
			}
		}
		for _, r := range w.rows {
			r.demanded = r.at >= begin
		}
		w.restart()
		if _, err := w.poll(); err != nil { // the first contact: what start means is committed
			t.Fatal(err)
		}
		for _, r := range w.rows {
			r.demanded = r.at >= begin
		}

		contact := w.clock * 1000
		wentBack, unseen, latest := false, false, int64(0)
		store := func(late int64) {
			r := w.store(w.clock*1000 + rapid.Int64Range(0, 999).Draw(t, "µs") - late)
			// A clock that goes back by a second goes unnoticed, and records stored then
			// are later than their timestamps. If more goes unnoticed, records appear in
			// windows read long ago.
			margin := int64(0)
			if wentBack {
				margin = 2000_000
			}
			r.demanded = !unseen && r.at >= begin && late <= w.options.Recheck.Microseconds()-margin
		}
		change := func() {
			w.failing = false
			for range rapid.SampledFrom([]int{0, 0, 1, 1, 2}).Draw(t, "changes") {
				switch rapid.SampledFrom([]string{
					"store", "store", "store", "ties", "end", "late", "late", "very late", "tick", "tick", "tick", "drift",
					"purge", "purge", "expire", "lose", "fail", "back", "forward",
				}).Draw(t, "change") {
				case "store":
					store(0)
				case "ties":
					for range rapid.IntRange(2, 20).Draw(t, "ties") {
						store(0)
					}
				case "end":
					// At the very end of what can be read, and one beside it.
					store(w.options.Delay.Microseconds())
					store(w.options.Delay.Microseconds() + 1000)
				case "late":
					store(rapid.Int64Range(0, w.options.Recheck.Microseconds()).Draw(t, "µs late"))
				case "very late":
					store(w.options.Recheck.Microseconds() * 3)
				case "tick":
					w.pass(time.Duration(rapid.SampledFrom([]int64{1, 400, 2500, 9000, 31_000}).Draw(t, "ms")) * time.Millisecond)
				case "drift":
					w.local = w.local.Add(time.Duration(rapid.Int64Range(-20, 20).Draw(t, "s")) * time.Second)
				case "purge":
					// What is old goes, and all offsets with it. No store deletes a record
					// whose window is still to be checked: one that is deleted and one that
					// is stored late would leave the window's total as it was.
					if len(w.rows) > 0 && w.rows[0].at < min(contact, w.clock*1000)-200_000_000 {
						w.purge(w.rows[0])
					}
				case "expire":
					clear(w.cursors)
				case "lose":
					w.lose = true
				case "fail":
					w.failing = true
				case "back":
					latest = max(latest, w.clock)
					w.clock -= rapid.SampledFrom([]int64{1, 900, 5000, 1_000_000}).Draw(t, "ms")
					w.back, wentBack, unseen = 1<<40, true, true
				case "forward":
					w.clock += 1_000_000
				}
			}
		}
		w.state.fail = func() (failed, written bool) {
			switch rapid.IntRange(0, 29).Draw(t, "disk") {
			case 0:
				return true, false
			case 1:
				return true, true
			}
			return false, false
		}
		w.between = change
		for range rapid.IntRange(3, 25).Draw(t, "polls") {
			if rapid.IntRange(0, 9).Draw(t, "crash") == 0 {
				w.restart()
			}
			change()
			if _, err := w.poll(); err == nil {
				unseen = false
			}
		}

		w.between = func() {}
		w.failing, w.lose = false, false
		w.state.fail = func() (bool, bool) { return false, false }
		w.pass(time.Duration(max(0, latest-w.clock)) * time.Millisecond)
		w.drain()
		w.judge(!wentBack)
	})
}
