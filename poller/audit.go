package poller

import (
	"context"
	"fmt"
	"math"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/transform"
)

// AuditClient is the part of an appliance's interface that the audit log source uses.
// *appliance.Client implements it.
type AuditClient interface {
	AuditLog(ctx context.Context, limit, offset int, page *appliance.Page) error
	AuditEntry(ctx context.Context, offset int) (id, time int64, found bool, err error)
}

// rememberedEntries is the minimum number of entries to remember: ten times as many as an
// appliance is known to keep.
const rememberedEntries = 100_000

// auditOverlap is how many entries before a new one are read again, if a page holds as
// many, for entries that become visible late.
const auditOverlap = 300

// AuditOptions configures the source of an audit log.
type AuditOptions struct {
	StreamOptions
	// ReconcileEvery is how often the entries of the last ReconcileBack are read again, by
	// the appliance's clock, to find entries that became visible late. 0: never.
	ReconcileEvery, ReconcileBack time.Duration
}

// Audit is the source of one appliance's audit log. An entry is identified by its id and
// the second of its time: what else it contains may change. Its invariants:
//
//   - An entry is committed only after an entry that preceded it in the same
//     answer and is committed, or from the oldest end of the log. So the committed
//     entries of a log are its beginning, without gaps except reported ones and
//     entries that were not visible yet.
//   - An entry that becomes visible late is committed if the same answer shows a
//     committed one after it.
//   - A gap is reported in the transaction that commits the entry after it.
//   - At most a page is held in memory, however long the log is.
//   - No decision about what is new depends on a clock once the log was read to its
//     end: ids, times of entries and where an answer ends decide that.
//
// Ids are assumed to increase within a log, except among neighbours. If a log was restarted
// and its oldest entry has, by chance, the id after the last one read, it is taken for the
// old log: nothing distinguishes them.
type Audit struct {
	stream
	client AuditClient
	o      AuditOptions

	position auditPosition

	order       orderState
	oldestFirst bool   // the order in which the log comes, unless that is unlearned
	polls       int    // since the start
	newest      string // the key of the newest entry when the log was last read to its end
	rank        int    // its offset in a log that comes oldest first
	answer      appliance.Page
	probe       appliance.Page // holds a few entries at most
	rows        []auditRow
	date        time.Time // the appliance's time in its last answer
	endless     endlessAudit
	sweep       *auditSweep // nil: none is running
}

// NewAudit returns a source that continues from the position in store.
func NewAudit(client AuditClient, store Store, o AuditOptions) *Audit {
	a := &Audit{stream: newStream(store, transform.StreamAudit, o.StreamOptions), client: client, o: o}
	a.answer.Bind()
	return a
}

// Poll reads everything new and then, if the position was moved back, what is to be
// delivered again, and one page of a sweep if one is due. Each page is committed by itself,
// so an error loses nothing that was read before it. It returns Soon while a sweep is
// running.
func (a *Audit) Poll(ctx context.Context) (Next, error) {
	a.endless = endlessAudit{}
	defer a.release()
	return a.run(ctx, a.load, a.poll)
}

func (a *Audit) poll(ctx context.Context) (Next, error) {
	a.polls++
	if a.polls%idlePolls == 0 {
		a.order = unlearned // pages of few entries do not show that the order has changed
	}
	err := a.readNew(ctx)
	if err == nil {
		err = a.reread(ctx)
	}
	if err != nil {
		return Idle, err
	}
	a.pages.ended()
	err = a.sweepPage(ctx)
	return a.swept(ctx, err, a.sweep != nil)
}

// release frees the memory of the pages.
func (a *Audit) release() {
	a.answer.Release()
	a.rows = nil
}

// load takes over the committed position, and makes the first contact if there is none.
func (a *Audit) load(ctx context.Context) error {
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
	p.convert()
	if a.polls == 0 && p.Last != nil {
		a.oldestFirst, a.order = p.Offset > 0, shown
	}
	a.position, a.rank, a.newest, a.sweep = p, p.Offset, "", nil
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
	p := auditPosition{Start: start, Past: start > 0, Swept: now, URL: a.o.URL}
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
		if ok && a.oldestFirst { // the newest page has a single entry
			w.offset = max(0, page.offset-a.limit.now+1)
			if page, ok, err = a.next(ctx, &w); err != nil {
				return err
			}
		}
		// Entries that become visible late are new if they come after the oldest of these.
		// If the newest page has no entry with an id, Past stays set and times decide.
		for i := range page.rows {
			r := &page.rows[i]
			p.Count++
			c.Remember = append(c.Remember, r.remembered(p.Count))
			if r.positioned {
				p.advance(r)
			}
		}
		if lowest, _, ok := page.ends(); ok {
			p.Past, p.Floor = false, lowest
		}
		if ok {
			a.reached(&page)
			p.Offset = a.rank
		}
	}
	if err := a.commit(ctx, p, c); err != nil {
		return err
	}
	a.o.Log.Info("first contact", "start", time.UnixMilli(start).UTC())
	return nil
}

// reached records the newest entry of a page that was read.
func (a *Audit) reached(page *auditPage) {
	a.rank = 0
	if a.oldestFirst {
		a.rank = page.offset + len(page.rows) - 1
	}
	a.newest = page.rows[len(page.rows)-1].key
}

// auditPosition is the position of an audit log source. All times are the appliance's own,
// in milliseconds since the epoch.
type auditPosition struct {
	// Last is the committed entry with the highest id in this log; nil if there is none.
	Last *transform.AuditPosition `json:"last,omitempty"`
	// Offset is the offset of the newest committed entry from the oldest one. It is a hint,
	// and only known for a log that comes oldest first.
	Offset int `json:"offset,omitempty"`
	// Count is how many entries were remembered.
	Count int64 `json:"count"`
	// Start is what the stream's start resolved to at the first contact.
	Start int64 `json:"start"`
	// Past is set while reading a log that may begin before Start: older entries are
	// skipped. Afterwards no entry is skipped for its time, so a clock that goes back
	// hides nothing.
	Past bool `json:"past,omitempty"`
	// Floor is an id: entries up to it were there before the stream began, and do not become
	// visible late.
	Floor int64 `json:"floor,omitempty"`
	// Swept is when the last sweep began. It is 0 in a position of an older version, which
	// remembered entries by a digest of their content.
	Swept int64 `json:"swept"`
	// Reread is what to deliver again; nil: nothing.
	Reread *auditReread `json:"again,omitempty"`
	// URL is the appliance's address, so that a change can be detected.
	URL string `json:"url"`
}

// advance moves Last to an entry if its id is higher.
func (p *auditPosition) advance(r *auditRow) {
	if p.Last == nil || r.entry.ID > p.Last.ID {
		p.Last = r.position()
	}
}

// auditReread is a second reading of a log, from its oldest entry up to the last committed
// one.
type auditReread struct {
	// To is the time from which entries are delivered again; rememberOnly: none is.
	To int64 `json:"to"`
	// Last is the newest entry that was read again; nil if there is none.
	Last *transform.AuditPosition `json:"last,omitempty"`
	// Offset is the offset of Last, like auditPosition's.
	Offset int `json:"offset,omitempty"`
}

const rememberOnly = math.MaxInt64

// convert converts a position of an older version: all entries up to Last are committed, and
// are read once more, to be remembered.
func (p *auditPosition) convert() {
	if p.Swept != 0 {
		return
	}
	p.Swept = 1 // a sweep is due
	if p.Last != nil {
		to := int64(rememberOnly)
		if p.Reread != nil {
			to = p.Reread.To
		}
		p.Floor, p.Reread = p.Last.ID, &auditReread{To: to}
	}
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
