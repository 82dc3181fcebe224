package poller_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"ndrbridge/internal/appliance"
)

// recordModel is a minimal record store, which changes before every request.
type recordModel struct {
	// between is called before every request and may change anything.
	between func()

	clock    int64          // milliseconds
	rows     []*modelRecord // visible records
	gone     []*modelRecord // records that were visible
	requests int
	searches []appliance.RecordSearch
	cursored int // requests with a cursor

	failing    bool // every request fails
	err        error
	fromIncl   bool // how the bounds are read
	untilIncl  bool
	whole      bool // the bounds are compared with whole milliseconds
	thirdParty bool // no cursors
	snapshot   bool // a cursor shows what there was when it was made
	refuseTTL  bool // a search that asks for a cursor is refused
	shuffled   bool // ties come in another order each time
	firstCap   int  // the most rows of a search; 0: none
	noTotals   bool
	total      func(int) int // what is returned instead of the total
	maxOffset  int           // a higher one is refused; 0: none
	refuseOver int           // a limit above it is refused; 0: none
	maxRows    int           // an answer with more is too large; 0: none
	renew      bool          // each answer to a cursor has another one, and only that continues
	lose       bool          // the next cursor's answer is lost
	skip       int           // rows that each cursor passes over
	early      bool          // searches are terminated early, and show half
	earlyOver  int64         // those of a longer window are, in milliseconds; 0: none
	failOver   int64         // those of a longer window fail; 0: none
	lag        int64         // milliseconds by which the next answer's time is behind
	warnings   []string

	cursors map[string]*modelCursor
	lastID  int
}

// modelRecord is one record. Its timestamp is in microseconds.
type modelRecord struct {
	id   string
	at   int64
	raw  []byte
	huge bool
	fail error // what answers with it end with
	// skims is true if its id can be read all the same.
	skims bool
	// demanded is true if it has to arrive.
	demanded bool
}

// modelCursor continues after a record, or through a list made when it was created.
type modelCursor struct {
	search appliance.RecordSearch
	rows   []*modelRecord // of a snapshot
	behind *modelRecord
	total  int
}

func newRecordModel() *recordModel {
	return &recordModel{between: func() {}, clock: 1_750_000_000_000, cursors: make(map[string]*modelCursor), untilIncl: true}
}

// store makes a record visible; at is in microseconds.
func (m *recordModel) store(at int64) *modelRecord {
	m.lastID++
	r := &modelRecord{id: fmt.Sprintf("r%d", m.lastID), at: at, demanded: true}
	r.raw = fmt.Appendf(nil, `{"_id":%q,"_index":"i-1","_type":"~http","sort":[%s],"_source":{"timestamp":%s,"flowId":"f%d"}}`,
		r.id, stamp(at), stamp(at), m.lastID%7)
	i, _ := slices.BinarySearchFunc(m.rows, r, byTime)
	m.rows = slices.Insert(m.rows, i, r)
	return r
}

func (m *recordModel) purge(r *modelRecord) {
	m.rows = slices.DeleteFunc(m.rows, func(o *modelRecord) bool { return o == r })
	m.gone = append(m.gone, r)
}

func stamp(at int64) string { return strconv.FormatFloat(float64(at)/1000, 'f', -1, 64) }

func byTime(a, b *modelRecord) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id)) }

// match returns the rows within the bounds of a search, in order.
func (m *recordModel) match(s appliance.RecordSearch) []*modelRecord {
	first, _ := slices.BinarySearchFunc(m.rows, (s.From-2)*1000, func(r *modelRecord, at int64) int { return cmp.Compare(r.at, at) })
	var found []*modelRecord
	for _, r := range m.rows[first:] {
		at, from, until := r.at, s.From*1000, s.Until*1000
		if at > until+2000 {
			break
		}
		if m.whole {
			at = at / 1000 * 1000
		}
		if (at > from || m.fromIncl && at == from) && (at < until || m.untilIncl && at == until) {
			found = append(found, r)
		}
	}
	if m.shuffled {
		order := func(r *modelRecord) int {
			n, _ := strconv.Atoi(r.id[1:])
			return (n*7919 + m.requests*104729) * 31 % 1009
		}
		slices.SortStableFunc(found, func(a, b *modelRecord) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(order(a), order(b)))
		})
	}
	return found
}

// begin begins every request.
func (m *recordModel) begin() error {
	m.requests++
	m.between()
	switch {
	case m.failing && m.err != nil:
		return m.err
	case m.failing:
		return &appliance.Error{Err: errDown}
	}
	return nil
}

func (m *recordModel) SearchRecords(_ context.Context, s appliance.RecordSearch, page *appliance.RecordPage) error {
	*page = appliance.RecordPage{}
	m.searches = append(m.searches, s)
	switch err := m.begin(); {
	case err != nil:
		return err
	case m.refuseTTL && s.ContextTTL > 0:
		return &appliance.Error{Status: http.StatusUnprocessableEntity, Excerpt: "context_ttl"}
	case m.refuseOver > 0 && s.Limit > m.refuseOver:
		return &appliance.Error{Status: http.StatusBadRequest, Excerpt: "limit too large"}
	case m.maxOffset > 0 && s.Offset+s.Limit > m.maxOffset:
		return &appliance.Error{Status: http.StatusBadRequest, Excerpt: "offset too large"}
	}
	if m.failOver > 0 && s.Until-s.From > m.failOver {
		return &appliance.Error{Status: http.StatusGatewayTimeout}
	}
	found := m.match(s)
	total := len(found)
	rows := found[min(s.Offset, total):]
	limit := s.Limit
	if m.firstCap > 0 {
		limit = min(limit, m.firstCap)
	}
	early := m.early || m.earlyOver > 0 && s.Until-s.From > m.earlyOver
	page.TerminatedEarly = early
	if early {
		limit /= 2
	}
	rows = rows[:min(limit, len(rows))]
	c := &modelCursor{search: s, total: total}
	if s.ContextTTL > 0 && !m.thirdParty && len(rows) > 0 && len(rows) < total && !early {
		page.Cursor = fmt.Sprintf("c%d", m.requests)
		m.cursors[page.Cursor] = c
		c.rows, c.behind = found[len(rows):], rows[len(rows)-1]
	}
	return m.answer(page, rows, total)
}

func (m *recordModel) NextRecords(_ context.Context, cursor string, _ time.Duration, page *appliance.RecordPage) error {
	*page = appliance.RecordPage{}
	m.cursored++
	if err := m.begin(); err != nil {
		return err
	}
	c := m.cursors[cursor]
	if c == nil {
		return &appliance.Error{Status: http.StatusNotFound, Excerpt: "no such cursor"}
	}
	rows := c.rows
	if !m.snapshot {
		rows = slices.DeleteFunc(m.match(c.search), func(r *modelRecord) bool { return byTime(r, c.behind) <= 0 })
	}
	n := min(c.search.Limit, len(rows))
	if n > 0 {
		c.behind, c.rows = rows[n-1], rows[n:]
	}
	if m.lose {
		m.lose = false
		return &appliance.Error{Err: errDown}
	}
	if m.renew {
		delete(m.cursors, cursor)
		page.Cursor = fmt.Sprintf("c%d", m.requests)
		m.cursors[page.Cursor] = c
	}
	return m.answer(page, rows[min(m.skip, n):n], c.total)
}

func (m *recordModel) RecordID(_ context.Context, s appliance.RecordSearch) (string, error) {
	if err := m.begin(); err != nil {
		return "", err
	}
	rows := m.match(s)
	if s.Offset >= len(rows) {
		return "", nil
	}
	r := rows[s.Offset]
	if r.fail != nil && !r.skims {
		return "", r.fail
	}
	return r.id, nil
}

func (m *recordModel) answer(page *appliance.RecordPage, rows []*modelRecord, total int) error {
	if slices.ContainsFunc(rows, func(r *modelRecord) bool { return r.huge }) || m.maxRows > 0 && len(rows) > m.maxRows {
		return &appliance.Error{Status: http.StatusOK, Err: appliance.ErrTooLarge}
	}
	for _, r := range rows {
		if r.fail != nil {
			return r.fail
		}
	}
	page.Date = time.UnixMilli(m.clock - m.lag).Truncate(time.Second)
	page.Warnings = m.warnings
	if page.Total = int64(total); m.noTotals {
		page.Total = -1
	} else if m.total != nil {
		page.Total = int64(m.total(total))
	}
	for _, r := range rows {
		page.Objects = append(page.Objects, appliance.Object{Raw: slices.Clone(r.raw)})
	}
	return nil
}
