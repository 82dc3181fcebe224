package poller

import (
	"context"
	"fmt"
	"time"

	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// AuditClient is the part of an appliance's interface that the audit log source uses.
// *appliance.Client implements it.
type AuditClient interface {
	AuditLog(ctx context.Context, limit, offset int, page *appliance.Page) error
	AuditEntry(ctx context.Context, offset int) (id, time, size int64, found bool, err error)
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
	stream
	client AuditClient
	o      StreamOptions

	position auditPosition

	// oldestFirst is the order in which the log was last seen.
	oldestFirst bool
	polls       int // since the start
	rank        int // offset of position.Last when last seen in a log that comes oldest first
	answer      appliance.Page
	probe       appliance.Page // holds a few entries at most
	rows        []auditRow
	date        time.Time // the appliance's time in its last answer
	endless     endlessAudit
}

// NewAudit returns a source that continues from the position in store.
func NewAudit(client AuditClient, store Store, o StreamOptions) *Audit {
	a := &Audit{stream: newStream(store, transform.StreamAudit, o), client: client, o: o}
	a.answer.Bind()
	return a
}

// Poll reads everything new and then, if the position was moved back, what is to be
// delivered again. Each page is committed by itself, so an error loses nothing that was
// read before it.
func (a *Audit) Poll(ctx context.Context) (Next, error) {
	return a.run(ctx, func(ctx context.Context) (Next, error) { return Idle, a.poll(ctx) })
}

func (a *Audit) poll(ctx context.Context) error {
	a.polls++
	a.endless = endlessAudit{}
	defer a.release()
	for _, step := range []func(context.Context) error{a.load, a.readNew, a.reread} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	a.pages.ended()
	return nil
}

// release frees the memory of the pages.
func (a *Audit) release() {
	a.answer.Release()
	a.rows = nil
}

// load reads the position if it has changed, and makes the first contact if there is none.
func (a *Audit) load(ctx context.Context) error {
	if changed, err := a.changed(ctx); err != nil || !changed {
		return err
	}
	if a.committed == nil {
		return a.contact(ctx)
	}
	p, err := parsePosition[auditPosition](a.committed)
	if err != nil {
		return err
	}
	if p.URL != a.o.URL {
		a.o.Log.Warn("the appliance's address changed; reading its audit log continues from the last position", "was", p.URL, "is", a.o.URL)
		p.URL = a.o.URL
	}
	a.position, a.rank, a.loaded = p, p.Offset, true
	return nil
}

// contact resolves what start means, before the first event: a crash after this does not
// change it.
func (a *Audit) contact(ctx context.Context) error {
	var w auditWalk
	page, ok, err := a.next(ctx, &w)
	if err != nil {
		return err
	}
	if a.date.IsZero() { // the entries were too large to be returned with it
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
	a.rank = p.Offset
	a.o.Log.Info("first contact", "start", time.UnixMilli(start).UTC())
	return nil
}

// readNew commits all new entries, up to the newest.
func (a *Audit) readNew(ctx context.Context) error {
	w := auditWalk{last: a.position.Last, hint: a.rank}
	a.progress.begin()
	front, kept := noGap, a.position.Last // kept is the newest entry that both logs have
	find := func(page *auditPage) (int, error) {
		last := page.find(w.last)
		if last >= 0 {
			front = noGap
		}
		// Entries after last that are committed were so before another log
		// replaced that one.
		newest, err := a.recall(ctx, page.rows[last+1:])
		if newest >= 0 {
			last += 1 + newest
			front, kept = restored, page.rows[last].offset()
		}
		return last, err
	}
	take := func(page *auditPage, base int) (done bool, err error) {
		if base < 0 && w.last != nil {
			front = unjoined
		}
		if front, err = a.take(ctx, page, page.rows[base+1:], front, kept); err != nil {
			return false, err
		}
		if w.last = a.position.Last; w.last != nil && !page.newest {
			a.progress.reached(w.last.Time, max(0, a.date.UnixMilli()-w.last.Time))
		}
		return page.newest, nil
	}
	err := a.read(ctx, &w, find, take)
	if err == nil {
		a.progress.caughtUp(a.date.UnixMilli())
	}
	return err
}

// auditPosition is the position of an audit log source. All times are the appliance's own,
// in milliseconds since the epoch.
type auditPosition struct {
	// Last is the newest committed entry; nil if there is none.
	Last *auditOffset `json:"last,omitempty"`
	// Offset is the offset of Last from the oldest entry. It is a hint, and only known
	// for a log that comes oldest first.
	Offset int `json:"offset,omitempty"`
	// Count is how many entries were remembered.
	Count int64 `json:"count"`
	// Start is what the stream's start resolved to at the first contact.
	Start int64 `json:"start"`
	// Past is set while reading a log that may begin before Start: older entries are
	// skipped. Afterwards no entry is skipped for its time, so a clock that goes back
	// hides nothing.
	Past bool `json:"past,omitempty"`
	// Reread is what to deliver again; nil: nothing.
	Reread *auditReread `json:"again,omitempty"`
	// URL is the appliance's address, so that a change can be detected.
	URL string `json:"url"`
}

// auditOffset identifies an entry among all that any log of an appliance ever held.
type auditOffset struct {
	transform.AuditPosition
	Sum string `json:"sum"` // of its content
}

// auditReread is a second reading of a log, from its oldest entry up to the last committed
// one.
type auditReread struct {
	// To is the time from which entries are delivered again.
	To int64 `json:"to"`
	// Last is the newest entry that was read again; nil if there is none.
	Last *auditOffset `json:"last,omitempty"`
	// Offset is the offset of Last, like auditPosition's.
	Offset int `json:"offset,omitempty"`
}

// rewind moves the position back to a time in milliseconds since the epoch, at least 0:
// once the source has read what is new, it delivers again every entry logged at that time
// or later, entries before the stream's start included.
func (p *auditPosition) rewind(to int64) {
	p.Start = min(p.Start, to)
	if p.Last != nil && (p.Last.Time == 0 || p.Last.Time >= to) {
		if p.Reread != nil {
			to = min(to, p.Reread.To)
		}
		p.Reread = &auditReread{To: to}
	}
}
