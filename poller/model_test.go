package poller_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/test/ledger"
)

// model is a minimal appliance, whose detections change before every request. Its times
// are milliseconds.
type model struct {
	// between is called before every request and may change anything.
	between func()

	clock      int64
	skew       time.Duration       // of Date, which is ahead of the clock by so much
	rows       map[int64]*modelRow // what is visible, by id
	order      []*modelRow         // the same as pages show them; nil: to be sorted
	lastID     int64
	history    []ledger.Version
	requests   int
	failing    bool          // every request fails
	inclusive  bool          // how the bound is read
	maxRows    int           // the server's cap; 0: none
	refuseOver int           // a limit above it is refused; 0: none
	shuffled   bool          // ties come in an order of their own
	asked      map[int64]int // requests for a detection by its id
}

type modelRow struct {
	id, modTime, began int64
	title              int    // what an edit changes
	raw                []byte // what the appliance shows
	huge, broken       bool
	timeless           bool  // it shows no create_time
	anonymous          bool  // it shows no id
	looks              int   // at an anonymous one: each finds another description
	byID, alone        error // what requests for it end with, and searches that show it alone
	inPage             error // and those for any page with it
	dated              bool  // its mod_time can be read all the same
	hidden             bool  // no search shows it
}

func newModel() *model {
	return &model{between: func() {}, clock: 1_750_000_000_000, rows: make(map[int64]*modelRow), asked: make(map[int64]int)}
}

// show makes a row's state visible and part of the history.
func (m *model) show(r *modelRow) {
	modTime := fmt.Sprint(r.modTime)
	if r.broken {
		modTime = `"soon"`
	}
	created := fmt.Sprint(r.began)
	if r.timeless {
		created = fmt.Sprintf(`null,"start_time":%d`, r.began-1000)
	}
	r.raw = fmt.Appendf(nil, `{"id":%d,"mod_time":%s,"create_time":%s,"title":"%d"}`, r.id, modTime, created, r.title)
	m.rows[r.id], m.order = r, nil
	if !r.huge && !r.broken {
		m.history = append(m.history, ledger.Version{ID: r.id, ModTime: r.modTime, Object: string(r.raw)})
	}
}

func (m *model) add(modTime int64) *modelRow {
	m.lastID++
	r := &modelRow{id: m.lastID, modTime: modTime, began: m.clock}
	m.show(r)
	return r
}

// touch changes a row; at says its new mod_time.
func (m *model) touch(r *modelRow, at int64) {
	changed := *r
	changed.modTime, changed.title = at, r.title+1
	m.show(&changed)
}

func (m *model) hide(r *modelRow) {
	delete(m.rows, r.id)
	m.order = nil
}

func (m *model) sorted() []*modelRow {
	if m.order != nil {
		return m.order
	}
	m.order = slices.SortedFunc(maps.Values(m.rows), func(a, b *modelRow) int {
		order := cmp.Compare(a.id, b.id)
		if m.shuffled {
			order = cmp.Compare(a.id*7919%101, b.id*7919%101)
		}
		return cmp.Or(cmp.Compare(a.modTime, b.modTime), order, cmp.Compare(a.id, b.id))
	})
	return m.order
}

var errDown = errors.New("connection refused")

// find is what a search finds, before it is written into an answer.
func (m *model) find(s appliance.Search) ([]*modelRow, error) {
	m.requests++
	m.between()
	if m.failing {
		return nil, &appliance.Error{Err: errDown}
	}
	if m.refuseOver > 0 && s.Limit > m.refuseOver {
		return nil, &appliance.Error{Status: http.StatusBadRequest, Excerpt: "limit too large"}
	}
	if s.ModTime <= 0 { // the client does not send it
		return nil, &appliance.Error{Err: errors.New("mod_time must be above 0")}
	}
	var found []*modelRow
	for _, r := range m.sorted() {
		if r.hidden {
			continue
		}
		if r.modTime > s.ModTime || m.inclusive && r.modTime == s.ModTime {
			found = append(found, r)
		}
	}
	found = found[min(s.Offset, len(found)):]
	limit := s.Limit
	if m.maxRows > 0 {
		limit = min(limit, m.maxRows)
	}
	return found[:min(limit, len(found))], nil
}

func (m *model) date() time.Time { return time.UnixMilli(m.clock).Add(m.skew).Truncate(time.Second) }

func (m *model) Firmware(context.Context) (appliance.Version, error) {
	return appliance.Version{26, 3}, nil
}

func (m *model) SearchDetections(_ context.Context, s appliance.Search, page *appliance.Page) error {
	*page = appliance.Page{}
	rows, err := m.find(s)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(rows, func(r *modelRow) bool { return r.huge }) {
		return &appliance.Error{Status: http.StatusOK, Err: appliance.ErrTooLarge}
	}
	for _, r := range rows {
		if err := cmp.Or(r.inPage, r.alone); err != nil && (len(rows) == 1 || r.inPage != nil) {
			return err
		}
	}
	page.Date = m.date()
	for _, r := range rows {
		raw := bytes.Clone(r.raw)
		if r.anonymous {
			r.looks++
			_, rest, _ := bytes.Cut(raw, []byte(","))
			raw = fmt.Appendf(nil, `{"description":"#/from=%d",%s`, r.looks, rest)
		}
		page.Objects = append(page.Objects, appliance.Object{Raw: raw})
	}
	return nil
}

// Reserve does nothing: the model's pages count against no budget.

func (m *model) SearchDetectionIDs(_ context.Context, s appliance.Search) ([]int64, error) {
	rows, err := m.find(s)
	ids := make([]int64, len(rows))
	for i, r := range rows {
		if !r.anonymous {
			ids[i] = r.id
		}
	}
	return ids, err
}

func (m *model) one(id int64) (*modelRow, error) {
	m.requests++
	m.between()
	r := m.rows[id]
	switch {
	case m.failing:
		return nil, &appliance.Error{Err: errDown}
	case r == nil:
		return nil, &appliance.Error{Status: http.StatusNotFound}
	case r.byID != nil:
		return nil, r.byID
	}
	return r, nil
}

func (m *model) Detection(_ context.Context, id int64, page *appliance.Page) error {
	*page = appliance.Page{}
	m.asked[id]++
	r, err := m.one(id)
	if err != nil {
		return err
	}
	if r.huge {
		return &appliance.Error{Status: http.StatusOK, Err: appliance.ErrTooLarge}
	}
	page.Date = m.date()
	page.Objects = []appliance.Object{{Raw: bytes.Clone(r.raw)}}
	return nil
}

func (m *model) DetectionModTime(_ context.Context, id int64) (int64, error) {
	r := m.rows[id]
	if _, err := m.one(id); err != nil && (r == nil || !r.dated) {
		return 0, err
	}
	return r.modTime, nil
}

// memory is a state that is kept in memory, and can fail.
type memory struct {
	position []byte
	known    map[string]checkpoint.Entry
	dead     map[string]checkpoint.DeadLetter
	commits  int
	// journal is called with each commit that is written.
	journal func(checkpoint.Commit)
	// fail reports whether a commit fails, and whether it is written all the same.
	fail func() (failed, written bool)
}

func newMemory(journal func(checkpoint.Commit)) *memory {
	return &memory{
		known: make(map[string]checkpoint.Entry), dead: make(map[string]checkpoint.DeadLetter), journal: journal,
		fail: func() (bool, bool) { return false, false },
	}
}

func (s *memory) Position(context.Context, checkpoint.Source) ([]byte, error) {
	return bytes.Clone(s.position), nil
}

func (s *memory) Recall(_ context.Context, _ checkpoint.Source, keys []string) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		values[i] = bytes.Clone(s.known[key].Value)
	}
	return values, nil
}

func (s *memory) Commit(_ context.Context, c checkpoint.Commit) error {
	failed, written := s.fail()
	if failed && !written {
		return errors.New("no space left on device")
	}
	if !bytes.Equal(c.Expect, s.position) {
		return checkpoint.ErrFenced
	}
	s.commits++
	s.position = bytes.Clone(c.Position)
	for _, e := range c.Remember {
		s.known[e.Key] = e
	}
	maps.DeleteFunc(s.known, func(_ string, e checkpoint.Entry) bool { return e.At < c.ForgetBefore })
	for _, d := range c.Dead {
		s.dead[d.Key] = d
	}
	s.journal(c)
	if failed {
		return errors.New("input/output error")
	}
	return nil
}

// pick returns one of the visible rows, or nil.
func (m *model) pick(t *rapid.T) *modelRow {
	if len(m.rows) == 0 {
		return nil
	}
	return rapid.SampledFrom(m.sorted()).Draw(t, "row")
}
