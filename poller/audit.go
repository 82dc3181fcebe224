package poller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/internal/traceparent"
	"ndrbridge/transform"
)

// AuditClient is the part of an appliance's interface that the audit log source uses.
// *appliance.Client implements it.
type AuditClient interface {
	AuditLog(ctx context.Context, limit, offset int, page *appliance.Page) error
	AuditEntry(ctx context.Context, offset int) (id, time, size int64, found bool, err error)
}

// AuditOptions configures an audit log source.
type AuditOptions struct {
	Appliance string // its name
	URL       string // its address, remembered so that a change can be detected
	// Start returns where to begin if the state has no position, given the appliance's
	// time; the zero time means the oldest entry that it keeps, and a time that is not
	// before the appliance's means after the newest one.
	Start      func(now time.Time) time.Time
	PageSize   int // the most entries to request at once, at least 2
	TypePrefix string
	Now        func() time.Time // only for recordedtime and speeds
	Log        *slog.Logger
	Metrics    *Metrics
}

// rememberedEntries is the minimum number of entries to remember: ten times as many as an
// appliance is known to keep.
const rememberedEntries = 100_000

// Audit is the source of one appliance's audit log. Its invariants:
//
//   - An entry is committed only after an entry that preceded it in the same
//     answer and is committed, or from the oldest end of the log. So the committed
//     entries of a log are its beginning, without gaps except reported ones.
//   - A gap is reported in the transaction that commits the entry after it.
//   - At most a page is held in memory, however long the log is.
//   - No decision depends on a clock once the log was read to its end: ids,
//     content and where an answer ends decide what is new.
//
// Ids are assumed to increase within a log. If a log was restarted and its oldest entry
// has, by chance, the id after the last one read, it is taken for the old log: nothing
// distinguishes them.
type Audit struct {
	client AuditClient
	store  Store
	source checkpoint.Source
	o      AuditOptions
	events transform.Encoder

	loaded    bool // position and committed are those in the store
	position  auditPosition
	committed []byte

	// oldestFirst is the order in which the log was last seen.
	oldestFirst bool
	polls       int // since the start
	rank        int // offset of position.Last when last seen in a log that comes oldest first
	limit       pageLimit
	pages       pageFailures
	objects     failedPolls
	answer      appliance.Page
	probe       appliance.Page // holds a few entries at most
	rows        []auditRow
	date        time.Time // the appliance's time in its last answer
	endless     endlessAudit
	progress    *progressMeter
}

// NewAudit returns a source that continues from the position in store.
func NewAudit(client AuditClient, store Store, o AuditOptions) *Audit {
	source := checkpoint.Source{Appliance: o.Appliance, Stream: transform.StreamAudit}
	a := &Audit{
		client: client, store: store, o: o, source: source, progress: newProgressMeter(source, o.Metrics, o.Now),
		events: transform.Encoder{TypePrefix: o.TypePrefix, Appliance: o.Appliance},
		limit:  newPageLimit(o.PageSize), objects: make(failedPolls),
	}
	a.answer.Bind()
	return a
}

// Source returns the stream's name.
func (a *Audit) Source() checkpoint.Source { return a.source }

// Progress implements Source.
func (a *Audit) Progress() (p Progress, ok bool) { return a.progress.current() }

// Poll reads everything new and then, if the position was moved back, what is to be
// delivered again. Each page is committed by itself, so an error loses nothing that was
// read before it.
func (a *Audit) Poll(ctx context.Context) (Next, error) {
	a.polls++
	a.endless = endlessAudit{}
	defer a.release()
	a.events.TraceParent = traceparent.Of(ctx)
	err := a.load(ctx)
	if err == nil {
		err = a.readNew(ctx)
	}
	if err == nil {
		err = a.reread(ctx)
	}
	if err == nil {
		a.pages.ended()
	}
	if errors.Is(err, checkpoint.ErrFenced) {
		// The position was moved meanwhile: the next poll continues from there.
		return Soon, nil
	}
	return Idle, err
}

// release frees the memory of the pages.
func (a *Audit) release() {
	a.answer.Release()
	a.rows = nil
}

// load reads the position if it has changed, and makes the first contact if there is none.
func (a *Audit) load(ctx context.Context) error {
	committed, err := a.store.Position(ctx, a.source)
	switch {
	case err != nil:
		return fmt.Errorf("read the position of %s: %w", a.source, err)
	case committed == nil:
		a.loaded = false
		return a.contact(ctx)
	case a.loaded && bytes.Equal(committed, a.committed):
		return nil
	}
	p, err := parseAuditPosition(committed)
	if err != nil {
		return err
	}
	if p.URL != a.o.URL {
		a.o.Log.Warn("the appliance's address changed; reading its audit log continues from the last position", "was", p.URL, "is", a.o.URL)
		p.URL = a.o.URL
	}
	a.position, a.committed, a.rank, a.loaded = p, committed, p.Offset, true
	return nil
}

// contact resolves what start means, before the first event: a crash after this does not
// change it.
func (a *Audit) contact(ctx context.Context) error {
	a.committed = nil
	var w auditWalk
	page, ok, err := a.next(ctx, &w)
	if err != nil {
		return err
	}
	if a.date.IsZero() { // the entries were too large to be returned with it
		const pastEnd = 1 << 30
		if _, err := a.fetch(ctx, pastEnd); err != nil {
			return fmt.Errorf("ask for the appliance's time: %w", err)
		}
	}
	now := a.date.UnixMilli()
	start := min(max(0, a.o.Start(time.UnixMilli(now)).UnixMilli()), now)
	p := auditPosition{Start: start, Past: start > 0, URL: a.o.URL}
	var c checkpoint.Commit
	switch {
	case start < now:
	case !ok: // everything will be new
		p.Start, p.Past = 0, false
	default:
		for ok && !page.newest {
			w.offset = page.offset + max(1, len(page.rows)-1)
			if page, ok, err = a.next(ctx, &w); err != nil {
				return err
			}
		}
		// If the newest page has no entry with an id, Past stays set and times decide.
		for i := range page.rows {
			if r := &page.rows[i]; r.positioned {
				p.Last, p.Past, p.Count = r.offset(), false, 1
				if a.oldestFirst {
					p.Offset = page.offset + i
				}
				c.Remember = []checkpoint.Entry{{Key: r.key(), Value: []byte{1}, At: p.Count}}
			}
		}
	}
	if err := a.commit(ctx, p, c); err != nil {
		return err
	}
	a.rank, a.loaded = p.Offset, true
	a.o.Log.Info("first contact", "start", time.UnixMilli(start).UTC())
	return nil
}

// gapState is the kind of gap that is known to precede the next entry to be committed.
type gapState int

const (
	noGap    gapState = iota
	restored          // the log is not the one that position.Last was in
	unjoined          // the entry is from the oldest end of a log that does not hold position.Last
)

// readNew commits all new entries, up to the newest.
func (a *Audit) readNew(ctx context.Context) error {
	w := auditWalk{last: a.position.Last, hint: a.rank}
	w.offset = a.begin(&w)
	a.progress.begin()
	front, kept := noGap, a.position.Last // kept is the newest entry that both logs have
	for {
		page, ok, err := a.next(ctx, &w)
		if err != nil {
			return err
		}
		if !ok { // the log is empty, and does not show what was in it
			a.progress.caughtUp(a.date.UnixMilli())
			return nil
		}
		last := page.find(w.last)
		if last >= 0 {
			front = noGap
		}
		// Entries after last that are committed were so before another log
		// replaced that one.
		newest, err := a.recall(ctx, page.rows[last+1:])
		if err != nil {
			return err
		}
		if newest >= 0 {
			last += 1 + newest
			front, kept = restored, page.rows[last].offset()
		}
		base, ok, err := a.attach(ctx, &w, &page, last)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if base < 0 && w.last != nil {
			front = unjoined
		}
		if front, err = a.take(ctx, &page, page.rows[base+1:], front, kept); err != nil {
			return err
		}
		w.last = a.position.Last
		if page.newest {
			a.progress.caughtUp(a.date.UnixMilli())
			return nil
		}
		if w.last != nil {
			a.progress.reached(w.last.Time, max(0, a.date.UnixMilli()-w.last.Time))
		}
		a.advance(&w, &page)
	}
}

// recall marks the rows that were committed, and returns the index of the newest of them
// that has a position; -1 if there is none.
func (a *Audit) recall(ctx context.Context, rows []auditRow) (newest int, err error) {
	newest = -1
	if len(rows) == 0 {
		return newest, nil
	}
	keys := make([]string, len(rows))
	for i := range rows {
		keys[i] = rows[i].key()
	}
	values, err := a.store.Recall(ctx, a.source, keys)
	if err != nil {
		return newest, fmt.Errorf("recall what is known of %d audit log entries: %w", len(rows), err)
	}
	for i := range rows {
		if rows[i].known = values[i] != nil; rows[i].known && rows[i].positioned {
			newest = i
		}
	}
	return newest, nil
}

// take commits rows, which extend to the end of the page, and reports the gap before them.
// It returns the gap that is still to be reported.
func (a *Audit) take(ctx context.Context, page *auditPage, rows []auditRow, front gapState, kept *auditOffset) (gapState, error) {
	p := a.position
	var c checkpoint.Commit
	recorded := a.o.Now()
	var gap transform.AuditGap
	report := func() error {
		front = noGap
		if gap.Reason == "" {
			return nil
		}
		event, err := a.events.AuditGap(gap, recorded)
		c.Events = append(c.Events, event)
		return err
	}
	for i := range rows {
		r := &rows[i]
		if r.known {
			continue // it has no position, and is among the dead letters
		}
		if r.positioned && front != noGap {
			gap = gapBetween(p.Last, r.offset(), front)
			if front == unjoined && gap.Reason == transform.GapRestarted {
				p.Past = p.Start > 0
			}
			if err := report(); err != nil {
				return front, err
			}
		}
		p.Count++
		c.Remember = append(c.Remember, checkpoint.Entry{Key: r.key(), Value: []byte{1}, At: p.Count})
		if r.positioned {
			p.Last = r.offset()
		}
		switch {
		case p.Past && r.before(p.Start):
		case r.err != nil:
			c.Dead = append(c.Dead, r.deadLetter(recorded))
		default:
			event, err := a.events.AuditEntry(r.entry, recorded)
			if err != nil {
				return front, err
			}
			c.Events = append(c.Events, event)
		}
	}
	if page.newest {
		p.Past = false
		if front == restored { // there is nothing after the entry that was kept
			gap = transform.AuditGap{Reason: transform.GapRestarted, Last: p.Last.AuditPosition, First: kept.AuditPosition}
			if err := report(); err != nil {
				return front, err
			}
			p.Last = kept
		}
	}
	p.Offset = 0
	if i := page.find(p.Last); a.oldestFirst && i >= 0 {
		p.Offset = page.offset + i
	}
	if len(c.Remember) > 0 || p.Last != a.position.Last || p.Past != a.position.Past {
		if err := a.commit(ctx, p, c); err != nil {
			return front, err
		}
		a.reportGap(gap)
	}
	a.rank = p.Offset
	return front, nil
}

// gapBetween returns the gap between the last committed entry and the next one; its Reason
// is empty if there is none.
func gapBetween(last, first *auditOffset, front gapState) transform.AuditGap {
	gap := transform.AuditGap{Reason: transform.GapRestarted, Last: last.AuditPosition, First: first.AuditPosition}
	if front == unjoined && first.ID > last.ID {
		gap.Reason, gap.Missing = transform.GapPurged, first.ID-last.ID-1
		if gap.Missing == 0 {
			gap.Reason = ""
		}
	}
	return gap
}

func (a *Audit) reportGap(g transform.AuditGap) {
	if g.Reason == "" {
		return
	}
	a.o.Metrics.gap(a.source)
	a.o.Log.Warn("there is a gap in the audit log", "reason", g.Reason, "missing", g.Missing,
		"last_id", g.Last.ID, "last_time", time.UnixMilli(g.Last.Time).UTC(),
		"first_id", g.First.ID, "first_time", time.UnixMilli(g.First.Time).UTC())
}

// reread delivers again what the position was moved back for, up to the last committed
// entry; newer entries are left to readNew.
func (a *Audit) reread(ctx context.Context) error {
	if a.position.Reread == nil {
		return nil
	}
	w := auditWalk{last: a.position.Reread.Last, hint: a.position.Reread.Offset}
	w.offset = a.begin(&w)
	for a.position.Reread != nil {
		page, ok, err := a.next(ctx, &w)
		if err != nil {
			return err
		}
		if !ok {
			p := a.position
			p.Reread = nil
			return a.commit(ctx, p, checkpoint.Commit{})
		}
		base, ok, err := a.attach(ctx, &w, &page, page.find(w.last))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := a.repeat(ctx, &page, base); err != nil {
			return err
		}
		if a.position.Reread != nil {
			w.last = a.position.Reread.Last
			a.advance(&w, &page)
		}
	}
	return nil
}

// repeat commits again the rows of a page after base, with the same event ids. Entries
// that are too old are remembered all the same: what is remembered of a log has no gaps.
func (a *Audit) repeat(ctx context.Context, page *auditPage, base int) error {
	p := a.position
	again := *p.Reread
	p.Reread = &again
	end := page.find(p.Last)
	if end >= 0 || page.newest {
		p.Reread = nil
	}
	if end < 0 {
		end = len(page.rows) - 1
	}
	var c checkpoint.Commit
	recorded := a.o.Now()
	for i := base + 1; i <= end; i++ {
		r := &page.rows[i]
		if !r.positioned {
			continue
		}
		again.Last = r.offset()
		if a.oldestFirst {
			again.Offset = page.offset + i
		}
		p.Count++
		c.Remember = append(c.Remember, checkpoint.Entry{Key: r.key(), Value: []byte{1}, At: p.Count})
		switch {
		case r.before(again.To):
		case r.err != nil:
			c.Dead = append(c.Dead, r.deadLetter(recorded))
		default:
			event, err := a.events.AuditEntry(r.entry, recorded)
			if err != nil {
				return err
			}
			c.Events = append(c.Events, event)
		}
	}
	if len(c.Remember) == 0 && p.Reread != nil {
		return nil
	}
	return a.commit(ctx, p, c)
}

// commit writes c with the position p.
func (a *Audit) commit(ctx context.Context, p auditPosition, c checkpoint.Commit) error {
	c.Source, c.Expect, c.Position = a.source, a.committed, p.encode()
	c.ForgetBefore = max(0, p.Count-rememberedEntries)
	if err := a.store.Commit(ctx, c); err != nil {
		// It is not known whether it was written: the position in the store decides.
		a.loaded = false
		return fmt.Errorf("commit %d events of %s: %w", len(c.Events), a.source, err)
	}
	a.position, a.committed = p, c.Position
	a.endless.pages = 0
	a.progress.count(c)
	return nil
}
