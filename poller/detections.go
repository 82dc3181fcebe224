package poller

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/transform"
)

// DetectionsClient is the part of an appliance's interface that the detections source
// uses. *appliance.Client implements it.
type DetectionsClient interface {
	Firmware(ctx context.Context) (appliance.Version, error)
	SearchDetections(ctx context.Context, s appliance.Search, page *appliance.Page) error
	SearchDetectionIDs(ctx context.Context, s appliance.Search) ([]int64, error)
	Detection(ctx context.Context, id int64, page *appliance.Page) error
	DetectionModTime(ctx context.Context, id int64) (modTime int64, err error)
}

// DetectionsOptions configures a detections source. The durations are compared with the
// appliance's clock.
type DetectionsOptions struct {
	StreamOptions
	Filter json.RawMessage
	// Overlap is how late a version may become visible and still be read at once.
	Overlap time.Duration
	// ReconcileEvery is how often the last ReconcileBack are read again, to find
	// versions that became visible later than Overlap. 0: never.
	ReconcileEvery, ReconcileBack time.Duration
	// ForgetAfter is how long a detection without a new version is remembered.
	ForgetAfter time.Duration
	// Enrich, if set, returns what to add to detections that become events: one Enrichment for
	// each, in their order. It is called once per page, and the page waits for it. The
	// detections are valid until it returns.
	Enrich func(ctx context.Context, detections []transform.Detection) []transform.Enrichment
	// Contexts adds what is known of the devices of such detections; nil: nothing.
	Contexts *Contexts
	// Reused, if set, is called if a known id comes with another time of creation, before the
	// page is committed; an error fails the poll.
	Reused func(ctx context.Context, r ReusedID) error
	// OwnWrites knows what the bridge writes to the appliance; nil: nothing.
	OwnWrites ownWrites
}

// idlePolls is how many polls without anything new pass between two that do not rely on
// the page sizes seen.
const idlePolls = 30

// MinFirmware returns the first firmware whose detections have a mod_time.
func MinFirmware() appliance.Version { return appliance.Version{9, 3} }

// Detections is the source of one appliance's detections. Its invariants:
//
//   - Every version that is visible with a mod_time up to the committed
//     position's Whole less the overlap is in the journal, or was before Floor.
//   - The position is never ahead of the appliance's clock as of the first answer
//     of the walk that moved it: a version that becomes visible later than that,
//     by no more than the overlap, is still ahead of the next walk's bound.
//   - No decision depends on the local clock.
type Detections struct {
	stream
	client DetectionsClient
	o      DetectionsOptions

	position detectionsPosition
	written  detectionsPosition // position when it was last committed
	rewalk   rewalk

	page    appliance.Page
	longest int   // rows of the longest page that the appliance returned
	idle    int   // polls in a row that showed nothing new
	clock   int64 // the appliance's time in its last answer

	sweep *sweep // nil: none is running
}

// sweep is a walk over the recent past, one page at a time.
type sweep struct {
	*walk
	until int64 // from here on the polls themselves read everything
	began int64
	pages pageFailures
}

// NewDetections returns a source that continues from the position in store.
func NewDetections(client DetectionsClient, store Store, o DetectionsOptions) *Detections {
	d := &Detections{
		stream: newStream(store, transform.StreamDetections, o.StreamOptions),
		client: client, o: o,
	}
	d.page.Bind()
	return d
}

// Poll reads everything new, and one page of a sweep if one is due. It returns when a walk
// has reached the end; each page is committed by itself, so an error loses nothing that
// was read before it. It returns Soon while a sweep is running.
func (d *Detections) Poll(ctx context.Context) (Next, error) {
	return d.run(ctx, d.load, func(ctx context.Context) (Next, error) {
		if err := d.poll(ctx); err != nil {
			return Idle, err
		}
		err := d.sweepPage(ctx)
		return d.swept(ctx, err, d.sweep != nil)
	})
}

// load takes over the committed position, and makes the first contact if there is none.
func (d *Detections) load(ctx context.Context) error {
	firmware, err := d.client.Firmware(ctx)
	if err != nil {
		return fmt.Errorf("ask for the firmware version: %w", err)
	}
	if least := MinFirmware(); firmware.Compare(least) < 0 {
		return fmt.Errorf("firmware %s has no mod_time on detections, which this stream needs: "+
			"upgrade the appliance to %s or later, or set detections.enabled to false", firmware, least)
	}
	d.sweep = nil
	d.rewalk = rewalk{}
	filter := string(d.o.Filter)
	if d.committed != nil {
		if d.position, err = parsePosition[detectionsPosition](d.committed); err != nil {
			return err
		}
		if d.position.URL != d.o.URL {
			d.o.Log.Warn("the appliance's address changed; reading its detections continues from the last position",
				"was", d.position.URL, "is", d.o.URL)
		}
		if d.position.Filter != filter {
			d.o.Log.Warn("the filter changed; reading detections continues from the last position",
				"was", d.position.Filter, "is", filter)
		}
		d.position.URL, d.position.Filter = d.o.URL, filter
		d.written = d.position
		d.longest = max(d.longest, d.position.Page)
		return nil
	}

	// What start means is committed now, before the first event: a crash after this
	// does not change it.
	now, err := d.askTime(ctx)
	if err != nil {
		return err
	}
	// The zero time is before the epoch, and a future time is the same as now.
	start := min(max(0, d.o.Start(time.UnixMilli(now)).UnixMilli()), now)
	p := detectionsPosition{ModTime: start, Whole: start, Start: start, Contact: now, Floor: start, Swept: now, URL: d.o.URL, Filter: filter}
	if err := d.commit(ctx, p, checkpoint.Commit{}); err != nil {
		return err
	}
	d.o.Log.Info("first contact", "firmware", firmware.String(), "start", time.UnixMilli(start).UTC())
	return nil
}

// poll walks from the position to the end.
func (d *Detections) poll(ctx context.Context) error {
	// From time to time a short page is not taken for the last: the server may have
	// begun to return shorter ones. Such a poll learns the size that it returns now.
	d.idle++
	trust, longest := d.idle%idlePolls != 0, d.longest
	if !trust {
		d.longest = 0
	}
	var s pass
	if bound := d.bound(); d.position.Reread || d.rewalk.whole(bound) {
		d.begin(&s)
	} else {
		s.walk, s.from = d.rewalk.next(d.position.ModTime), d.position.ModTime
	}
	d.rewalk.tail = nil // a failed walk must not become the tail
	d.progress.begin()
	if err := d.read(ctx, &s); err != nil {
		if !s.whole && s.pages == 0 {
			d.rewalk.tail = s.walk // nothing has changed
		}
		return err
	}
	overlap := d.o.Overlap.Milliseconds()
	d.rewalk.ended(s.walk, d.clock, d.position.ModTime, overlap)
	d.progress.caughtUp(s.clock)
	if d.position.Reread {
		p := d.position
		p.Reread = false
		if err := d.commit(ctx, p, checkpoint.Commit{}); err != nil {
			return err
		}
	}
	look := pass{until: d.rewalk.due(d.clock, overlap)}
	if look.until <= d.bound() {
		d.rewalk.looked(look.until)
	} else {
		d.begin(&look)
		if err := d.read(ctx, &look); err != nil {
			return err
		}
		s.news = s.news || look.news
	}
	d.pages.ended()
	if !trust && !s.news {
		d.longest = max(d.longest, longest)
	}
	return nil
}

// pass is a walk of a poll.
type pass struct {
	*walk
	whole bool  // it shows everything that may still become visible late
	until int64 // it is a second look, up to this mod_time; 0: it is not
	pages int   // how many pages it has read
	from  int64 // the position where it began
	clock int64 // the appliance's time when it began, or less if it went back; 0: not known yet
	news  bool  // it showed something new
}

// begin begins a whole walk or a second look.
func (d *Detections) begin(s *pass) {
	s.walk, s.whole, s.from = newWalk(d.bound()), s.until == 0, d.position.ModTime
}

// read reads and commits the pages of s.
func (d *Detections) read(ctx context.Context, s *pass) (err error) {
	for done := false; !done && err == nil; {
		done, err = d.pollPage(ctx, s)
	}
	return err
}

// pollPage reads and commits the next page. done is true if it was the last.
func (d *Detections) pollPage(ctx context.Context, s *pass) (done bool, err error) {
	defer d.page.Release()
	rows, short, err := d.fetch(ctx, s.walk)
	if err != nil {
		return false, err
	}
	if s.pages++; s.clock == 0 || d.clock < s.clock {
		s.clock = d.clock
	}
	back := s.clock < d.position.ModTime
	if back {
		if err := d.goBack(ctx, s.clock); err != nil {
			return false, err
		}
	}
	if back || d.rewalk.wentBack(d.clock) {
		d.rewalk = rewalk{}
		d.begin(s)
		return s.until > 0, nil
	}
	if d.position.Reread {
		markReread(rows, s.walk, s.from)
	}
	if s.until > 0 {
		short = len(rows) == 0 // no other poll would show what lies behind a wrong end
	}
	joined, done, err := s.step(keysOf(rows), short)
	if err != nil {
		return false, err
	}
	looked := s.bound
	if done = done || s.until > 0 && s.bound >= s.until; done {
		looked = s.until
	}
	if joined {
		p := d.position
		p.ModTime = max(p.ModTime, min(s.read, s.clock))
		switch {
		case s.whole:
			p.Whole = max(p.Whole, min(s.read, s.clock))
		case s.until > 0:
			p.Whole = max(p.Whole, min(looked+d.o.Overlap.Milliseconds(), p.ModTime))
		}
		news, err := d.commitRows(ctx, p, rows)
		if err != nil {
			return false, err
		}
		if news > 0 {
			d.idle, s.news = 0, true
		}
	}
	switch {
	case s.until > 0:
		d.rewalk.looked(looked)
	case !done:
		d.progress.reached(d.position.ModTime, d.clock-d.position.ModTime)
	}
	return done, nil
}

// sweepPage reads one page of the sweep, and begins one if it is due.
func (d *Detections) sweepPage(ctx context.Context) error {
	if d.sweep == nil {
		if d.o.ReconcileEvery <= 0 || d.clock-d.position.Swept < d.o.ReconcileEvery.Milliseconds() {
			return nil
		}
		d.sweep = &sweep{
			walk:  newWalk(max(d.clock-d.o.ReconcileBack.Milliseconds(), d.position.Floor) - 1),
			until: d.position.ModTime,
			began: d.clock,
		}
	}
	s := d.sweep
	done := s.bound >= s.until
	if !done {
		defer d.page.Release()
		rows, _, err := d.fetch(ctx, s.walk)
		if err != nil {
			return fmt.Errorf("reconcile: %w", err)
		}
		if d.clock < d.position.ModTime {
			return d.goBack(ctx, d.clock)
		}
		// A sweep costs little, so it does not trust that a short page is the
		// last: the appliance may have begun to return shorter ones.
		var joined bool
		if joined, done, err = s.step(keysOf(rows), len(rows) == 0); err != nil {
			d.sweep = nil
			return fmt.Errorf("reconcile: %w", err)
		}
		if joined {
			found, err := d.commitRows(ctx, d.position, rows)
			if err != nil {
				return fmt.Errorf("reconcile: %w", err)
			}
			d.count(d.o.Metrics.found, found)
		}
	}
	if !done {
		return nil
	}
	p := d.position
	p.Swept = s.began
	d.sweep = nil
	return d.commit(ctx, p, checkpoint.Commit{})
}
