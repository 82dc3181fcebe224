package poller_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// newWholeLog returns a log that is delivered from its beginning.
func newWholeLog(t tb, oldestFirst bool, pageSize int) *auditWorld {
	w := newAuditWorld(t)
	w.oldestFirst = oldestFirst
	w.options.Start, w.options.PageSize = fromTheBeginning, pageSize
	w.restartSource()
	return w
}

func inBothOrders(t *testing.T, test func(t *testing.T, oldestFirst bool)) {
	for _, oldestFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("oldest first %t", oldestFirst), func(t *testing.T) { test(t, oldestFirst) })
	}
}

func TestAnEntryThatBecomesVisibleLateIsDelivered(t *testing.T) {
	inBothOrders(t, func(t *testing.T, oldestFirst bool) {
		w := newWholeLog(t, oldestFirst, 8)
		w.writeMany(4)
		late := w.hold()
		w.writeMany(2)
		w.mustPoll()
		w.reveal(late, true)
		w.mustPoll()
		w.writeMany(1)
		w.mustPoll()
		assert.Equal(t, w.arrived(), "1 2 3 5 6 4 7", "arrived")
		w.judgeQuiet()
	})
}

// TestAnEntryBeforeOneWithoutAnIDIsFoundByTheSweep lets two neighbours become visible late, the
// newer without a readable id. Answers hold two entries.
func TestAnEntryBeforeOneWithoutAnIDIsFoundByTheSweep(t *testing.T) {
	inBothOrders(t, func(t *testing.T, oldestFirst bool) {
		w := newAuditWorld(t) // the stream starts now
		w.oldestFirst, w.options.PageSize = oldestFirst, 2
		w.writeMany(3)
		w.restartSource()
		w.mustPoll()
		w.writeMany(1)
		late := w.hold()
		unreadable := w.write(`{}`, func(e *logEntry) { e.unreadable = true })
		w.hold()
		w.writeMany(2)
		w.mustPoll()
		w.reveal(late, true)
		w.reveal(unreadable, true)
		w.mustPoll()
		w.clock += w.options.ReconcileEvery.Milliseconds()
		for range 20 {
			w.mustPoll()
		}
		assert.Equal(t, w.arrived(), "6 7 4", "arrived")
	})
}

// TestALateEntryWithoutAnIDIsNoOtherLog lets an entry without a readable id become visible at
// the oldest end of the log, in an answer of its own.
func TestALateEntryWithoutAnIDIsNoOtherLog(t *testing.T) {
	w := newAuditWorld(t)
	w.options.Start, w.options.PageSize = fromTheBeginning, 3
	w.restartSource()
	unreadable := w.write(`{}`, func(e *logEntry) { e.unreadable = true })
	w.hold()
	w.writeMany(2)
	late := w.hold()
	w.writeMany(1)
	w.mustPoll()
	w.writeMany(1)
	w.reveal(unreadable, true)
	w.reveal(late, true)
	w.mustPoll()
	assert.Equal(t, w.arrived(), "2 4 3 5", "arrived")
}

func TestTheSweepFindsALateEntryAmongTheFirstOfTheStream(t *testing.T) {
	inBothOrders(t, func(t *testing.T, oldestFirst bool) {
		for more := range 8 {
			w := newAuditWorld(t) // the stream starts now
			w.oldestFirst, w.options.PageSize = oldestFirst, 4
			w.writeMany(2)
			w.restartSource()
			w.mustPoll()
			w.writeMany(1)
			late := w.hold()
			w.write(`{}`, func(e *logEntry) { e.unreadable = true })
			w.mustPoll()
			w.writeMany(more)
			w.mustPoll()
			w.reveal(late, true)
			w.clock += w.options.ReconcileEvery.Milliseconds()
			for range 20 {
				w.mustPoll()
			}
			if w.delivered[late] != 1 {
				t.Errorf("%d more entries: arrived %s", more, w.arrived())
			}
		}
	})
}

func TestNeighboursInTheOtherOrderOfIDsDoNotStopTheStream(t *testing.T) {
	inBothOrders(t, func(t *testing.T, oldestFirst bool) {
		w := newWholeLog(t, oldestFirst, 8)
		w.writeMany(5)
		w.swap(3)
		w.mustPoll()
		w.writeMany(3)
		w.mustPoll()
		assert.Equal(t, w.arrived(), "1 2 3 4 5 6 7 8", "arrived")
		w.judgeQuiet()
	})
}

func TestAnEntryIsKnownIfItsContentChanges(t *testing.T) {
	for _, oldestFirst := range []bool{false, true} {
		for name, change := range map[string]func(answer int) string{
			"one more field in all entries":      func(int) string { return `,"severity":5` },
			"a field that is another every time": func(answer int) string { return fmt.Sprintf(`,"age":"%d s ago"`, answer) },
		} {
			t.Run(fmt.Sprintf("%s, oldest first %t", name, oldestFirst), func(t *testing.T) {
				w := newWholeLog(t, oldestFirst, 8)
				w.writeMany(20)
				w.mustPoll()
				w.added, w.extended = change, true
				w.writeMany(20)
				requests := w.requests
				w.between = func() {
					require.True(t, w.requests-requests <= 200, "a poll does not end", len(w.events), "events", len(w.gaps), "gaps")
				}
				for range 3 {
					w.mustPoll()
				}
				assert.Equal(t, len(w.events), 40, len(w.gaps), "gaps", "events of 40 entries")
				assert.Empty(t, w.gaps, len(w.gaps), "gaps")
				w.judgeQuiet()
			})
		}
	}
}

// TestEntriesThatArriveWhileAPollLooksBackAreNoOtherLog lets a poll find the last entry, which
// precedes its neighbour, and then the log grow, so that the next page shows newer entries and
// the one after it begins with that neighbour.
func TestEntriesThatArriveWhileAPollLooksBackAreNoOtherLog(t *testing.T) {
	w := newAuditWorld(t)
	w.options.Start, w.options.PageSize = fromTheBeginning, 6
	w.restartSource()
	w.writeMany(8)
	w.swap(6)
	w.mustPoll()
	w.writeMany(1)
	requests := w.requests
	w.between = func() {
		if w.requests == requests+2 {
			w.writeMany(14)
		}
	}
	w.mustPoll()
	got := w.arrived()
	assert.True(t, len(w.gaps) == 0 && got == "1 2 3 4 5 6 8 7 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23", "arrived", got, "gaps", w.gaps)
}

func TestAPollEndsIfTheServerReturnsFewerEntriesThanRequested(t *testing.T) {
	for _, oldestFirst := range []bool{false, true} {
		for rows := 2; rows <= 5; rows++ {
			for polls := range 8 { // the limit grows with them
				w := newWholeLog(t, oldestFirst, 8)
				w.maxRows = rows
				w.writeMany(7)
				w.write(`{}`, func(e *logEntry) { e.unreadable = true })
				w.writeMany(1)
				for range polls + 1 {
					w.mustPoll()
				}
				requests := w.requests
				w.between = func() {
					require.True(t, w.requests-requests <= 100, "a poll with", rows, "entries in an answer does not end, oldest first", oldestFirst)
				}
				for range 4 {
					w.writeMany(1)
					requests = w.requests
					w.mustPoll()
				}
				w.judge()
			}
		}
	}
}

func TestALogReplacedAfterThePositionWasFoundIsReportedBeforeItsFirstNewEntry(t *testing.T) {
	for _, oldestFirst := range []bool{false, true} {
		for pageSize := 2; pageSize <= 8; pageSize++ {
			for request := 1; request <= 6; request++ {
				w := newWholeLog(t, oldestFirst, pageSize)
				w.writeMany(6)
				w.mustPoll()
				w.writeMany(1)
				first := w.requests
				w.between = func() {
					if w.requests == first+request {
						w.restore(w.log[:5])
						w.writeMany(3)
					}
				}
				w.mustPoll()
				w.mustPoll()
				if len(w.gaps) > 1 || w.changes > 0 && (len(w.gaps) == 0 || w.gaps[0].First.ID != 6) {
					t.Errorf("request %d, %d in a page, oldest first %t: arrived %s", request, pageSize, oldestFirst, w.arrived())
				}
				w.judge()
			}
		}
	}
}

func TestAPollEndsIfABackupShowsAgainWhatWasPurgedUnread(t *testing.T) {
	for _, oldestFirst := range []bool{false, true} {
		for pageSize := 2; pageSize <= 8; pageSize++ {
			for known := range 9 {
				w := newWholeLog(t, oldestFirst, pageSize)
				w.writeMany(1)
				w.mustPoll()
				w.writeMany(20 + known)
				w.write(`{}`, func(e *logEntry) { e.unreadable = true }) // it has no position
				w.writeMany(1)
				backup := w.log
				w.purge(20)
				w.mustPoll()
				w.restore(backup)
				w.writeMany(1)
				requests := w.requests
				w.between = func() {
					require.True(t, w.requests-requests <= 100, "a poll does not end", known, "known", pageSize, "in a page, oldest first", oldestFirst)
				}
				for range 3 {
					requests = w.requests
					w.mustPoll()
				}
				w.judge()
			}
		}
	}
}

// TestAPollEndsIfALogWithoutTheLastIDIsReadInShorterPages replaces a log of eight entries by one
// in which the entry with the id 8 is unreadable. A page with an entry that is too large is
// requested again with half the limit.
func TestAPollEndsIfALogWithoutTheLastIDIsReadInShorterPages(t *testing.T) {
	for _, oldestFirst := range []bool{false, true} {
		for pageSize := 2; pageSize <= 8; pageSize++ {
			for large := range 20 {
				w := newWholeLog(t, oldestFirst, pageSize)
				w.writeMany(8)
				w.mustPoll()
				w.replace(nil, 1)
				w.writeMany(7)
				for range 2 {
					w.write(`{}`, func(e *logEntry) { e.unreadable = true })
				}
				w.writeMany(20)
				w.log[9+large].huge = true
				w.mustPoll()
				w.judge()
			}
		}
	}
}

func TestAPollEndsIfAnOlderBackupHasEntriesFromBeforeTheStart(t *testing.T) {
	inBothOrders(t, func(t *testing.T, oldestFirst bool) {
		for pageSize := 2; pageSize <= 8; pageSize++ {
			for kept := 9; kept < 14; kept++ {
				w := newAuditWorld(t) // the stream starts now
				w.oldestFirst, w.options.PageSize = oldestFirst, pageSize
				w.writeMany(8)
				w.restartSource()
				w.maxRows = 2 // few of the entries before the start are remembered
				w.mustPoll()
				w.maxRows = 0
				w.writeMany(6)
				w.mustPoll()
				w.restore(w.log[:kept])
				w.writeMany(1)
				w.mustPoll()
				w.judge()
			}
		}
	})
}

func TestAPollEndsIfTwoLogsTakeTurns(t *testing.T) {
	contradict := 0
	for _, oldestFirst := range []bool{false, true} {
		for every := 1; every <= 4; every++ {
			for _, pageSize := range []int{2, 3, 8} {
				w := newWholeLog(t, oldestFirst, pageSize)
				w.writeMany(20)
				one := w.log
				w.mustPoll()
				w.writeMany(20)
				w.mustPoll()
				w.restore(one)
				w.write(`{}`, func(e *logEntry) { e.unreadable = true })
				w.writeMany(20)
				w.mustPoll()
				logs := [][]*logEntry{w.log, slices.Concat(one[10:], w.log[20:21])}
				requests := 0
				w.between = func() {
					if requests++; requests > 2000 {
						t.Fatalf("a poll does not end: another log every %d requests, %d in a page, oldest first %t", every, pageSize, oldestFirst)
					}
					w.log = logs[requests/every%2]
				}
				for range 5 {
					requests = 0
					if err := w.poll(); err != nil && strings.Contains(err.Error(), "contradict each other") {
						contradict++
					}
				}
			}
		}
	}
	assert.True(t, contradict != 0, "no poll ended with an")
}

func TestALogOfTwoEntriesThatReversedItsOrderIsReadInTheEnd(t *testing.T) {
	w := newWholeLog(t, true, 8)
	w.writeMany(2)
	w.mustPoll()
	w.oldestFirst = false
	w.purge(1)
	w.writeMany(1)
	for range 40 {
		w.mustPoll()
	}
	assert.Equal(t, w.arrived(), "1 2 3", "arrived")
}

func TestASweepDoesNotTakeAnEntryOfAnotherLogForALateOne(t *testing.T) {
	w := newWholeLog(t, false, 8)
	w.writeMany(5)
	w.mustPoll()
	w.replace(nil, 100)
	w.oldestFirst = true // few entries do not show it
	w.write(`{}`, func(e *logEntry) { e.unreadable = true })
	w.mustPoll()
	w.clock += w.options.ReconcileEvery.Milliseconds()
	requests := w.requests
	w.between = func() {
		if w.requests == requests+2 { // the sweep
			w.write(`{}`, func(e *logEntry) { e.unreadable = true })
			w.writeMany(1)
		}
	}
	for range 3 {
		w.mustPoll()
	}
	assert.Equal(t, w.arrived(), "1 2 3 4 5 102 purged:5-102:96", "arrived")
}

// TestASweepTakesNothingOfALogWithoutTheLastEntry restarts the log. Its first entry becomes
// visible late, while a sweep reads it, and the second has no readable id: the gap before them
// is reported before the first one.
func TestASweepTakesNothingOfALogWithoutTheLastEntry(t *testing.T) {
	w := newAuditWorld(t)
	w.options.Start = fromTheBeginning
	w.restartSource()
	w.writeMany(5)
	w.mustPoll()
	w.replace(nil, 1)
	w.writeMany(1)
	late := w.hold()
	w.write(`{}`, func(e *logEntry) { e.unreadable = true })
	w.mustPoll()
	w.clock += w.options.ReconcileEvery.Milliseconds()
	requests := w.requests
	w.between = func() {
		if w.requests == requests+2 {
			w.reveal(late, true)
		}
	}
	w.mustPoll()
	w.mustPoll()
	assert.Equal(t, w.arrived(), "1 2 3 4 5 1 restarted:5-1:0", "arrived")
}

func TestASweepFindsALateEntryIfTheServerReturnsFewerEntriesThanRequested(t *testing.T) {
	for rows := 2; rows <= 8; rows++ {
		w := newWholeLog(t, true, 8)
		w.maxRows = rows
		w.writeMany(10)
		late := w.hold()
		w.writeMany(2)
		w.mustPoll()
		w.reveal(late, true)
		w.clock += w.options.ReconcileEvery.Milliseconds()
		for range 20 {
			w.mustPoll()
		}
		assert.Equal(t, w.arrived(), "1 2 3 4 5 6 7 8 9 11 12 10", rows, "in an answer: arrived")
	}
}

func TestASweepReadsEveryEntryIfItsPagesBecomeShorter(t *testing.T) {
	for _, oldestFirst := range []bool{false, true} {
		for rows := 2; rows <= 5; rows++ {
			for late := 1; late <= 30; late++ {
				w := newWholeLog(t, oldestFirst, 8)
				w.writeMany(late)
				w.hold()
				w.writeMany(40 - late)
				w.mustPoll()
				w.reveal(w.held[0], true)
				w.clock += w.options.ReconcileEvery.Milliseconds()
				for poll := range 40 {
					if w.maxRows = 0; poll%4 > 1 {
						w.maxRows = rows
					}
					w.mustPoll()
				}
				w.judge()
				require.True(t, !t.Failed(), rows, "in an answer, oldest first", oldestFirst)
			}
		}
	}
}

func TestTimesOfAnotherPrecisionAreNoOtherLog(t *testing.T) {
	for _, seconds := range []bool{false, true} {
		for _, oldestFirst := range []bool{false, true} {
			for name, c := range map[string]struct {
				change     func(w *auditWorld)
				want, gaps int // events after ten, and gaps
			}{
				"nothing happened":     {func(*auditWorld) {}, 0, 0},
				"entries were written": {func(w *auditWorld) { w.writeMany(30) }, 30, 0},
				"an entry came late":   {func(w *auditWorld) { w.reveal(w.held[0], true); w.writeMany(1) }, 2, 0},
				"entries were purged":  {func(w *auditWorld) { w.writeMany(2); w.purge(11) }, 1, 1},
				"the log was restored": {func(w *auditWorld) { w.restore(w.log[:5]); w.writeMany(1) }, 1, 1},
				"the log began again":  {func(w *auditWorld) { w.replace(nil, 1); w.writeMany(12) }, 12, 1},
				"a sweep":              {func(w *auditWorld) { w.clock += w.options.ReconcileEvery.Milliseconds() }, 0, 0},
				"the newest were lost": {func(w *auditWorld) { w.restore(w.log[:9]) }, 0, 1},
			} {
				t.Run(fmt.Sprintf("%s, seconds %t, oldest first %t", name, seconds, oldestFirst), func(t *testing.T) {
					w := newWholeLog(t, oldestFirst, 8)
					w.extended, w.seconds = true, !seconds
					w.writeMany(4)
					w.clock += 994 // the next but one begins a second
					w.writeMany(3)
					w.hold()
					w.writeMany(4)
					w.mustPoll()
					w.seconds = seconds
					c.change(w)
					for range 10 {
						w.mustPoll()
					}
					w.restartSource()
					w.mustPoll()
					assert.Equal(t, len(w.events), 10+c.want, "events")
					assert.Equal(t, len(w.gaps), c.gaps, "gaps")
					w.judgeQuiet()
				})
			}
		}
	}
}

func TestAnEntryIsRepeatedWithItsIDAfterTheTimesChangedTheirPrecision(t *testing.T) {
	for _, seconds := range []bool{false, true} {
		w := newWholeLog(t, false, 8)
		w.extended, w.seconds = true, !seconds
		w.writeMany(20)
		w.mustPoll()
		w.seconds = seconds
		w.rewind(0)
		w.mustPoll()
		for i, event := range w.events[:20] {
			require.True(t, len(w.events) == 40 && w.events[20+i].ID == event.ID, len(w.events), "events; the first", event.ID, "the last", w.events)
		}
	}
}

// olderAuditState is the state of an audit log of three entries, which start at the model's
// clock, as versions wrote it that identified entries by a digest of their content.
func olderAuditState(s *memory, oldestFirst bool) {
	s.position = []byte(`{"last":{"id":3,"time":1750000000021,"sum":"4c6bc9baf13916d75d1257fdd0096b36"},"count":3,"start":0,"url":"https://sensor.example"}`)
	if oldestFirst {
		s.position = bytes.Replace(s.position, []byte(`"count"`), []byte(`"offset":2,"count"`), 1)
	}
	for i, key := range []string{
		"1-4ba931fa42b89c28dc8a7e085a8dc5f9", "2-6817aeafd23c167a8598b47e1449a00d", "3-4c6bc9baf13916d75d1257fdd0096b36",
	} {
		s.known[key] = checkpoint.Entry{Key: key, Value: []byte{1}, At: int64(i + 1)}
	}
}

func TestAnOlderStateOfAnAuditLogIsContinued(t *testing.T) {
	for _, oldestFirst := range []bool{false, true} {
		for name, c := range map[string]struct {
			change func(w *auditWorld)
			want   string
		}{
			"nothing happened":            {func(*auditWorld) {}, ""},
			"entries were written":        {func(w *auditWorld) { w.writeMany(9) }, "4 5 6 7 8 9 10 11 12"},
			"fields were added":           {func(w *auditWorld) { w.added = func(int) string { return `,"severity":5` } }, ""},
			"entries were purged":         {func(w *auditWorld) { w.writeMany(3); w.purge(4) }, "5 6 purged:3-5:1"},
			"the log was restored":        {func(w *auditWorld) { w.mustPoll(); w.restore(w.log[:2]); w.writeMany(1) }, "3 restarted:3-3:0"},
			"the position was moved back": {func(w *auditWorld) { w.rewind(w.log[1].time) }, "2 3"},
			"the log began again":         {func(w *auditWorld) { w.replace(nil, 1); w.writeMany(5) }, "1 2 3 4 5 restarted:3-1:0"},
		} {
			t.Run(fmt.Sprintf("%s, oldest first %t", name, oldestFirst), func(t *testing.T) {
				w := newAuditWorld(t)
				w.oldestFirst, w.extended = oldestFirst, true
				w.writeMany(3)
				olderAuditState(w.state, oldestFirst)
				w.contacted, w.last = true, w.log[2]
				for _, e := range w.log {
					w.delivered[e] = 1
				}
				c.change(w)
				for range 3 {
					w.mustPoll()
				}
				assert.Equal(t, w.arrived(), c.want, "arrived")
				v, err := poller.VerifyAudit(t.Context(), w.auditModel, w.state, w.options, time.UnixMilli(1), poller.VerifyReport{
					Progress: func(string, int, time.Time) {},
					Found:    func(d poller.Difference) { t.Errorf("verification found %+v", d) },
				})
				assert.True(t, err == nil && v.Same == len(w.log), "verified", v, err, len(w.log), "entries")
				w.judgeQuiet()
			})
		}
	}
}

func TestTheSweepFindsWhatBecameVisibleBeforeTheOverlap(t *testing.T) {
	inBothOrders(t, func(t *testing.T, oldestFirst bool) {
		w := newAuditWorld(t)
		registry := prometheus.NewRegistry()
		w.options.Metrics = poller.NewMetrics(registry)
		w.oldestFirst = oldestFirst
		w.options.Start = fromTheBeginning
		w.restartSource()
		w.writeMany(1)
		tooEarly := w.hold()
		w.writeMany(20)
		w.clock += w.options.ReconcileBack.Milliseconds()
		w.writeMany(20)
		late := w.hold()
		w.writeMany(100)
		w.mustPoll()
		w.reveal(tooEarly, true)
		w.reveal(late, true)
		w.mustPoll()
		require.Equal(t, len(w.events), 139, "events before the sweep")
		w.clock += w.options.ReconcileEvery.Milliseconds()
		polls, requests := 0, w.requests
		for next := poller.Soon; next != poller.Idle; polls++ {
			before := w.requests
			var err error
			next, err = w.source.Poll(t.Context())
			require.NoError(t, err)
			got := w.requests - before
			assert.True(t, got <= 4, "a poll of the sweep made", got, "requests")
		}
		assert.True(t, len(w.events) == 140 && w.delivered[late] == 1 && len(w.gaps) == 0, len(w.events), w.delivered, w.gaps)
		assert.True(t, polls >= 10, "the sweep took", polls, "polls")
		assert.True(t, w.requests-requests <= 4*polls, "the sweep took", w.requests-requests, "requests")
		assert.Equal(t, gathered(t, registry, "ndrbridge_source_reconciled_total"), 1, "found")
		w.judgeQuiet()
	})
}

func (w *auditWorld) rewind(to int64) {
	w.Helper()
	w.rewound = true
	if err := poller.Rewind(context.Background(), w.state, w.source.Source(), time.UnixMilli(to)); err != nil {
		w.Fatalf("rewind: %v", err)
	}
}
