package poller_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

var fromTheBeginning = func(time.Time) time.Time { return time.Time{} }

// arrived lists the ids of the entries that arrived, and the contents of gaps.
func (w *auditWorld) arrived() string {
	var all []string
	for _, e := range w.events {
		all = append(all, e.Subject)
	}
	for _, g := range w.gaps {
		all = append(all, fmt.Sprintf("%s:%d-%d:%d", g.Reason, g.Last.ID, g.First.ID, g.Missing))
	}
	return strings.Join(all, " ")
}

func TestAuditLog(t *testing.T) {
	spoil := func(huge, unreadable bool) func(*logEntry) {
		return func(e *logEntry) { e.huge, e.unreadable = huge, unreadable }
	}
	for name, c := range map[string]struct {
		start func(time.Time) time.Time // nil: now
		there int                       // entries before the first poll
		then  func(w *auditWorld)       // after the first poll
		want  string
		dead  string // the class of the one dead letter
	}{
		"now means after the newest entry":                     {nil, 3, func(w *auditWorld) { w.writeMany(2) }, "4 5", ""},
		"now in an empty log means all":                        {nil, 0, func(w *auditWorld) { w.writeMany(2) }, "1 2", ""},
		"a time to come means now":                             {func(now time.Time) time.Time { return now.Add(time.Hour) }, 3, func(w *auditWorld) { w.writeMany(1) }, "4", ""},
		"the beginning means all":                              {fromTheBeginning, 3, func(w *auditWorld) { w.writeMany(1) }, "1 2 3 4", ""},
		"a time passes over what is older":                     {func(time.Time) time.Time { return time.UnixMilli(1_750_000_000_000 + 15) }, 200, func(w *auditWorld) { w.writeMany(1) }, "from 3 to 201", ""},
		"a clock that goes back hides nothing":                 {nil, 3, func(w *auditWorld) { w.clock -= 3600_000; w.writeMany(2) }, "4 5", ""},
		"a log of one entry":                                   {fromTheBeginning, 1, func(w *auditWorld) { w.writeMany(1) }, "1 2", ""},
		"a long log is read in order":                          {fromTheBeginning, 300, func(w *auditWorld) { w.writeMany(100) }, "from 1 to 400", ""},
		"an emptied log reports nothing":                       {fromTheBeginning, 3, func(w *auditWorld) { w.purge(3) }, "1 2 3", ""},
		"holes in ids are no gap":                              {fromTheBeginning, 2, func(w *auditWorld) { w.nextID += 5; w.writeMany(2) }, "1 2 8 9", ""},
		"entries purged unread are reported":                   {fromTheBeginning, 2, func(w *auditWorld) { w.writeMany(9); w.purge(5) }, "1 2 6 7 8 9 10 11 purged:2-6:3", ""},
		"entries purged after they were read are not a gap":    {fromTheBeginning, 4, func(w *auditWorld) { w.purge(4); w.writeMany(2) }, "1 2 3 4 5 6", ""},
		"a restarted log is reported":                          {fromTheBeginning, 9, func(w *auditWorld) { w.replace(nil, 1); w.writeMany(3) }, "1 2 3 4 5 6 7 8 9 1 2 3 restarted:9-1:0", ""},
		"a restarted log that has outgrown the old one":        {fromTheBeginning, 3, func(w *auditWorld) { w.replace(nil, 1); w.writeMany(6) }, "1 2 3 1 2 3 4 5 6 restarted:3-1:0", ""},
		"a restarted log with higher ids":                      {fromTheBeginning, 2, func(w *auditWorld) { w.replace(nil, 7); w.writeMany(2) }, "1 2 7 8 purged:2-7:4", ""},
		"a restored log is reported, and its new entries read": {fromTheBeginning, 5, func(w *auditWorld) { w.restore(w.log[:2]); w.writeMany(2) }, "1 2 3 4 5 3 4 restarted:5-3:0", ""},
		"a restored log without new entries is reported":       {fromTheBeginning, 5, func(w *auditWorld) { w.restore(w.log[:2]) }, "1 2 3 4 5 restarted:5-2:0", ""},
		"entries before start stay skipped after a restore":    {nil, 5, func(w *auditWorld) { w.clock += 5000; w.restore(w.log[:2]); w.writeMany(1) }, "3 restarted:5-3:0", ""},
		"an entry too large is a dead letter":                  {fromTheBeginning, 2, func(w *auditWorld) { w.write(`{}`, spoil(true, false)); w.writeMany(2) }, "1 2 4 5", "too_large"},
		"an entry without an id is a dead letter":              {fromTheBeginning, 2, func(w *auditWorld) { w.write(`{}`, spoil(false, true)); w.writeMany(2) }, "1 2 4 5", "invalid"},
		"a page of entries without ids hides no others": {fromTheBeginning, 0, func(w *auditWorld) {
			for range 9 {
				w.write(`{}`, spoil(false, true))
			}
			w.writeMany(3)
		}, "10 11 12", strings.Repeat("invalid", 9)},
		"a log that reverses its order is continued": {fromTheBeginning, 5, func(w *auditWorld) { w.oldestFirst = !w.oldestFirst; w.writeMany(2) }, "1 2 3 4 5 6 7", ""},
	} {
		for _, oldestFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, oldest first %t", name, oldestFirst), func(t *testing.T) {
				w := newAuditWorld(t)
				w.oldestFirst = oldestFirst
				w.writeMany(c.there)
				w.clock += 2000 // the appliance returns whole seconds
				if c.start != nil {
					w.options.Start = c.start
				}
				w.restartSource()
				w.mustPoll()
				c.then(w)
				w.mustPoll()
				w.restartSource()
				w.mustPoll()
				w.mustPoll() // it may have reversed its order
				w.judge()
				w.judgeQuiet()
				want := c.want
				if from, to, ok := strings.Cut(strings.TrimPrefix(want, "from "), " to "); ok {
					first, _ := strconv.Atoi(from)
					last, _ := strconv.Atoi(to)
					want = from
					for id := first + 1; id <= last; id++ {
						want += " " + strconv.Itoa(id)
					}
				}
				assert.Equal(t, w.arrived(), want, "arrived")
				dead := ""
				for _, d := range w.state.dead {
					dead += d.Class
				}
				assert.Equal(t, dead, c.dead, "dead letters")
			})
		}
	}
}

func TestAFullAuditLogThatShiftsAtEveryRequestIsReadWithoutLoss(t *testing.T) {
	for _, oldestFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("oldest first %t", oldestFirst), func(t *testing.T) {
			w := newAuditWorld(t)
			w.options.PageSize = 20
			w.options.Start = fromTheBeginning
			w.oldestFirst, w.capacity = oldestFirst, 100
			w.writeMany(100)
			w.restartSource()
			shifts := 0
			w.between = func() {
				if shifts++; shifts < 200 {
					w.writeMany(1)
				}
			}
			for range 30 {
				w.mustPoll()
			}
			shifts = 1000
			w.mustPoll()
			w.judge()
			assert.Empty(t, w.gaps, "gaps")
		})
	}
}

func TestAGapIsCounted(t *testing.T) {
	w := newAuditWorld(t)
	registry := prometheus.NewRegistry()
	w.options.Metrics = poller.NewMetrics(registry)
	w.restartSource()
	w.writeMany(3)
	w.mustPoll()
	w.writeMany(5)
	w.purge(5)
	w.mustPoll()
	families := require.Value(registry.Gather())(t)
	for _, f := range families {
		if f.GetName() == "ndrbridge_source_gaps_total" && f.GetMetric()[0].GetCounter().GetValue() == 1 {
			return
		}
	}
	t.Errorf("it is not among %v", families)
}

func TestIDsThatNeitherRiseNorFallAreAnError(t *testing.T) {
	w := newAuditWorld(t)
	w.writeMany(8)
	for i := range 3 {
		w.log[i], w.log[7-i] = w.log[7-i], w.log[i]
	}
	w.log[0], w.log[1], w.log[4], w.log[5] = w.log[4], w.log[5], w.log[0], w.log[1]
	assert.ErrorContains(t, w.poll(), "not sorted")
	assert.True(t, w.state.position == nil, "the position", string(w.state.position))
}

func TestAnOrderThatTurnsRoundAllTheTimeIsAnError(t *testing.T) {
	w := newAuditWorld(t)
	w.writeMany(30)
	w.mustPoll()
	w.writeMany(20)
	w.between = func() { w.oldestFirst = !w.oldestFirst }
	assert.ErrorContains(t, w.poll(), "joined safely")
	w.between = func() {}
	w.mustPoll()
	w.judge()
	if len(w.gaps) > 0 || len(w.events) != 20 {
		t.Errorf("arrived %s", w.arrived())
	}
}

func TestAuditEntriesAreRememberedAHundredThousandLong(t *testing.T) {
	w := newAuditWorld(t)
	w.options.Start = fromTheBeginning
	w.restartSource()
	w.writeMany(20)
	w.mustPoll()
	for _, c := range []struct{ count, remembered int }{{20, 21}, {99_999, 22}, {100_010, 23 - 10}} {
		// The position is that of a log with so many entries.
		var p map[string]any
		require.NoError(t, json.Unmarshal(w.state.position, &p))
		p["count"] = c.count
		w.state.position, _ = json.Marshal(p)
		w.writeMany(1)
		w.mustPoll()
		assert.Equal(t, len(w.state.known), c.remembered, "entries that are remembered after", c.count+1)
	}
}

func TestAFirstContactWithEntriesThatAreTooLarge(t *testing.T) {
	w := newAuditWorld(t)
	for range 2 {
		w.write(`{}`, func(e *logEntry) { e.huge = true })
	}
	w.mustPoll()
	w.writeMany(1)
	w.mustPoll()
	if got := w.arrived(); got != "3" || w.start != w.clock/1000*1000 || len(w.state.dead) > 0 {
		t.Errorf("arrived %s, start %d, dead letters %v", got, w.start, w.state.dead)
	}
}

func TestARewoundAuditLogIsDeliveredAgain(t *testing.T) {
	rewind := (*auditWorld).rewind
	for _, oldestFirst := range []bool{false, true} {
		newRead := func(t *testing.T) *auditWorld {
			w := newAuditWorld(t)
			w.oldestFirst = oldestFirst
			w.writeMany(30)
			w.options.Start = fromTheBeginning
			w.restartSource()
			w.mustPoll()
			w.events = nil
			return w
		}
		name := fmt.Sprintf(", oldest first %t", oldestFirst)
		t.Run("new entries are delivered first, and then again those since the requested time"+name, func(t *testing.T) {
			w := newRead(t)
			ids := make(map[int64]string)
			for _, e := range w.log {
				ids[e.id] = fmt.Sprintf("%d-%d", e.id, e.time)
			}
			rewind(w, w.log[27].time)
			w.writeMany(2)
			w.mustPoll()
			w.mustPoll()
			assert.Equal(t, w.arrived(), "31 32 28 29 30 31 32", "arrived")
			assert.Equal(t, w.events[2].ID, ids[28], "the id", "and was")
			w.rewound = false
			w.judge()
		})
		t.Run("entries before the start are delivered too"+name, func(t *testing.T) {
			w := newAuditWorld(t)
			w.oldestFirst = oldestFirst
			w.writeMany(20)
			w.mustPoll()
			rewind(w, 0)
			w.mustPoll()
			if len(w.events) != 20 {
				t.Errorf("arrived %s", w.arrived())
			}
		})
		t.Run("the time of the newest entry includes it, a later one nothing"+name, func(t *testing.T) {
			w := newRead(t)
			rewind(w, w.log[29].time)
			w.mustPoll()
			assert.Equal(t, w.arrived(), "30", "arrived")
			w.events = nil
			rewind(w, w.log[29].time+1)
			w.mustPoll()
			if len(w.events) > 0 {
				t.Errorf("arrived %s", w.arrived())
			}
		})
		t.Run("a time that lies ahead changes nothing"+name, func(t *testing.T) {
			w := newRead(t)
			rewind(w, w.clock+1)
			w.mustPoll()
			if len(w.events) > 0 {
				t.Errorf("arrived %s", w.arrived())
			}
		})
		t.Run("a log that was emptied has nothing to deliver again"+name, func(t *testing.T) {
			w := newRead(t)
			rewind(w, 0)
			w.purge(30)
			w.mustPoll()
			w.writeMany(1)
			w.mustPoll()
			assert.Equal(t, w.arrived(), "31", "arrived")
		})
		t.Run("a log that is restored meanwhile is read to its end"+name, func(t *testing.T) {
			for at := range 12 { // before each of the requests
				w := newRead(t)
				rewind(w, 0)
				requests := w.requests
				w.between = func() {
					if w.requests-requests == at+1 {
						w.restore(w.log[:29])
					}
				}
				w.mustPoll()
				w.between = func() {}
				w.writeMany(1)
				w.mustPoll()
				newest := strconv.FormatInt(w.newest.id, 10)
				if len(w.events) < 29 || w.events[len(w.events)-1].Subject != newest {
					t.Errorf("arrived %s", w.arrived())
				}
			}
		})
		t.Run("the earlier of two times counts, and dead letters come again"+name, func(t *testing.T) {
			w := newRead(t)
			w.write(`{}`, func(e *logEntry) { e.huge = true })
			w.mustPoll()
			clear(w.state.dead)
			rewind(w, w.log[27].time)
			rewind(w, w.log[29].time)
			w.mustPoll()
			if got := w.arrived(); got != "28 29 30" || len(w.state.dead) != 1 {
				t.Errorf("arrived %s, dead letters %v", got, w.state.dead)
			}
		})
		t.Run("a crash repeats nothing that was committed"+name, func(t *testing.T) {
			w := newRead(t)
			rewind(w, 0)
			polls := 0
			for ; polls == 0 || len(w.events) < 30 && polls < 100; polls++ {
				commits := w.state.commits
				w.state.fail = func() (failed, written bool) { return w.state.commits > commits, false }
				_ = w.poll()
				w.restartSource()
			}
			w.state.fail = func() (bool, bool) { return false, false }
			w.mustPoll()
			var ids []string
			for id := 1; id <= 30; id++ {
				ids = append(ids, strconv.Itoa(id))
			}
			got := w.arrived()
			assert.True(t, got == strings.Join(ids, " ") && polls >= 3, "arrived", got, polls, "polls")
		})
		t.Run("a running source continues from the new position, without an error"+name, func(t *testing.T) {
			w := newRead(t)
			w.writeMany(1)
			w.between = func() {
				w.between = func() {}
				rewind(w, 0)
			}
			w.mustPoll()
			w.mustPoll()
			if len(w.events) != 32 {
				t.Errorf("arrived %s", w.arrived())
			}
		})
	}
}

// TestTheAuditLogOfAServer reads one through the client that the bridge uses.
func TestTheAuditLogOfAServer(t *testing.T) {
	var log []string // newest first
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit, _ := strconv.Atoi(r.FormValue("limit"))
		offset, _ := strconv.Atoi(r.FormValue("offset"))
		if r.URL.Path != "/api/v1/auditlog" {
			// The appliance's time is verified by asking for its version, which a key may
			// not be allowed to.
			http.NotFound(w, r)
			return
		}
		rows := log[min(offset, len(log)):]
		rows = rows[:min(limit, len(rows))]
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, "[%s]", strings.Join(rows, ","))
	}))
	t.Cleanup(server.Close)
	client, err := appliance.New(appliance.Options{URL: server.URL, Key: func() (string, error) { return "key", nil }, MaxAnswer: 4 << 10})
	require.NoError(t, err)
	t.Cleanup(client.Close)

	write := func(id int, details string) {
		entry := fmt.Sprintf(`{"body":{"operation":"Login","user":"setup","details":%q},"id":%d,"occur_time":%d,"time":%d}`,
			details, id, 1_710_000_000_000+id, 1_710_000_000_100+id)
		log = slices.Insert(log, 0, entry)
	}
	for id := range 20 {
		write(id+1, "by console")
	}
	var events []transform.Event
	state := newMemory(func(c checkpoint.Commit) { events = append(events, c.Events...) })
	options := newAuditWorld(t).options
	options.Start = fromTheBeginning
	source := poller.NewAudit(client, state, options)
	poll := func() {
		t.Helper()
		require.Value(source.Poll(t.Context()))(t)
	}
	poll()
	write(21, strings.Repeat("x", 10<<10))
	write(22, "behind it")
	poll()
	poll()

	require.Equal(t, len(events), 21, "events")
	if e := events[20]; e.ID != "22-1710000000122" || e.Source != "ndrbridge://hq/audit" || e.Type != "io.ndrbridge.audit.logged" || e.Time.UnixMilli() != 1_710_000_000_022 {
		t.Errorf("event %s", e.Structured())
	}
	var data struct{ Audit json.RawMessage }
	if err := json.Unmarshal(events[20].Data(), &data); err != nil || string(data.Audit) != log[0] {
		t.Errorf("data %s, the entry is %s", events[20].Data(), log[0])
	}
	require.Equal(t, len(state.dead), 1, "dead letters", state.dead)
	for _, d := range state.dead {
		assert.Equal(t, d.Class, "too_large", "dead letter", d)
		assert.Contains(t, d.Reason, "larger than allowed", "dead letter", d)
	}
}
