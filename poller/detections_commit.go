package poller

import (
	"context"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// commitRows commits the new versions among the rows, and the position p that they lead to. It
// returns the number of events.
func (d *Detections) commitRows(ctx context.Context, p detectionsPosition, rows []object) (events int, err error) {
	keys, values, err := d.recall(ctx, rows)
	if err != nil {
		return 0, err
	}
	unknown := 0
	for _, value := range values {
		if value == nil {
			unknown++
		}
	}
	c := &pageChanges{
		position: p, recorded: d.o.Now(),
		commit: checkpoint.Commit{Remember: make([]checkpoint.Entry, 0, unknown)},
		news:   make([]transform.Detection, 0, unknown),
		sights: make([]transform.Observation, 0, unknown),
		within: make(map[string]known, unknown),
	}
	for i := range rows {
		r := &rows[i]
		if r.delivered || r.positioned() && r.modTime < p.Floor {
			continue
		}
		before, seen := c.within[keys[i]]
		if !seen && values[i] != nil {
			seen = true
			if before, err = parseKnown(values[i]); err != nil {
				return 0, err
			}
		}
		if err := d.addRow(ctx, c, r, keys[i], before, seen); err != nil {
			return 0, err
		}
	}
	if c.commit.Events, err = d.encode(ctx, c.news, c.sights); err != nil {
		return 0, err
	}
	if err := d.commit(ctx, p, c.commit); err != nil {
		return len(c.commit.Events), err
	}
	if len(c.marked) > 0 {
		d.o.Contexts.marked(c.marked)
	}
	if d.o.OwnWrites != nil {
		d.o.OwnWrites.Delivered(c.news)
	}
	return len(c.commit.Events), nil
}

// recall returns the keys of rows, and what is remembered under them.
func (d *Detections) recall(ctx context.Context, rows []object) (keys []string, values [][]byte, err error) {
	keys = make([]string, len(rows))
	for i := range rows {
		keys[i] = rows[i].knownKey()
	}
	if values, err = d.store.Recall(ctx, d.source, keys); err != nil {
		return nil, nil, fmt.Errorf("recall what is known of %d detections: %w", len(rows), err)
	}
	return keys, values, nil
}

// pageChanges collects what the rows of a page change.
type pageChanges struct {
	position detectionsPosition // that the page leads to
	recorded time.Time
	commit   checkpoint.Commit
	news     []transform.Detection
	sights   []transform.Observation // of news
	marked   []int64                 // those of news that lack some of their context
	within   map[string]known        // what this page has shown already
}

// observe adds a version to deliver.
func (c *pageChanges) observe(version transform.Detection, sight transform.Observation) {
	sight.Recorded = c.recorded
	c.news, c.sights = append(c.news, version), append(c.sights, sight)
}

// remember sets what is known of the object of a row.
func (c *pageChanges) remember(r *object, key string, after known) {
	c.within[key] = after
	at := after.modTime
	if !r.positioned() {
		at = c.position.ModTime
	}
	c.commit.Remember = append(c.commit.Remember, checkpoint.Entry{Key: key, Value: after.encode(), At: at})
}

// addRow adds what a row changes, given what is known of its object, if it was seen.
func (d *Detections) addRow(ctx context.Context, c *pageChanges, r *object, key string, before known, seen bool) error {
	after := known{modTime: r.version, dead: r.err != nil, created: r.detection.Created, tracked: r.detection.Tracked}
	if after.dead {
		after.tracked = before.tracked
		if after.modTime == 0 {
			after.modTime = before.modTime
		}
	}
	if after.dead || after.created == 0 {
		after.created = before.created
	}
	other := before.isOther(after)
	if other {
		if err := d.reused(ctx, r.detection, before); err != nil {
			return err
		}
		before.tracked, before.life = nil, transform.Lifecycle{}
	}
	after.life = before.life
	if seen && !other && before.isAt(after.modTime) && before.dead == after.dead && transform.SameTracked(before.tracked, after.tracked) {
		if r.reread && !before.dead {
			sight := transform.Observation{Repeat: before.events, Lifecycle: before.life}
			if mark := d.addContext(c, r.detection, &sight); mark != nil {
				before.context = mark
				c.remember(r, key, before)
			}
			c.observe(r.detection, sight)
		}
		return nil
	}
	if !after.dead {
		r.detection = r.detection.Digested()
		after.tracked = r.detection.Tracked
	}
	if seen && before.modTime == after.modTime {
		after.events = before.events
	}
	if after.dead {
		c.commit.Dead = append(c.commit.Dead, r.deadLetter(c.recorded))
	} else {
		after.events++
		created := len(before.tracked) == 0 && d.isNew(c.position, r.detection)
		after.life = before.life.After(before.tracked, created, r.detection)
		sight := transform.Observation{
			Created:   created,
			Before:    before.tracked,
			Repeat:    after.events,
			CausedBy:  d.causeOf(r.detection, before),
			Lifecycle: after.life,
		}
		after.context = d.addContext(c, r.detection, &sight)
		c.observe(r.detection, sight)
	}
	c.remember(r, key, after)
	return nil
}

// addContext adds to a version what is known of its devices, and returns known.context.
func (d *Detections) addContext(c *pageChanges, version transform.Detection, sight *transform.Observation) (mark []byte) {
	if d.o.Contexts == nil {
		return nil
	}
	if sight.Added.Context, mark = d.o.Contexts.of(version); mark != nil {
		c.marked = append(c.marked, version.ID)
	}
	return mark
}

// ReusedID is an id that another detection had before: the appliance was replaced or
// restored from a backup.
type ReusedID struct {
	ID      int64
	Was, Is time.Time // of creation
}

// reused reports a detection that has the id of a known one.
func (d *Detections) reused(ctx context.Context, v transform.Detection, before known) error {
	if d.o.Reused == nil {
		return nil
	}
	err := d.o.Reused(ctx, ReusedID{ID: v.ID, Was: time.UnixMilli(before.created).UTC(), Is: time.UnixMilli(v.Created).UTC()})
	if err != nil {
		return fmt.Errorf("report that the id %d is reused: %w", v.ID, err)
	}
	return nil
}

// encode creates the events of a page.
func (d *Detections) encode(ctx context.Context, news []transform.Detection, sights []transform.Observation) ([]transform.Event, error) {
	if d.o.Enrich != nil && len(news) > 0 {
		for i, added := range d.o.Enrich(ctx, news) {
			added.Context = sights[i].Added.Context
			sights[i].Added = added
		}
	}
	events := make([]transform.Event, len(news))
	for i, detection := range news {
		var err error
		if events[i], err = d.events.Detection(detection, sights[i]); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// isNew reports whether an unknown detection is new. One that changed after the first
// contact and began long ago may have been known and forgotten.
func (d *Detections) isNew(p detectionsPosition, v transform.Detection) bool {
	return v.Began >= p.Start && (v.ModTime < p.Contact || v.Began >= p.ModTime-d.o.ForgetAfter.Milliseconds())
}

// lazyCommit is how far the position may move without being committed if there is nothing
// else to commit: an idle stream writes nothing.
const lazyCommit = time.Minute

// commit writes c with the position p.
func (d *Detections) commit(ctx context.Context, p detectionsPosition, c checkpoint.Commit) error {
	p.Page = d.longest
	if len(c.Remember) == 0 && d.loaded {
		moved, far := p, p.ModTime-d.written.ModTime
		if len(c.Events) > 0 {
			far = -1 // repeated events have to be committed
		}
		moved.ModTime, moved.Whole, moved.Page = d.written.ModTime, d.written.Whole, d.written.Page
		if moved == d.written && far >= 0 && far < lazyCommit.Milliseconds() {
			d.position = p
			return nil
		}
	}
	c.ForgetBefore = max(0, p.ModTime-d.o.ForgetAfter.Milliseconds())
	if err := d.write(ctx, c, encodePosition(p)); err != nil {
		return err
	}
	d.position, d.written = p, p
	return nil
}

// ownWrites knows what the bridge itself writes to the appliance, so that a version that
// contains nothing else can be distinguished from changes made by others.
type ownWrites interface {
	// IsOwnWrite reports whether everything that changed in a detection since the last
	// delivered version, with that mod_time and Tracked, was written by the bridge.
	IsOwnWrite(seen transform.Detection, lastModTime int64, last []byte) bool
	// Delivered reports to OwnWrites that these versions are in the journal.
	Delivered(versions []transform.Detection)
}

// causeOf returns the cause of a version, given what is known of the detection. A
// detection seen for the first time has none; what changed in a version that was given up
// is not known.
func (d *Detections) causeOf(seen transform.Detection, last known) string {
	if d.o.OwnWrites != nil && len(last.tracked) > 0 && !last.dead && d.o.OwnWrites.IsOwnWrite(seen, last.modTime, last.tracked) {
		return transform.CausedByWriteback
	}
	return ""
}
