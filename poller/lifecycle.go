package poller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/transform"
)

// StreamLifecycle is the stream of a Lifecycle.
const StreamLifecycle = transform.StreamDetections + "/lifecycle"

// LifecycleOptions configures a Lifecycle. The options of the detections are those of their
// source; ReconcileEvery is how often a Lifecycle looks.
type LifecycleOptions struct {
	DetectionsOptions
	// Report lists the states that become events: hidden, gone, shown.
	Report []string
	// Replaced reports whether another appliance seems to answer.
	Replaced func(ctx context.Context) (bool, error)
}

// The states of a detection that is not closed. They are the actions of the events' types.
const (
	stateHidden = "hidden"
	stateGone   = "gone"
	stateShown  = "shown"
)

// Lifecycle is a source that compares the open detections that the detections source knows with
// those that the appliance shows. A look walks through all of them, asks about each that is
// missing once more, in another way, and reports it with the events that this leads to: hidden
// or gone, and shown when it is back. Its invariants:
//
//   - An event and the state that it leads to are one commit, so that a look that failed continues
//     without repeating or skipping an event.
//   - What is reported is about the version that is known when it is reported. If the detections
//     source reads another one meanwhile, this is shown.
//   - No detection is reported as missing by an answer that failed, or by one look that misses
//     most of those known.
type Lifecycle struct {
	stream
	client *appliance.Client
	memory FollowUpStore
	o      LifecycleOptions

	filtered   *Detections // reads what the detections source reads
	unfiltered *Detections // and without its filter, which may have changed

	position lifecyclePosition
	doubt    *doubt // nil: none
}

// lifecyclePosition is the position of a Lifecycle.
type lifecyclePosition struct {
	// Looked is when the last complete look began, in milliseconds by the local clock.
	Looked int64 `json:"looked"`
}

// version distinguishes the versions of a detection that are known one after the other.
type version struct {
	ModTime int64 `json:"mod_time"`
	Events  int   `json:"events,omitzero"` // known.events
}

func (k known) version() version { return version{k.modTime, k.events} }

// reported is what a Lifecycle remembers of a detection.
type reported struct {
	version
	State string `json:"state"`
	// Reports counts the states of versions with this mod_time, which distinguishes their events.
	Reports int `json:"reports"`
}

func (r reported) missing() bool { return r.State == stateHidden || r.State == stateGone }

// NewLifecycle returns a source that continues from the position in store.
func NewLifecycle(client *appliance.Client, store FollowUpStore, o LifecycleOptions) *Lifecycle {
	reader := func(filter json.RawMessage) *Detections {
		all := o.DetectionsOptions
		all.Filter = filter
		d := NewDetections(client, store, all)
		d.pages.polls = unreadableAfter // objects that the source has given up must not end a look
		return d
	}
	return &Lifecycle{
		stream: newStream(store, StreamLifecycle, o.StreamOptions),
		client: client, memory: store, o: o,
		filtered: reader(o.Filter), unfiltered: reader(nil),
	}
}

// Poll looks if a look is due. It reports at once that a newer version was read of a detection
// that was missing.
func (l *Lifecycle) Poll(ctx context.Context) (Next, error) {
	return l.run(ctx, l.load, func(ctx context.Context) (Next, error) {
		err := l.poll(ctx)
		if e, ok := errors.AsType[*appliance.Error](err); ok && e.Status == http.StatusNotFound {
			err = errors.New(err.Error()) // of one detection: the appliance does not lack this part
		}
		return Idle, err
	})
}

// load takes over the committed position.
func (l *Lifecycle) load(context.Context) (err error) {
	l.position, l.doubt = lifecyclePosition{}, nil
	if l.committed != nil {
		l.position, err = parsePosition[lifecyclePosition](l.committed)
	}
	return err
}

func (l *Lifecycle) poll(ctx context.Context) error {
	detections, err := committedPosition(ctx, &l.filtered.stream, parsePosition[detectionsPosition])
	if errors.Is(err, ErrNoPosition) {
		return nil // nothing is known yet
	}
	if err != nil {
		return err
	}
	if err := l.readAgain(ctx); err != nil || !l.isDue() {
		return err
	}
	return l.look(ctx, detections)
}

// isDue reports whether it is time for a look.
func (l *Lifecycle) isDue() bool {
	now := l.o.Now()
	if l.doubt != nil {
		return now.Sub(l.doubt.since) >= doubtFor
	}
	since := now.UnixMilli() - l.position.Looked
	return since < 0 || since >= l.o.ReconcileEvery.Milliseconds() // the clock may have gone back
}

// readAgain reports the missing detections of which a newer version was read.
func (l *Lifecycle) readAgain(ctx context.Context) error {
	return eachRemembered(ctx, l.memory, l.source, func(entries []checkpoint.Entry) error {
		var changes []stateChange
		for _, e := range entries {
			was, err := parsePosition[reported](e.Value)
			if err != nil {
				return err
			}
			id, err := strconv.ParseInt(e.Key, 10, 64)
			if err == nil && was.missing() {
				changes = append(changes, stateChange{
					suspect: suspect{id, was.version}, newer: true, state: stateShown, explanation: "a newer version was read",
				})
			}
		}
		return l.report(ctx, changes)
	})
}

// suspect is a known version of a detection that a look did not show.
type suspect struct {
	id int64
	version
}

// look compares what is known with what the appliance shows.
func (l *Lifecycle) look(ctx context.Context, position detectionsPosition) error {
	began := l.o.Now().UnixMilli()
	f, err := l.follow(ctx)
	if err != nil {
		return err
	}
	if len(f.detections) > 0 {
		replaced, err := l.o.Replaced(ctx)
		if err != nil {
			return fmt.Errorf("find out whether the appliance was replaced: %w", err)
		}
		if replaced {
			return errors.New("the appliance seems to be another one: nothing is reported as hidden or gone; see ndrbridge status")
		}
		err = l.walk(ctx, f, f.lowestOpen, position, false)
		if err == nil && !f.witness { // closed ones may still be shown
			err = l.walk(ctx, f, f.lowest, position, true)
		}
		if err != nil {
			return fmt.Errorf("look at the known detections: %w", err)
		}
		missing, back := f.result()
		if err := l.report(ctx, back); err != nil {
			return err
		}
		if again, err := l.reportMissing(ctx, f, missing); err != nil || again {
			return err
		}
	}
	// What is remembered here is forgotten after what the detections source remembers.
	forget := min(position.ModTime-l.o.ForgetAfter.Milliseconds(), f.lowest)
	l.position.Looked = began
	return l.write(ctx, checkpoint.Commit{ForgetBefore: max(0, forget)}, encodePosition(l.position))
}

// followed is a known detection that is not closed.
type followed struct {
	version
	created int64
	missing bool // it was reported as such
	shown   bool // the walk has shown it
	closed  bool // as a closed one
}

// following is what a look compares.
type following struct {
	detections map[int64]*followed
	open       int   // those of detections that were not reported as missing
	known      int   // the known detections, closed or not
	lowest     int64 // the lowest mod_time of these
	lowestOpen int64 // and of detections
	highest    int64 // the highest of detections
	witness    bool  // the walk has shown a known detection
}

// follow collects the known detections that are not closed.
func (l *Lifecycle) follow(ctx context.Context) (*following, error) {
	f := &following{detections: make(map[int64]*followed), lowest: math.MaxInt64, lowestOpen: math.MaxInt64}
	err := eachRemembered(ctx, l.memory, l.filtered.source, func(entries []checkpoint.Entry) error {
		keys := make([]string, len(entries))
		for i, e := range entries {
			keys[i] = e.Key
		}
		values, err := l.store.Recall(ctx, l.source, keys)
		if err != nil {
			return err
		}
		for i, e := range entries {
			id, err := strconv.ParseInt(e.Key, 10, 64)
			if err != nil {
				continue // it has no position: no version of it was delivered
			}
			k, err := parseKnown(e.Value)
			if err != nil {
				return err
			}
			f.known++
			f.lowest = min(f.lowest, k.modTime)
			if len(k.tracked) == 0 || transform.IsClosed(k.tracked) {
				continue
			}
			d := &followed{version: k.version(), created: k.created}
			if values[i] != nil {
				was, err := parsePosition[reported](values[i])
				if err != nil {
					return err
				}
				d.missing = was.missing()
				if d.missing && was.version != d.version {
					continue // it was read since: the next poll reports it
				}
			}
			if !d.missing {
				f.open++
			}
			f.lowestOpen, f.highest = min(f.lowestOpen, k.modTime), max(f.highest, k.modTime)
			f.detections[id] = d
		}
		if len(f.detections) > maxVerified {
			return fmt.Errorf("more than %d detections are open: too many to be compared; set detections.reconcile.report to []", maxVerified)
		}
		return nil
	})
	return f, err
}

// walk marks the detections that the appliance shows from a mod_time on; with untilWitness, until
// one of them is known. It ends with what had changed when it began, because an appliance may
// change as fast as it is read.
func (l *Lifecycle) walk(ctx context.Context, f *following, from int64, position detectionsPosition, untilWitness bool) error {
	d, until := l.filtered, max(position.ModTime, f.highest)
	w := newWalk(wholeSecond(from) - 1)
	for first, done := true, false; !done && !(untilWitness && f.witness); first = false {
		err := d.show(ctx, w, &done, func(rows []object) error {
			if first {
				until = max(until, d.clock+clockResolution)
			}
			return l.mark(ctx, f, rows)
		})
		if err != nil {
			return err
		}
		done = done || w.bound >= until
	}
	return nil
}

// show calls rows with the next page of a walk, if it joined. A short page is not trusted to be
// the last. done is set if it was.
func (d *Detections) show(ctx context.Context, w *walk, done *bool, rows func([]object) error) error {
	defer d.page.Release()
	page, _, err := d.fetch(ctx, w)
	if err != nil {
		return err
	}
	joined, last, err := w.step(keysOf(page), len(page) == 0)
	if *done = last; err != nil || !joined {
		return err
	}
	return rows(page)
}

// wholeSecond returns a time that an appliance that shows whole seconds may show instead.
func wholeSecond(modTime int64) int64 { return modTime - modTime%1000 }

// mark marks the detections in the rows of a page.
func (l *Lifecycle) mark(ctx context.Context, f *following, rows []object) error {
	for i := range rows {
		r := &rows[i]
		d := f.detections[r.id]
		if d == nil {
			continue
		}
		if (known{created: d.created}).isOther(known{created: r.detection.Created}) {
			return fmt.Errorf("the appliance shows another detection with the id %d: it was replaced or reset; nothing is reported as hidden or gone", r.id)
		}
		d.shown, d.closed, f.witness = true, transform.IsClosed(r.detection.Tracked), true
	}
	if f.witness {
		return nil
	}
	_, values, err := l.filtered.recall(ctx, rows)
	if err != nil {
		return err
	}
	for i, value := range values {
		if value == nil {
			continue
		}
		k, err := parseKnown(value)
		if err != nil {
			return err
		}
		f.witness = f.witness || !k.isOther(known{created: rows[i].detection.Created})
	}
	return nil
}

// result returns the detections that are missing, by mod_time, and the changes of those that
// are back.
func (f *following) result() (missing []suspect, back []stateChange) {
	for id, d := range f.detections {
		is := suspect{id, d.version}
		switch {
		case !d.missing && !d.shown:
			missing = append(missing, is)
		case d.missing && d.shown && !d.closed:
			back = append(back, stateChange{suspect: is, state: stateShown, explanation: "shown again"})
		}
	}
	slices.SortFunc(missing, func(a, b suspect) int { return cmp.Or(cmp.Compare(a.ModTime, b.ModTime), cmp.Compare(a.id, b.id)) })
	slices.SortFunc(back, func(a, b stateChange) int { return cmp.Compare(a.id, b.id) })
	return missing, back
}

// doubt is a look that missed too much to be believed.
type doubt struct {
	since   time.Time
	missing map[int64]version
}

const (
	// doubtFor is the least time between two looks that must miss the same.
	doubtFor = time.Minute
	// maxMissing is how many detections a look may miss, however few are open, before another
	// look must miss them too.
	maxMissing = 10
)

// reportMissing reports the detections that are missing, after each was confirmed. again is true
// if another look has to miss them first.
func (l *Lifecycle) reportMissing(ctx context.Context, f *following, missing []suspect) (again bool, err error) {
	if len(missing) == 0 {
		l.doubt = nil
		return false, nil
	}
	rules, err := l.hidingRules(ctx)
	if err != nil {
		return false, fmt.Errorf("fetch the hiding rules: %w", err)
	}
	if !f.witness {
		if err := l.prove(ctx, rules, missing, f.known); err != nil {
			return false, err
		}
	}
	if f.witness && (len(missing) <= maxMissing || 2*len(missing) <= f.open) {
		l.doubt = nil
	} else if l.doubt == nil {
		l.doubt = &doubt{l.o.Now(), make(map[int64]version, len(missing))}
		for _, s := range missing {
			l.doubt.missing[s.id] = s.version
		}
		l.o.Log.Warn("most open detections are missing at the appliance; they are reported if another look misses them too",
			"missing", len(missing), "open", f.open, "again_in", doubtFor)
		return true, nil
	} else {
		missing = slices.DeleteFunc(missing, func(s suspect) bool { return l.doubt.missing[s.id] != s.version })
	}
	if missing, err = l.searchAgain(ctx, missing); err != nil {
		return false, fmt.Errorf("search again for missing detections: %w", err)
	}
	for chunk := range slices.Chunk(missing, rememberedChunk) {
		if err := l.confirm(ctx, rules, chunk); err != nil {
			return false, err
		}
	}
	l.doubt = nil
	return false, nil
}

// prove returns an error unless rules hide all of the missing detections, while the appliance
// shows none that is known.
func (l *Lifecycle) prove(ctx context.Context, rules hidingRules, missing []suspect, known int) error {
	for chunk := range slices.Chunk(missing, rememberedChunk) {
		_, versions, err := l.recallKnown(ctx, chunk)
		if err != nil {
			return err
		}
		for i, k := range versions {
			if matching, certain := rules.matching(k.detection(chunk[i].id)); len(matching) == 0 || !certain {
				return fmt.Errorf("the appliance shows none of the %d known detections, and no hiding rule explains it: it may have been reset, "+
					"or the key's rights changed; nothing is reported as hidden or gone. If it was reset, see ndrbridge state forget --appliance", known)
			}
		}
	}
	return nil
}

// searchAgain returns the suspects that a search around their mod_time does not show, whatever
// the filter.
func (l *Lifecycle) searchAgain(ctx context.Context, suspects []suspect) (missing []suspect, err error) {
	shown := make(map[int64]bool, len(suspects)) // the keys are the suspects
	for _, s := range suspects {
		shown[s.id] = false
	}
	var w *walk
	for done, i := false, 0; i < len(suspects) && !done; i++ {
		at := suspects[i].ModTime
		if w == nil || w.bound < at {
			w = newWalk(wholeSecond(at) - 1)
		}
		for !done && w.bound < at {
			err := l.unfiltered.show(ctx, w, &done, func(rows []object) error {
				for i := range rows {
					if _, is := shown[rows[i].id]; is {
						shown[rows[i].id] = true
					}
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return slices.DeleteFunc(suspects, func(s suspect) bool { return shown[s.id] }), nil
}

// confirm asks for each suspect by its id, and reports those that are missing.
func (l *Lifecycle) confirm(ctx context.Context, rules hidingRules, suspects []suspect) error {
	_, versions, err := l.recallKnown(ctx, suspects)
	if err != nil {
		return err
	}
	var changes []stateChange
	for i, s := range suspects {
		modTime, err := l.client.DetectionModTime(ctx, s.id)
		e, _ := errors.AsType[*appliance.Error](err)
		absent := e != nil && e.Status == http.StatusNotFound
		switch {
		case err != nil && !absent:
			return fmt.Errorf("ask for detection %d, which no search shows: %w", s.id, err)
		case err == nil && (known{modTime: s.ModTime}).isAt(modTime), absent:
			changes = append(changes, rules.explain(s, versions[i], absent))
		}
	}
	return l.report(ctx, changes)
}

// recallKnown returns what the detections source and the Lifecycle remember of suspects; the
// zero value for nothing.
func (l *Lifecycle) recallKnown(ctx context.Context, suspects []suspect) (was []reported, is []known, err error) {
	keys := make([]string, len(suspects))
	for i, s := range suspects {
		keys[i] = strconv.FormatInt(s.id, 10)
	}
	was, is = make([]reported, len(suspects)), make([]known, len(suspects))
	versions, err := l.store.Recall(ctx, l.filtered.source, keys)
	if err != nil {
		return nil, nil, err
	}
	reports, err := l.store.Recall(ctx, l.source, keys)
	if err != nil {
		return nil, nil, err
	}
	for i := range suspects {
		if versions[i] != nil {
			if is[i], err = parseKnown(versions[i]); err != nil {
				return nil, nil, err
			}
		}
		if reports[i] != nil {
			if was[i], err = parsePosition[reported](reports[i]); err != nil {
				return nil, nil, err
			}
		}
	}
	return was, is, nil
}

// detection returns the detection as far as it is remembered.
func (k known) detection(id int64) transform.Detection {
	return transform.Remembered(id, k.modTime, k.created, k.tracked)
}

// stateChange is a new state of the version of a suspect; with newer, of the one that was read
// after it.
type stateChange struct {
	suspect
	newer       bool
	state       string
	rules       []visibilityRule
	explanation string
}

// visibility is what an event says about a detection.
type visibility struct {
	State       string           `json:"state"`
	Rules       []visibilityRule `json:"rules"` // that hide it, or may
	Explanation string           `json:"explanation"`
}

// report commits changes with their events. Changes of versions that are not the known ones any
// more are left out, and so are the events of those that are closed.
func (l *Lifecycle) report(ctx context.Context, changes []stateChange) error {
	for chunk := range slices.Chunk(changes, rememberedChunk) {
		suspects := make([]suspect, len(chunk))
		for i, c := range chunk {
			suspects[i] = c.suspect
		}
		was, is, err := l.recallKnown(ctx, suspects)
		if err != nil {
			return err
		}
		var commit checkpoint.Commit
		for i, c := range chunk {
			k := is[i]
			if len(k.tracked) == 0 || (k.version() != c.version) != c.newer {
				continue
			}
			if err := l.add(&commit, c, was[i], k); err != nil {
				return err
			}
		}
		if len(commit.Remember) == 0 {
			continue
		}
		if err := l.write(ctx, commit, encodePosition(l.position)); err != nil {
			return err
		}
	}
	return nil
}

// add adds a change, and its event, to a commit.
func (l *Lifecycle) add(commit *checkpoint.Commit, c stateChange, was reported, k known) error {
	next := reported{version: k.version(), State: c.state, Reports: 1}
	if was.ModTime == next.ModTime {
		next.Reports = was.Reports + 1
	}
	commit.Remember = append(commit.Remember, checkpoint.Entry{
		Key: strconv.FormatInt(c.id, 10), Value: encodePosition(next), At: max(0, k.modTime),
	})
	if !slices.Contains(l.o.Report, c.state) || transform.IsClosed(k.tracked) {
		return nil
	}
	now := l.o.Now()
	at := now
	if l.filtered.clock > 0 {
		at = time.UnixMilli(l.filtered.clock)
	}
	event, err := l.events.FollowUp(transform.FollowUp{
		Kind: c.state, Key: fmt.Sprintf("%d-%d", next.ModTime, next.Reports), Detection: k.detection(c.id),
		At: at, Name: "visibility", Value: visibility{c.state, append([]visibilityRule{}, c.rules...), c.explanation}, Recorded: now,
	})
	if err != nil {
		return err
	}
	commit.Events = append(commit.Events, event)
	return nil
}
