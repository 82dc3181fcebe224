package poller_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func answered(status int) error { return &appliance.Error{Status: status, Excerpt: "internal error"} }

// pollsUntil polls until done, and returns how many polls failed before.
func (w *world) pollsUntil(done func() bool) (failed int) {
	w.Helper()
	for range 100 {
		if done() {
			return failed
		}
		if err := w.poll(); err != nil {
			failed++
		}
	}
	w.Fatalf("100 polls were not enough: %v", w.poll())
	return failed
}

func TestNoSingleDetectionHoldsTheStreamUp(t *testing.T) {
	timedOut := &appliance.Error{Err: context.DeadlineExceeded}
	notJSON := &appliance.Error{Status: http.StatusOK, Err: errors.New("the answer is not JSON at byte 7")}
	for _, c := range []struct {
		name  string
		spoil func(bad, beside *modelRow)
		class string
	}{
		{"beside one that is too large, and answered by 500", func(bad, beside *modelRow) { bad.byID, bad.alone, beside.huge = answered(500), answered(500), true }, "unreadable"},
		{"beside one that is too large, and answered by 404", func(bad, beside *modelRow) { bad.byID, bad.alone, beside.huge = answered(404), answered(404), true }, "unreadable"},
		{"beside one that is too large, and answered by 403", func(bad, beside *modelRow) { bad.byID, bad.alone, beside.huge = answered(403), answered(403), true }, "unreadable"},
		{"beside one that is too large, and answered by 401", func(bad, beside *modelRow) { bad.byID, bad.alone, beside.huge = answered(401), answered(401), true }, "unreadable"},
		{"beside one that is too large, and never answered to its end", func(bad, beside *modelRow) { bad.byID, bad.alone, beside.huge = timedOut, timedOut, true }, "unreadable"},
		{"beside one that is too large, and not JSON", func(bad, beside *modelRow) { bad.byID, bad.alone, beside.huge = notJSON, notJSON, true }, "unreadable"},
		{"beside one that is too large, and in no page", func(bad, beside *modelRow) { bad.inPage, bad.byID, beside.huge = answered(500), answered(500), true }, "unreadable"},
		{"beside one that is too large, and without an id", func(bad, beside *modelRow) { bad.anonymous, beside.huge = true, true }, "invalid"},
		{"with pages that answer 500, and so by id", func(bad, _ *modelRow) { bad.inPage, bad.byID = answered(500), answered(500) }, "unreadable"},
		{"with pages that answer 500, and nothing by id", func(bad, _ *modelRow) { bad.inPage, bad.byID = answered(500), timedOut }, "unreadable"},
		{"with pages that are not JSON", func(bad, _ *modelRow) { bad.inPage, bad.byID = notJSON, notJSON }, "unreadable"},
		{"with pages that never end", func(bad, _ *modelRow) { bad.inPage, bad.byID = timedOut, timedOut }, "unreadable"},
		{"with pages that are refused", func(bad, _ *modelRow) { bad.inPage, bad.byID = answered(422), answered(404) }, "unreadable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.options.PageSize = 8
			w.restart()
			w.mustPoll()
			for range 20 {
				w.add(w.clock)
				w.clock++
			}
			beside, bad := w.add(w.clock), w.add(w.clock)
			w.clock++
			for range 20 {
				w.add(w.clock)
				w.clock++
			}
			w.clock += 1000
			c.spoil(bad, beside)
			want := 40
			if !beside.huge || bad.alone != nil { // then a page with others shows it
				want++
			}
			// After five polls a page is read in parts, and after five of these an object that
			// cannot be read is given up.
			pages := 0
			if bad.inPage != nil {
				pages = 4
			}
			most := pages + 4
			if bad.anonymous { // it can be read
				most = 0
			}
			assert.Equal(t, w.pollsUntil(func() bool { return len(w.events) == want }), most, "polls failed")
			var dead []string
			for key, d := range w.state.dead {
				if d.Class == c.class {
					dead = append(dead, key)
				}
			}
			if len(dead) != 1 || !bad.anonymous && dead[0] != strconv.FormatInt(bad.id, 10) {
				t.Fatalf("dead letters %v, want one under %d", w.state.dead, bad.id)
			}

			// It is not written again, not even after a restart, and delays nothing.
			commits := w.state.commits
			w.mustPoll()
			w.restart()
			polls := 0
			assert.Equal(t, w.pollsUntil(func() bool { polls++; return polls > 12 }), pages, "polls failed after a restart")
			if w.state.commits != commits {
				t.Errorf("%d commits of what is known", w.state.commits-commits)
			}

			// A later version, once it can be read, is delivered.
			bad.byID, bad.alone, bad.inPage, bad.anonymous = nil, nil, nil, false
			w.clock += 60_000
			w.touch(bad, w.clock)
			w.clock += 20 * 60_000 // it is requested again by then
			w.mustPoll()
			e := w.events[len(w.events)-1]
			assert.True(t, len(w.events) == want+1 && e.Subject == strconv.FormatInt(bad.id, 10), len(w.events), "events, want", want+1, "the last", e.ID)
		})
	}
}

func TestSeveralUnreadableDetectionsInARowAreGivenUp(t *testing.T) {
	w := newWorld(t)
	w.mustPoll()
	for i := range 12 {
		r := w.add(w.clock)
		if 4 <= i && i < 8 {
			r.inPage, r.byID = answered(500), answered(500)
		}
		w.clock++
	}
	w.clock += 1000
	if failed := w.pollsUntil(func() bool { return len(w.events) == 8 }); failed > 4+4*4 || len(w.state.dead) != 4 {
		t.Errorf("%d polls failed, dead letters %v", failed, w.state.dead)
	}
}

func TestADetectionThatFailsByItsIDIsReadByASearch(t *testing.T) {
	w := newWorld(t)
	w.mustPoll()
	beside, bad := w.add(w.clock), w.add(w.clock)
	bad.byID, beside.huge = answered(500), true
	w.mustPoll()
	assert.Equal(t, len(w.events), 1, "events")
	assert.Equal(t, len(w.state.dead), 1, "dead letters")
}

func TestAnUnreadableDetectionIsDeliveredWithoutALaterVersionBySweep(t *testing.T) {
	w := newWorld(t)
	w.mustPoll()
	w.clock += 60_000
	beside, bad := w.add(w.clock), w.add(w.clock)
	bad.byID, bad.inPage, beside.huge = answered(500), answered(500), true
	w.pollsUntil(func() bool { return len(w.state.dead) == 2 })
	bad.byID, bad.inPage = nil, nil
	w.clock += w.options.ReconcileEvery.Milliseconds() + 1000
	w.drain()
	assert.True(t, len(w.events) == 1 && w.events[0].Subject == strconv.FormatInt(bad.id, 10), "events", w.events)
}

func TestASweepPassesAnUnreadablePage(t *testing.T) {
	w := newWorld(t)
	w.mustPoll()
	w.clock += 3600_000
	w.add(w.clock)
	w.mustPoll()
	bad := w.add(w.clock - 1800_000) // too late for the overlap
	bad.inPage, bad.byID = answered(500), answered(500)
	late := w.add(w.clock - 1700_000)
	w.clock += w.options.ReconcileEvery.Milliseconds()
	w.pollsUntil(func() bool { return len(w.events) == 2 })
	assert.Equal(t, w.events[1].Subject, strconv.FormatInt(late.id, 10), "events", w.events)
	assert.Equal(t, len(w.state.dead), 1, "events", w.events, "dead letters")
}

func TestVerifyPassesWhatWasGivenUp(t *testing.T) {
	w := newWorld(t)
	w.mustPoll()
	w.add(w.clock)
	bad := w.add(w.clock)
	bad.inPage, bad.byID = answered(500), answered(500)
	w.add(w.clock)
	w.pollsUntil(func() bool { return len(w.events) == 2 })
	w.clock += 1000
	var found []string
	v, err := poller.VerifyDetections(t.Context(), w.model, w.state, w.options, time.UnixMilli(1), poller.VerifyReport{
		Progress: func(string, int, time.Time) {},
		Found:    func(d poller.Difference) { found = append(found, d.Kind+" "+d.ID) },
	})
	assert.True(t, err == nil && v.Same == 2 && len(found) == 1 && found[0] == "dead"+" "+strconv.FormatInt(bad.id, 10), v, "found", found, err)
}

func TestAnOutageGivesNothingUp(t *testing.T) {
	w := newWorld(t)
	w.mustPoll()
	w.add(w.clock)
	w.add(w.clock).huge = true
	w.failing = true
	requests := w.requests
	for range 30 {
		require.True(t, w.poll() != nil, "a poll succeeded")
	}
	n := w.requests - requests
	assert.True(t, n <= 2*30, "30 polls of an appliance that is down made", n, "requests")
	w.failing = false
	w.mustPoll()
	assert.Equal(t, len(w.events), 1, "events")
	assert.Equal(t, len(w.state.dead), 1, "dead letters")
}

func TestADetectionWithoutAnIDIsOneDeadLetter(t *testing.T) {
	w := newWorld(t)
	w.mustPoll()
	w.add(w.clock).anonymous = true
	other := w.add(w.clock)
	other.anonymous, other.began = true, other.began-1
	w.history = nil
	w.show(other)
	w.add(w.clock)
	w.mustPoll()
	commits := w.state.commits
	for range 50 {
		w.mustPoll()
	}
	assert.Equal(t, len(w.state.dead), 2, w.state.commits-commits, "commits of what is known", "dead letters of two objects")
	assert.Equal(t, w.state.commits, commits, w.state.commits-commits, "commits of what is known")
}

func TestNoSingleAuditEntryHoldsTheLogUp(t *testing.T) {
	for name, fail := range map[string]error{
		"answered by 500":   answered(500),
		"answered by 422":   answered(422),
		"without an end":    &appliance.Error{Err: context.DeadlineExceeded},
		"that are not JSON": &appliance.Error{Status: http.StatusOK, Err: errors.New("the answer is not JSON at byte 7")},
	} {
		for _, c := range []struct {
			oldestFirst bool
			bad         int64  // entries in a row
			skims       bool   // their ids can be read
			keys        string // what the keys of their dead letters begin with
		}{
			{false, 1, false, "#unreadable-"}, {true, 1, false, "#unreadable-"},
			{false, 3, false, "#unreadable-"}, {true, 3, false, "#unreadable-"},
			{false, 1, true, "9-175"}, {true, 1, true, "9-175"},
		} {
			oldestFirst := c.oldestFirst
			t.Run(fmt.Sprintf("%s, %d, oldest first %t, with an id %t", name, c.bad, oldestFirst, c.skims), func(t *testing.T) {
				w := newAuditWorld(t)
				w.oldestFirst = oldestFirst
				w.options.Start = fromTheBeginning
				w.writeMany(3)
				w.clock += 2000
				w.restartSource()
				w.mustPoll()
				w.writeMany(5)
				for range c.bad {
					w.write(`{}`, func(e *logEntry) { e.fail, e.unreadable, e.skims = fail, !c.skims, c.skims })
				}
				w.writeMany(9)
				failed := 0
				for polls := 0; len(w.events) < 17 && polls < 50; polls++ {
					if err := w.poll(); err != nil {
						failed++
					}
					if polls < 3 { // offsets shift meanwhile
						w.writeMany(1)
					}
				}
				for range 20 {
					w.mustPoll()
				}
				// After five polls the page is read in parts, and after five of these each
				// entry is given up.
				if most := 4 + 4*int(c.bad); len(w.events) != 20 || len(w.state.dead) != int(c.bad) || failed != most {
					t.Errorf("%d events, dead letters %v, %d polls failed, want %d", len(w.events), w.state.dead, failed, most)
				}
				for _, d := range w.state.dead {
					assert.Equal(t, d.Class, "unreadable", "dead letter", d)
					assert.True(t, strings.HasPrefix(d.Key, c.keys), "dead letter", d)
				}
				w.judge()
			})
		}
	}
}

func TestNoSingleRecordHoldsAQueryUp(t *testing.T) {
	for _, store := range []poller.RecordStore{poller.StoreOwn, poller.StoreThirdParty} {
		for name, fail := range map[string]error{
			"answered by 500": answered(500), "answered by 422": answered(422),
			"without an end": &appliance.Error{Err: context.DeadlineExceeded},
		} {
			for _, index := range []int{0, 5, 11} {
				t.Run(fmt.Sprintf("%s, %s, record %d", store, name, index), func(t *testing.T) {
					w := atMinute(t, 12, func(w *recordWorld) { w.options.Store = store })
					w.rows[index].fail, w.rows[index].demanded = fail, false
					failed := 0
					for range 40 {
						if _, err := w.poll(); err != nil {
							failed++
						}
						w.pass(w.options.Window)
					}
					// It fails five polls at least, and more while windows become shorter.
					if len(w.arrived) != 11 || len(w.state.dead) != 1 || failed < 6 || failed > 11 {
						t.Errorf("%d events, dead letters %v, %d polls failed", len(w.arrived), w.state.dead, failed)
					}
				})
			}
		}
	}
}

func TestNoSingleRecordOfAMillisecondHoldsAQueryUp(t *testing.T) {
	for _, store := range []poller.RecordStore{poller.StoreOwn, poller.StoreThirdParty} {
		for name, fail := range map[string]error{"answered by 500": answered(500), "answered by 422": answered(422)} {
			for _, size := range []int{4, 8, 100} { // of a page
				t.Run(fmt.Sprintf("%s, %s, pages of %d", store, name, size), func(t *testing.T) {
					w := atMinute(t, 0, func(w *recordWorld) {
						w.options.Store, w.options.PageSize, w.thirdParty = store, size, store == poller.StoreThirdParty
						for range 250 {
							w.store(w.clock*1000 + 3_000_000)
						}
					})
					w.rows[135].fail, w.rows[135].demanded = fail, false
					for range 60 {
						_, _ = w.poll()
						w.pass(w.options.Window)
					}
					// Two windows meet in the millisecond, and without its id the record is one of each.
					if len(w.arrived) != 249 || len(w.state.dead) == 0 || len(w.state.dead) > 2 {
						t.Errorf("%d records arrived, dead letters %v", len(w.arrived), w.state.dead)
					}
				})
			}
		}
	}
}

// TestADeadRecordHasTheKeyThatCanBeRead has a record that no search returns: it is too large,
// or answered by an error, and its id can be read or not.
func TestADeadRecordHasTheKeyThatCanBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		huge, skims bool
		class       string
	}{
		"too large":                  {true, true, "too_large"},
		"too large, without an id":   {true, false, "unreadable"},
		"answered by 500":            {false, true, "unreadable"},
		"by 500 and without its key": {false, false, "unreadable"},
	} {
		t.Run(name, func(t *testing.T) {
			w := atMinute(t, 12, nil)
			bad := w.rows[5]
			bad.huge, bad.fail, bad.skims, bad.demanded = c.huge, answered(500), c.skims, false
			for range 40 {
				_, _ = w.poll()
				w.pass(w.options.Window)
			}
			assert.Equal(t, len(w.arrived), 11, "events")
			assert.Equal(t, len(w.state.dead), 1, "dead letters")
			for key, d := range w.state.dead {
				assert.True(t, (key == bad.id) == c.skims && d.Class == c.class, "dead letter", d, "the record", bad.id)
			}
		})
	}
}

// TestFailuresThatAreOverDoNotCount has failures that pass, an object that is given up and
// becomes readable, and then another one that has to fail as often as the first.
func TestFailuresThatAreOverDoNotCount(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T) (fail func(error), poll func() error){
		"detections": func(t *testing.T) (func(error), func() error) {
			w := newWorld(t)
			w.mustPoll()
			var bad *modelRow
			return func(err error) {
				if err == nil {
					bad.inPage, bad.byID = nil, nil
					return
				}
				w.clock += 60_000
				w.add(w.clock)
				bad = w.add(w.clock + 1)
				bad.inPage, bad.byID = err, err
				w.clock += 1000
			}, w.poll
		},
		"the audit log": func(t *testing.T) (func(error), func() error) {
			w := newAuditWorld(t)
			w.mustPoll()
			w.writeMany(3)
			var bad *logEntry
			return func(err error) {
				if err == nil {
					bad.fail, bad.purged = nil, true
					w.log = w.log[:len(w.log)-1]
					return
				}
				w.writeMany(1)
				bad = w.write(`{}`, func(e *logEntry) { e.fail, e.unreadable = err, true })
			}, w.poll
		},
	} {
		t.Run(name, func(t *testing.T) {
			fail, poll := begin(t)
			failures := func(most int) (n int) {
				for n < most && poll() != nil {
					n++
				}
				return n
			}
			require.Equal(t, failures(1), 0, "a poll failed")
			for range 3 {
				fail(answered(500))
				assert.Equal(t, failures(4), 4, "polls failed before it was over")
				fail(nil)
				assert.Equal(t, failures(9), 0, "polls failed after it was over")
				fail(answered(500))
				assert.Equal(t, failures(20), 8, "polls failed before it was given up")
				fail(nil)
				for range 2 {
					assert.Equal(t, failures(9), 0, "polls failed after it could be read")
				}
			}
		})
	}
}

func TestAnOutageOfAPartOfTheRecordStoreGivesNothingUp(t *testing.T) {
	for _, store := range []poller.RecordStore{poller.StoreOwn, poller.StoreThirdParty} {
		for _, before := range []int{0, 12} {
			t.Run(fmt.Sprintf("%s, with %d records before it", store, before), func(t *testing.T) {
				w := atMinute(t, before, func(w *recordWorld) { w.options.Store = store })
				for range 3 {
					w.mustPoll()
					w.pass(w.options.Window)
				}
				at := w.clock * 1000
				for n := range int64(12) {
					w.store(at + n*1_000_000).fail = answered(500)
				}
				w.pass(w.options.Window)
				for range 70 {
					_, _ = w.poll()
					w.pass(time.Minute)
				}
				assert.Equal(t, len(w.state.dead), 0, "dead letters during the outage", w.state.dead)
				for _, r := range w.rows {
					r.fail = nil
				}
				for range 150 {
					_, _ = w.poll()
					w.pass(w.options.Window)
				}
				if len(w.arrived) != before+12 || len(w.state.dead) != 0 {
					t.Errorf("%d of %d records arrived, dead letters %v", len(w.arrived), before+12, w.state.dead)
				}
			})
		}
	}
}

func TestAnOutageOfAPartOfTheDetectionsGivesNothingUp(t *testing.T) {
	w := newWorld(t)
	w.options.PageSize, w.options.ReconcileEvery = 8, 0
	w.restart()
	w.mustPoll()
	var rows []*modelRow
	for range 12 {
		r := w.add(w.clock)
		r.inPage, r.byID, r.alone = answered(500), answered(500), answered(500)
		rows = append(rows, r)
		w.clock++
	}
	for range 150 {
		_ = w.poll()
		w.clock += 60_000
	}
	assert.Equal(t, len(w.state.dead), 0, "dead letters during the outage", w.state.dead)
	for _, r := range rows {
		r.inPage, r.byID, r.alone = nil, nil, nil
	}
	w.pollsUntil(func() bool { return len(w.events) == 12 })
	assert.Equal(t, len(w.state.dead), 0, "dead letters", w.state.dead)
}

func TestANewVersionOfWhatWasGivenUpIsReadWithinTheOverlap(t *testing.T) {
	for _, between := range []int64{0, 1000} {
		t.Run(fmt.Sprintf("with another that changed %d ms before it", between), func(t *testing.T) {
			w := newWorld(t)
			w.options.ReconcileEvery = 0
			w.restart()
			w.mustPoll()
			w.clock += 1000
			w.add(w.clock).huge = true // pages with it have to be read one by one
			bad := w.add(w.clock + 1)
			bad.byID, bad.alone, bad.inPage = answered(500), answered(500), answered(500)
			w.clock += 1000
			w.pollsUntil(func() bool { return len(w.state.dead) == 2 })
			bad.byID, bad.alone, bad.inPage = nil, nil, nil
			w.clock += 60_000
			if between > 0 {
				w.add(w.clock - between).huge = true
			}
			w.touch(bad, w.clock)
			w.add(w.clock).huge = true
			w.clock += 1000
			w.mustPoll()
			w.clock += 4 * 60_000 // twice the overlap
			w.add(w.clock)
			w.clock += 1000
			for range 40 {
				w.mustPoll()
				w.clock += 30_000
			}
			for _, e := range w.events {
				if e.Subject == strconv.FormatInt(bad.id, 10) {
					return
				}
			}
			t.Errorf("no event of detection %d, which was given up and changed", bad.id)
		})
	}
}

// movingClient lets something happen behind the last request for the rows of a page.
type movingClient struct {
	poller.DetectionsClient
	id    int64 // which could not be read
	pages int   // that showed it
	move  func()
}

func (c *movingClient) DetectionModTime(ctx context.Context, id int64) (int64, error) {
	modTime, err := c.DetectionsClient.DetectionModTime(ctx, id)
	if id == c.id {
		if c.pages++; c.pages == 2 { // the next page is requested by offset
			c.move()
		}
	}
	return modTime, err
}

func TestAnUnreadableDetectionThatChangesBetweenTwoPagesHidesNoOther(t *testing.T) {
	w := newWorld(t)
	w.options.PageSize, w.options.ReconcileEvery = 2, 0
	client := &movingClient{DetectionsClient: w.model}
	w.client = client
	w.restart()
	w.mustPoll()
	w.clock += 1000
	beside, bad := w.add(w.clock), w.add(w.clock)
	beside.huge, bad.byID, bad.inPage = true, answered(500), answered(500)
	w.pollsUntil(func() bool { return len(w.state.dead) == 2 })
	other := w.add(w.clock)
	w.clock += 1000
	client.id, client.move = bad.id, func() {
		bad.byID, bad.inPage = nil, nil
		w.touch(bad, w.clock-1)
		w.touch(beside, w.clock)
	}
	w.mustPoll()
	require.True(t, client.pages >= 2, "nothing changed between two pages")
	for _, e := range w.events {
		if e.Subject == strconv.FormatInt(other.id, 10) {
			return
		}
	}
	t.Error("the poll did not show the detection between the two pages")
}

func TestARecordIsGivenUpAlthoughTheWholePastCannotBeSearched(t *testing.T) {
	w := atMinute(t, 12, func(w *recordWorld) { w.failOver = time.Hour.Milliseconds() })
	bad := w.store(w.clock * 1000)
	bad.fail, bad.demanded = answered(500), false
	for polls := 0; len(w.state.dead) == 0 && polls < 50; polls++ {
		w.pass(w.options.Window)
		_, _ = w.poll()
	}
	assert.Equal(t, len(w.arrived), 12, "records arrived")
	assert.Equal(t, len(w.state.dead), 1, "dead letters")
}

func TestAStoreThatCannotSearchThePastIsAskedAFewTimes(t *testing.T) {
	w := atMinute(t, 0, func(w *recordWorld) { w.failOver = 100_000 })
	bad := w.store((w.clock - 5000) * 1000)
	bad.fail, bad.demanded = answered(500), false
	most := 0
	for range 60 {
		before := w.requests
		_, _ = w.poll()
		most = max(most, w.requests-before)
		w.pass(time.Second)
	}
	assert.True(t, most <= 20, "a poll made", most, "requests")
}

func TestARecordThatWasGivenUpArrivesIfTheSecondLookCanReadIt(t *testing.T) {
	for _, store := range []poller.RecordStore{poller.StoreOwn, poller.StoreThirdParty} {
		for _, legible := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, it can be read by then: %v", store, legible), func(t *testing.T) {
				w := atMinute(t, 12, func(w *recordWorld) { w.options.Store = store })
				w.mustPoll()
				bad := w.store(w.clock * 1000) // no newer record shows whether it is the record's own fault
				bad.fail, bad.demanded = answered(500), legible
				for polls := 0; len(w.state.dead) == 0 && polls < 50; polls++ {
					w.pass(w.options.Window)
					_, _ = w.poll()
				}
				if legible {
					bad.fail = nil
				}
				w.drain()
				w.judge(true)
				assert.Equal(t, len(w.state.dead), 1, "dead letters")
			})
		}
	}
}

// TestAWindowThatIsBegunAgainRemembersWhatItGaveUp restarts the source after the page with
// the record was committed and before the window ends.
func TestAWindowThatIsBegunAgainRemembersWhatItGaveUp(t *testing.T) {
	for _, store := range []poller.RecordStore{poller.StoreOwn, poller.StoreThirdParty} {
		t.Run(string(store), func(t *testing.T) {
			w := atMinute(t, 12, func(w *recordWorld) { w.options.Store, w.options.Window = store, time.Minute })
			bad := w.rows[1]
			bad.fail = answered(500)
			w.between = func() { w.failing = len(w.state.dead) > 0 }
			for polls := 0; !w.failing && polls < 50; polls++ {
				_, _ = w.poll()
			}
			if len(w.state.dead) != 1 || w.until >= bad.at/1000 {
				t.Fatalf("%d dead letters, want one of a window that was not read to its end", len(w.state.dead))
			}
			w.between, w.failing = func() {}, false
			w.restart()
			for polls := 0; w.until < bad.at/1000 && polls < 50; polls++ {
				_, _ = w.poll()
			}
			bad.fail = nil
			w.drain()
			w.judge(true)
		})
	}
}
