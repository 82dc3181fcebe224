package appliance

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Generate returns a realistic detection whose times are before the appliance's time. It
// is not visible until it is added, and its ModTime is 0, so that Add sets it. Its slices
// and pointers are shared with other detections: replace them rather than modify what they
// refer to.
func (a *Appliance) Generate() Detection {
	a.store.Lock()
	defer a.store.Unlock()
	return a.store.generator.next(a.millis())
}

// Add makes detections visible. An ID of 0 is replaced with the next free one, a ModTime
// of 0 with the appliance's time, and other times of 0 accordingly. What a detection
// refers to must not be modified afterwards. Add panics if an ID is already visible.
func (a *Appliance) Add(detections ...Detection) []*Version {
	a.store.Lock()
	defer a.store.Unlock()
	return a.add(detections)
}

// add is Add for callers that have locked the store.
func (a *Appliance) add(detections []Detection) []*Version {
	versions := make([]*Version, len(detections))
	for i, d := range detections {
		if d.ID == 0 {
			d.ID = a.store.generator.nextID(d.ApplianceID)
		}
		if a.store.last(d.ID) != nil {
			panic(fmt.Sprintf("detection %d is visible already", d.ID))
		}
		if d.ModTime == 0 {
			d.ModTime = a.millis()
		}
		if d.UpdateTime == 0 {
			d.UpdateTime = d.ModTime
		}
		if d.StartTime == 0 {
			d.StartTime = d.UpdateTime
		}
		if d.CreateTime == 0 {
			d.CreateTime = d.StartTime
		}
		versions[i] = a.show(&d, "")
	}
	return versions
}

// show makes d the visible version of its detection. by is the user who made it. The store
// must be locked.
func (a *Appliance) show(d *Detection, by string) *Version {
	shown := *d
	if a.oldFirmware.Load() {
		shown.ModTime, shown.CreateTime, shown.URL = 0, 0, ""
	}
	shown.TicketURL = a.ticketURL(d.TicketID)
	v, err := newVersion(&shown, a.options.OmitEmpty)
	if err != nil {
		panic(err) // the caller passed properties that cannot be encoded
	}
	v.ModTime, v.CreateTime, v.By = d.ModTime, d.CreateTime, by
	a.store.put(v)
	a.store.saw(v)
	a.seeDevices(d)
	return v
}

// ticketURL returns the address of a ticket, or Null if there is no ticket.
func (a *Appliance) ticketURL(id TicketID) Text {
	if id.ID == "" {
		return Null
	}
	return Text(strings.ReplaceAll(a.options.TicketURL, "$ticket_id", url.PathEscape(id.ID)))
}

// AddMany adds n generated detections, one after the other.
func (a *Appliance) AddMany(n int) []*Version {
	versions := make([]*Version, n)
	for i := range versions {
		versions[i] = a.Add(a.Generate())[0]
	}
	return versions
}

// AddTied adds n generated detections at once, with one mod_time; 0: the
// appliance's time.
func (a *Appliance) AddTied(n int, modTime int64) []*Version {
	a.store.Lock()
	defer a.store.Unlock()
	if modTime == 0 {
		modTime = a.millis()
	}
	return a.addGenerated(n, func(int) int64 { return modTime })
}

// AddBacklog adds n generated detections whose mod_times are spread evenly over
// the time up to now.
func (a *Appliance) AddBacklog(n int, over time.Duration) []*Version {
	a.store.Lock()
	defer a.store.Unlock()
	now := a.millis()
	return a.addGenerated(n, func(i int) int64 {
		return now - int64(float64(over.Milliseconds())*float64(n-1-i)/float64(n))
	})
}

func (a *Appliance) addGenerated(n int, modTime func(i int) int64) []*Version {
	versions := make([]*Version, n)
	for i := range versions {
		at := modTime(i)
		d := a.store.generator.next(at)
		d.ModTime = at
		versions[i] = a.add([]Detection{d})[0]
	}
	return versions
}

// AddLate adds a generated detection that is visible from now on, with a
// mod_time in the past.
func (a *Appliance) AddLate(ago time.Duration) *Version {
	return a.AddTied(1, a.millis()-ago.Milliseconds())[0]
}

// AddFuture adds a generated detection that is visible from now on, with a
// mod_time in the future.
func (a *Appliance) AddFuture(ahead time.Duration) *Version {
	return a.AddTied(1, a.millis()+ahead.Milliseconds())[0]
}

// AddHuge adds a generated detection of at least size bytes.
func (a *Appliance) AddHuge(size int) *Version {
	d := a.Generate()
	d.Properties = map[string]any{"payload": string(slices.Repeat([]byte("A"), size))}
	return a.Add(d)[0]
}

// AddInvalidUTF8 adds a generated detection with bytes that are not UTF-8 in its
// title.
func (a *Appliance) AddInvalidUTF8() *Version {
	d := a.Generate()
	d.RawTitle = []byte("Rare host \xff\xfe name \xc3\x28")
	return a.Add(d)[0]
}

// Update changes visible detections and sets their mod_time to the appliance's time, unless
// change sets another. change is called once for each and must not call the appliance. If
// one is not visible, Update returns an error and changes none.
func (a *Appliance) Update(change func(*Detection), ids ...int64) error {
	return a.UpdateAs("", change, ids...)
}

// UpdateAs is Update by an analyst, whose name is the By of the new versions.
func (a *Appliance) UpdateAs(analyst string, change func(*Detection), ids ...int64) error {
	a.store.Lock()
	defer a.store.Unlock()
	modTime := a.millis()
	return a.change(ids, analyst, func(d *Detection) {
		d.ModTime = modTime
		change(d)
	})
}

// Edit is like Update but does not change mod_time, like a second change within a
// millisecond.
func (a *Appliance) Edit(change func(*Detection), ids ...int64) error {
	a.store.Lock()
	defer a.store.Unlock()
	return a.change(ids, "", func(d *Detection) {
		modTime := d.ModTime
		change(d)
		d.ModTime = modTime
	})
}

// change changes visible detections on behalf of the user by. The store must be locked.
func (a *Appliance) change(ids []int64, by string, change func(*Detection)) error {
	for _, id := range ids {
		if a.store.last(id) == nil {
			return fmt.Errorf("change detection %d: it is not visible", id)
		}
	}
	for _, id := range ids {
		d := a.store.last(id).Detection()
		change(&d)
		d.ID = id
		a.show(&d, by)
	}
	return nil
}

// Hide makes detections invisible, as deletion does. It ignores those that are not
// visible.
func (a *Appliance) Hide(ids ...int64) {
	a.store.Lock()
	defer a.store.Unlock()
	for _, id := range ids {
		if v := a.store.last(id); v != nil {
			a.store.hide(v)
			a.store.forget(id)
			delete(a.store.notes, id)
		}
	}
}

// History returns every version that was ever visible, whatever tuning rules hide, in the
// order in which they were created. It is empty if Options.NoHistory is set.
func (a *Appliance) History() []*Version {
	a.store.RLock()
	defer a.store.RUnlock()
	return slices.Clone(a.store.history)
}

// Latest returns the visible versions, sorted by mod_time, then id. Tuning rules do not
// matter: what they hide from clients is among them.
func (a *Appliance) Latest() []*Version {
	a.store.RLock()
	defer a.store.RUnlock()
	latest := make([]*Version, 0, len(a.store.current))
	for v := range a.store.byModTime.from(-1 << 63) {
		latest = append(latest, v)
	}
	return latest
}

// Len returns the number of detections that Latest returns.
func (a *Appliance) Len() int {
	a.store.RLock()
	defer a.store.RUnlock()
	return len(a.store.current)
}
