package poller_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// auditModel is the audit log of an appliance, which changes before every request. Its
// times are milliseconds.
type auditModel struct {
	between func()

	clock       int64
	log         []*logEntry // oldest first
	newest      *logEntry   // it may be purged
	nextID      int64
	written     int                  // entries ever
	entries     map[string]*logEntry // those with an id, by id of their event
	purges      bool                 // something was purged
	held        []*logEntry          // not visible yet
	mixed       bool                 // entries may come in the other order of ids
	changes     int                  // how often another log replaced this one
	oldestFirst bool
	capacity    int // 0: none
	maxRows     int // the server's cap; 0: none
	refuseOver  int // a limit above it is refused; 0: none
	failing     bool
	singly      bool // the request is for one entry
	requests    int
	spaced      bool                    // the answer is written in another way
	added       func(answer int) string // what every entry of an answer has besides; nil: nothing
	extended    bool                    // it had something besides before
	seconds     bool                    // times are shown in whole seconds
}

type logEntry struct {
	id, time         int64
	raw              string
	huge, unreadable bool
	fail             error // what answers with it end with
	skims            bool  // its id can be read all the same
	purged           bool
	parent           *logEntry // the entry before it when it was written
	late             bool      // it became visible after entries with higher ids
	swapped          bool      // its neighbour has changed places with it
}

func newAuditModel() *auditModel {
	return &auditModel{between: func() {}, clock: 1_750_000_000_000, nextID: 1, entries: make(map[string]*logEntry)}
}

// write adds an entry; spoil may make it an odd one.
func (m *auditModel) write(body string, spoil func(*logEntry)) *logEntry {
	m.clock += 7 // no two have the same time
	m.written++
	e := &logEntry{id: m.nextID, time: m.clock, parent: m.newest}
	m.nextID++
	m.newest = e
	spoil(e)
	id := fmt.Sprint(e.id)
	m.entries[fmt.Sprintf("%d-%d", e.id, e.time/1000*1000)] = e
	if m.entries[fmt.Sprintf("%d-%d", e.id, e.time)] = e; e.unreadable {
		id = fmt.Sprintf(`"entry %d"`, m.written)
	}
	e.raw = fmt.Sprintf(`{"id":%s,"occur_time":%d,"time":%d,"body":%s}`, id, e.time-3, e.time, body)
	m.log = append(m.log, e)
	if m.capacity > 0 && len(m.log) > m.capacity {
		m.purge(len(m.log) - m.capacity)
	}
	return e
}

func (m *auditModel) writeMany(n int) {
	for range n {
		m.write(`{"operation":"Login","user":"setup"}`, func(*logEntry) {})
	}
}

func (m *auditModel) purge(n int) {
	n = min(n, len(m.log))
	for _, e := range m.log[:n] {
		e.purged, m.purges = true, true
	}
	m.log = m.log[n:]
}

// hold takes the newest entry out of the log: it becomes visible later.
func (m *auditModel) hold() *logEntry {
	e := m.log[len(m.log)-1]
	e.late = true
	m.log = m.log[:len(m.log)-1]
	m.held = append(m.held, e)
	return e
}

// reveal shows an entry that was held, in its place or after the next one. It does nothing if
// the log begins after it: it would have been purged. Only neighbours come in the other order
// of ids: an entry with a higher one before its place is enough.
func (m *auditModel) reveal(e *logEntry, inPlace bool) {
	m.held = slices.DeleteFunc(m.held, func(h *logEntry) bool { return h == e })
	if m.purges && !slices.ContainsFunc(m.log, func(x *logEntry) bool { return x.id < e.id }) {
		return
	}
	at := len(m.log)
	for at > 0 && m.log[at-1].id > e.id {
		at--
	}
	inPlace = inPlace || slices.ContainsFunc(m.log[:at], func(x *logEntry) bool { return x.id > e.id })
	m.log = slices.Insert(slices.Clone(m.log), at, e)
	if !inPlace && at+1 < len(m.log) {
		m.swap(at)
	}
}

// swap lets two neighbours change places.
func (m *auditModel) swap(at int) {
	a, b := m.log[at], m.log[at+1]
	if !a.swapped && !b.swapped {
		a.swapped, b.swapped = true, true
		m.log = slices.Clone(m.log)
		m.log[at], m.log[at+1] = b, a
	}
}

// replace replaces this log with another one, which takes longer than a second.
func (m *auditModel) replace(log []*logEntry, nextID int64) {
	m.held = nil
	m.clock += 1000
	m.log, m.nextID, m.newest = slices.Clone(log), nextID, nil
	if len(log) > 0 {
		m.newest = log[len(log)-1]
	}
	m.changes++
}

// restore goes back to an older state of the log.
func (m *auditModel) restore(log []*logEntry) {
	next := int64(1)
	for _, e := range log {
		next = e.id + 1
	}
	m.replace(log, next)
}

func (m *auditModel) rows(limit, offset int) []*logEntry {
	rows := slices.Clone(m.log)
	if !m.oldestFirst {
		slices.Reverse(rows)
	}
	rows = rows[min(offset, len(rows)):]
	if m.maxRows > 0 && limit > 1 {
		limit = min(limit, m.maxRows)
	}
	return rows[:min(limit, len(rows))]
}

func (m *auditModel) asked() error {
	m.requests++
	m.between()
	if m.failing {
		return &appliance.Error{Err: errDown}
	}
	return nil
}

func (m *auditModel) AuditLog(_ context.Context, limit, offset int, page *appliance.Page) error {
	*page = appliance.Page{}
	m.singly = limit == 1
	if err := m.asked(); err != nil {
		return err
	}
	if m.refuseOver > 0 && limit > m.refuseOver {
		return &appliance.Error{Status: http.StatusUnprocessableEntity}
	}
	m.spaced = !m.spaced
	for _, e := range m.rows(limit, offset) {
		if e.huge {
			*page = appliance.Page{}
			return &appliance.Error{Status: http.StatusOK, Err: appliance.ErrTooLarge}
		}
		if e.fail != nil {
			*page = appliance.Page{}
			return e.fail
		}
		raw := []byte(e.raw)
		if m.spaced {
			raw = fmt.Appendf(nil, "{ %s", raw[1:])
		}
		if m.seconds {
			raw = bytes.ReplaceAll(raw, fmt.Appendf(nil, `"time":%d`, e.time), fmt.Appendf(nil, `"time":%d`, e.time/1000))
		}
		if m.added != nil {
			raw = fmt.Appendf(nil, "%s%s}", raw[:len(raw)-1], m.added(m.requests))
		}
		page.Objects = append(page.Objects, appliance.Object{Raw: raw})
	}
	page.Date = time.UnixMilli(m.clock).Truncate(time.Second)
	return nil
}

func (m *auditModel) AuditEntry(_ context.Context, offset int) (id, logged int64, found bool, err error) {
	m.singly = true
	if err := m.asked(); err != nil {
		return 0, 0, false, err
	}
	rows := m.rows(1, offset)
	if len(rows) == 0 {
		return 0, 0, false, nil
	}
	if rows[0].fail != nil && !rows[0].skims {
		return 0, 0, false, rows[0].fail
	}
	if !rows[0].unreadable {
		id = rows[0].id
	}
	logged = rows[0].time
	if m.seconds {
		logged = logged / 1000 * 1000
	}
	return id, logged, true, nil
}

// auditWorld is a log, a state, and the source between them.
type auditWorld struct {
	tb
	*auditModel
	state   *memory
	options poller.AuditOptions
	source  *poller.Audit
	events  []transform.Event // of entries
	gaps    []auditGap

	delivered map[*logEntry]int
	contacted bool
	start     int64
	floor     int64              // the position's
	skipped   map[*logEntry]bool // were there when `now` was resolved
	last      *logEntry          // position.last
	began     int                // changes when the current poll began
	lastBegan int                // the same of the poll that committed last
	rewound   bool               // entries may come again
}

type auditGap struct {
	Reason      string
	Last, First transform.AuditPosition
	Missing     int64
}

func newAuditWorld(t tb) *auditWorld {
	w := &auditWorld{
		tb: t, auditModel: newAuditModel(),
		delivered: make(map[*logEntry]int), skipped: make(map[*logEntry]bool),
	}
	w.state = newMemory(w.journal)
	w.options = poller.AuditOptions{
		StreamOptions: poller.StreamOptions{
			Appliance: "hq", URL: "https://sensor.example",
			Start:    func(now time.Time) time.Time { return now },
			PageSize: 8,
			Now:      func() time.Time { return time.UnixMilli(1_700_000_000_000) },
			Log:      slog.New(slog.DiscardHandler),
			Metrics:  poller.NewMetrics(prometheus.NewRegistry()),
		},
		ReconcileEvery: 6 * time.Hour, ReconcileBack: 72 * time.Hour,
	}
	w.restartSource()
	return w
}

func (w *auditWorld) restartSource() {
	w.source = poller.NewAudit(w.auditModel, w.state, w.options)
}

func (w *auditWorld) poll() error {
	w.began = w.changes
	_, err := w.source.Poll(context.Background())
	return err
}

func (w *auditWorld) mustPoll() {
	w.Helper()
	if err := w.poll(); err != nil {
		w.Fatalf("poll: %v", err)
	}
}

// journal checks the invariants of every commit: each event follows that of the entry
// before its own, or a gap is reported between them.
func (w *auditWorld) journal(c checkpoint.Commit) {
	var p struct {
		Last  *transform.AuditPosition
		Start int64
		Floor int64
	}
	if err := json.Unmarshal(c.Position, &p); err != nil {
		w.Fatalf("position %s: %v", c.Position, err)
	}
	if len(c.Events) > w.options.PageSize+1 {
		w.Errorf("%d events were committed at once, and a page has %d entries", len(c.Events), w.options.PageSize)
	}
	if !w.contacted {
		w.contacted, w.start = true, p.Start
		if p.Last != nil {
			w.skipped[w.entries[fmt.Sprintf("%d-%d", p.Last.ID, p.Last.Time)]] = true // it may be purged already
			for _, e := range w.log {
				w.skipped[e] = true
			}
			for _, e := range w.held {
				w.skipped[e] = e.id <= p.Floor
			}
		}
	}
	dead := make(map[string]bool)
	for _, d := range c.Dead {
		dead[d.Key] = true
	}
	// What a backup shows again that was purged unread is delivered like a late entry if the
	// same page shows a committed one after it: before the gap that the page reports.
	gapped := slices.ContainsFunc(c.Events, func(e transform.Event) bool { return e.Type == "io.ndrbridge.audit.gap" })
	w.floor = p.Floor
	before, reported := w.last, false
	for _, event := range c.Events {
		if event.Type == "io.ndrbridge.audit.gap" {
			reported = true
			w.gap(event)
			continue
		}
		e := w.entries[event.ID]
		if e == nil {
			w.Fatalf("event %s is of no entry", event.ID)
		}
		var data struct{ Audit json.RawMessage }
		if err := json.Unmarshal(event.Data(), &data); err != nil || !w.extended && compactJSON(data.Audit) != compactJSON([]byte(e.raw)) {
			w.Errorf("event %s holds %s, and the entry was %s", event.ID, event.Data(), e.raw)
		}
		if w.delivered[e]++; w.delivered[e] > 1 && !w.rewound {
			w.Errorf("event %s came twice", event.ID)
		}
		w.events = append(w.events, event)
		open := p.Last != nil && p.Last.ID < e.id // the gap before it is still to be reported
		if !reported && !w.rewound && !open && !(gapped && e.purged) && !w.follows(e, before) {
			w.Errorf("event %s follows %v, and an entry is missing between them", event.ID, before)
		}
		before, reported = e, false
	}
	if p.Last != nil {
		last := w.entries[fmt.Sprintf("%d-%d", p.Last.ID, p.Last.Time)]
		switch {
		case last == nil:
			w.Fatalf("the position %s is of no entry", c.Position)
		case w.delivered[last] == 0 && !w.skipped[last] && last.time >= w.start && !last.huge && !last.skims:
			w.Errorf("the position %s is ahead of its event: %+v %d events %d dead", c.Position, last, len(c.Events), len(c.Dead))
		}
		if last != w.last {
			w.last, w.lastBegan = last, w.began
		}
	}
}

func compactJSON(b []byte) string {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return string(b)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// follows reports whether nothing that had to be delivered lies between two entries,
// as far as the log still showed it.
func (w *auditWorld) follows(e, before *logEntry) bool {
	for x := e; x != nil; x = x.parent {
		switch {
		case x == before, before == nil && !slices.Contains(w.log, x):
			return true
		case before != nil && x.id == before.id+1:
			// A log that was restarted right after the last entry read cannot be
			// distinguished from it.
			return true
		case e.late, e.swapped, x != e && w.delivered[x] > 0:
			return true
		case w.changes > 0 && before != nil && (e.id < before.id || e.time < before.time):
			return true // a backup shows again what was purged unread
		case x == e, x.late, w.skipped[x], x.unreadable, x.huge, x.swapped, x.time < w.start:
		default:
			return false
		}
	}
	return before == nil
}

// gap checks that a gap is reported only if there can be one.
func (w *auditWorld) gap(event transform.Event) {
	var data struct{ Gap auditGap }
	if err := json.Unmarshal(event.Data(), &data); err != nil {
		w.Fatalf("%s: %v", event.Data(), err)
	}
	g := data.Gap
	w.gaps = append(w.gaps, g)
	switch {
	case w.last == nil || g.Last.ID != w.last.id || g.Last.Time/1000 != w.last.time/1000:
		w.Errorf("gap %+v does not begin at %v", g, w.last)
	case g.Reason == transform.GapRestarted && !(w.mixed && w.purges) && (w.changes == 0 || w.start == 0 && !w.purges && w.lastBegan == w.changes):
		// Entries before start, or purged unread, are unknown when a backup shows them
		// again before known ones: such a restart may be reported twice.
		w.Errorf("gap %+v, and the log did not begin again", g)
	case g.Reason == transform.GapPurged && (g.Missing < 1 || g.Missing != g.First.ID-g.Last.ID-1):
		w.Errorf("gap %+v miscounts", g)
	case g.Reason == transform.GapPurged && w.began == w.changes && slices.Contains(w.log, w.last):
		w.Errorf("gap %+v, and %v was still there", g, w.last)
	}
}

// judge checks a log that was read to its end.
func (w *auditWorld) judge() {
	w.Helper()
	var newest *logEntry
	for _, e := range w.log {
		if !e.unreadable && (newest == nil || e.id > newest.id) {
			newest = e
		}
		// Entries purged unread were reported then. The source does not check whether a
		// backup shows them again before those committed since.
		//
		// A log that begins again after the last entry read, because its first entries are not
		// visible yet, cannot be distinguished from the old one. If they have ids of entries
		// from before the stream began, they are not distinguished from those either: which
		// of them there were is not remembered, and no clock decides what is new.
		again := w.changes > 0 && e.late && e.id <= w.floor
		if !again && !e.huge && !e.unreadable && !e.skims && !e.purged && !w.skipped[e] && e.time >= w.start && w.delivered[e] == 0 {
			w.Errorf("entry %s never arrived", e.raw)
		}
	}
	if newest != nil && w.last != newest && !newest.swapped {
		w.Errorf("the position is at %v, and the newest entry is %v", w.last, newest)
	}
}

// judgeQuiet checks what polls of a log cost to which nothing happens.
func (w *auditWorld) judgeQuiet() {
	w.Helper()
	odd := func(e *logEntry) bool {
		return e.unreadable || e.huge || e.swapped && len(w.rows(w.options.PageSize, 0)) <= 2
	}
	for range 20 { // a sweep that is under way
		w.mustPoll()
	}
	requests, commits := w.requests, w.state.commits
	const polls = 5
	for range polls {
		w.mustPoll()
	}
	if got := w.requests - requests; got != polls && !slices.ContainsFunc(w.log, odd) {
		w.Errorf("%d polls of a quiet log cost %d requests", polls, got)
	}
	if w.state.commits != commits {
		w.Errorf("polls of a quiet log committed %d times", w.state.commits-commits)
	}
}

// change lets something happen to the log.
func (w *auditWorld) change(t *rapid.T, backups *[][]*logEntry) {
	spoil := func(e *logEntry) {
		if w.mixed {
			return
		}
		switch rapid.IntRange(0, 15).Draw(t, "odd") {
		case 0:
			e.huge = true
		case 1:
			e.unreadable = true
		}
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2}).Draw(t, "changes") {
		action := rapid.SampledFrom([]string{
			"write", "write", "write", "write", "burst", "hole", "purge", "purge", "backup", "restore", "truncate", "restart", "restart beyond",
			"cap", "fail", "capacity", "hold", "hold", "reveal", "reveal", "fields", "time",
		}).Draw(t, "action")
		// Nothing could be trusted while one log is replaced by another and that by
		// the first again, or another log begins while entries are read one by one.
		replaced := w.changes > w.began || w.singly || w.mixed // few entries do not show the order
		switch action {
		case "write":
			w.write(`{"operation":"`+rapid.StringMatching(`[a-zé ]{0,4}`).Draw(t, "operation")+`"}`, spoil)
		case "burst":
			for range rapid.IntRange(2, 20).Draw(t, "size") {
				w.write(rapid.SampledFrom([]string{`null`, `[1.10,{"b":1,"a":"x"}]`, `"text"`, `{}`}).Draw(t, "body"), spoil)
			}
		case "hole":
			w.nextID += rapid.Int64Range(1, 5).Draw(t, "size")
		case "purge":
			if n := rapid.SampledFrom([]int{1, 1, 2, 5, 20}).Draw(t, "n"); !w.mixed || len(w.log) > n+20 {
				w.purge(n)
			}
		case "backup":
			*backups = append(*backups, slices.Clone(w.log))
		case "restore":
			if len(*backups) > 0 && !replaced {
				w.restore(rapid.SampledFrom(*backups).Draw(t, "backup"))
			}
		case "truncate":
			if to := rapid.IntRange(0, len(w.log)).Draw(t, "to"); !replaced {
				w.restore(w.log[:to])
			}
		case "restart":
			if !replaced {
				w.replace(nil, 1)
			}
		case "restart beyond":
			if by := rapid.Int64Range(1, 20).Draw(t, "by"); !replaced {
				w.replace(nil, w.nextID+by)
			}
		case "cap":
			if w.mixed {
				continue
			}
			w.maxRows = rapid.SampledFrom([]int{0, 2, 3, 5}).Draw(t, "rows")
			w.refuseOver = rapid.SampledFrom([]int{0, 0, 2, 4}).Draw(t, "limit")
		case "fail":
			w.failing = true
		case "hold":
			w.write(`{}`, spoil)
			w.hold()
		case "reveal":
			if len(w.held) > 0 {
				w.reveal(rapid.SampledFrom(w.held).Draw(t, "entry"), !w.mixed || rapid.Bool().Draw(t, "in its place"))
			}
		case "fields":
			w.extended = true
			w.added = rapid.SampledFrom([]func(int) string{
				nil, func(int) string { return `,"severity":5` }, func(answer int) string { return fmt.Sprintf(`,"age":%d`, answer) },
			}).Draw(t, "fields")
		case "time":
			w.clock += w.options.ReconcileEvery.Milliseconds() / 2
		case "capacity":
			if w.capacity = rapid.SampledFrom([]int{0, 1, 5, 30}).Draw(t, "entries"); w.mixed {
				w.capacity = 0
			}
		}
	}
}

func TestNothingThatAnAuditLogShowsIsLostUnreportedOrInvented(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newAuditWorld(t)
		w.options.PageSize = rapid.IntRange(2, 9).Draw(t, "page size")
		w.oldestFirst = rapid.Bool().Draw(t, "oldest first")
		if w.mixed = rapid.Bool().Draw(t, "mixed"); w.mixed {
			w.options.PageSize += 4 // two or three entries in the wrong order show another order
		}
		switch rapid.IntRange(0, 2).Draw(t, "start") {
		case 0:
			w.options.Start = func(time.Time) time.Time { return time.Time{} }
		case 1:
			w.options.Start = func(now time.Time) time.Time { return now.Add(-50 * time.Millisecond) }
		}
		w.writeMany(rapid.IntRange(0, 30).Draw(t, "entries"))
		if w.mixed {
			w.writeMany(20)
		}
		w.options.ReconcileBack = 1000 * time.Hour
		w.restartSource()

		var backups [][]*logEntry
		w.state.fail = func() (failed, written bool) {
			switch rapid.IntRange(0, 19).Draw(t, "disk") {
			case 0:
				return true, false
			case 1:
				return true, true
			}
			return false, false
		}
		for range rapid.IntRange(3, 20).Draw(t, "polls") {
			switch rapid.IntRange(0, 9).Draw(t, "in front") {
			case 0:
				w.restartSource()
			case 1:
				// Pages of two entries do not show whether neighbours or the log have
				// changed their order.
				if !w.mixed {
					w.oldestFirst = !w.oldestFirst
				}
			case 2, 3, 4:
				if w.mixed && len(w.log) > 1 {
					w.swap(rapid.IntRange(0, len(w.log)-2).Draw(t, "swapped"))
				}
			}
			requests := w.requests
			w.between = func() {
				w.failing = false
				switch n := w.requests - requests; {
				case n > 1000:
					t.Fatalf("a poll does not end")
				case n < 40: // a log that changes for ever is read for ever
					w.change(t, &backups)
				}
			}
			_ = w.poll() // failures are retried
		}

		requests := w.requests
		w.between = func() {
			require.True(t, w.requests-requests <= 2000, "a poll of a log that keeps still does not end")
		}
		w.failing, w.refuseOver = false, 0
		w.state.fail = func() (bool, bool) { return false, false }
		w.writeMany(1)
		for len(w.held) > 0 {
			w.reveal(w.held[0], !w.mixed || rapid.Bool().Draw(t, "in its place"))
		}
		for range 31 { // it relies on the order for no longer
			requests = w.requests
			w.mustPoll()
		}
		w.clock += w.options.ReconcileEvery.Milliseconds()
		for idle := 0; idle < 2; { // a sweep that was under way, and then another
			requests = w.requests
			next, err := w.source.Poll(context.Background())
			require.NoError(t, err, "sweep")
			if next == poller.Idle {
				idle++
			}
		}
		w.judge()
		w.restartSource()
		w.mustPoll()
		w.mustPoll() // a log of two entries may have reversed its order
		w.judgeQuiet()
	})
}
