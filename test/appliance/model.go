package appliance

import (
	"fmt"
	"slices"
	"time"
)

// Generate returns a detection like those that appear on a network, whose times
// lie before the appliance's time. It is not visible until it is added; its
// ModTime is 0, so that the moment of Add decides. Replace what it points to,
// which it shares with others, rather than modify it.
func (a *Appliance) Generate() Detection {
	a.store.Lock()
	defer a.store.Unlock()
	return a.store.generator.next(a.millis())
}

// Add makes detections visible that were not. Of each, an ID of 0 becomes the
// next free one, a ModTime of 0 the appliance's time, and other times of 0 what
// goes with it. What a detection points to must not be modified from then on. It
// panics where an ID is visible already.
func (a *Appliance) Add(detections ...Detection) []*Version {
	a.store.Lock()
	defer a.store.Unlock()
	return a.add(detections)
}

// add is Add with the store locked.
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

// show makes d the visible version of its detection, with the store locked. by is
// the user who made it.
func (a *Appliance) show(d *Detection, by string) *Version {
	shown := *d
	if a.oldFirmware {
		shown.ModTime, shown.CreateTime, shown.URL = 0, 0, ""
	}
	v, err := newVersion(&shown)
	if err != nil {
		panic(err) // properties that are no JSON: a mistake of the caller
	}
	v.ModTime, v.CreateTime, v.By = d.ModTime, d.CreateTime, by
	a.store.put(v)
	return v
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
// mod_time of some time ago.
func (a *Appliance) AddLate(ago time.Duration) *Version {
	return a.AddTied(1, a.millis()-ago.Milliseconds())[0]
}

// AddFuture adds a generated detection that is visible from now on, with a
// mod_time that is yet to come.
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

// Update changes visible detections. They get one mod_time, the appliance's
// time; change may set another. change is called once for each and must not call
// the appliance. It is an error that one is not visible; then none is changed.
func (a *Appliance) Update(change func(*Detection), ids ...int64) error {
	return a.UpdateAs("", change, ids...)
}

// UpdateAs is Update by an analyst, whose name the versions carry that it makes.
func (a *Appliance) UpdateAs(analyst string, change func(*Detection), ids ...int64) error {
	a.store.Lock()
	defer a.store.Unlock()
	modTime := a.millis()
	return a.change(ids, analyst, func(d *Detection) {
		d.ModTime = modTime
		change(d)
	})
}

// Edit changes visible detections and leaves their mod_time as it is: what a
// second change within a millisecond does. Otherwise it is like Update.
func (a *Appliance) Edit(change func(*Detection), ids ...int64) error {
	a.store.Lock()
	defer a.store.Unlock()
	return a.change(ids, "", func(d *Detection) {
		modTime := d.ModTime
		change(d)
		d.ModTime = modTime
	})
}

// change changes visible detections, with the store locked. by is the user who
// does.
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

// Hide takes detections out of sight, as deletion does. Those that are not
// visible are passed over.
func (a *Appliance) Hide(ids ...int64) {
	a.store.Lock()
	defer a.store.Unlock()
	for _, id := range ids {
		if v := a.store.last(id); v != nil {
			a.store.hide(v)
		}
	}
}

// History returns every version that was ever visible, in the order in which
// they came to be. It is empty under NoHistory.
func (a *Appliance) History() []*Version {
	a.store.RLock()
	defer a.store.RUnlock()
	return slices.Clone(a.store.history)
}

// Latest returns what is visible, lowest mod_time first, then lowest id.
func (a *Appliance) Latest() []*Version {
	a.store.RLock()
	defer a.store.RUnlock()
	latest := make([]*Version, 0, len(a.store.current))
	for v := range a.store.byModTime.from(-1 << 63) {
		latest = append(latest, v)
	}
	return latest
}

// Len returns how many detections are visible.
func (a *Appliance) Len() int {
	a.store.RLock()
	defer a.store.RUnlock()
	return len(a.store.current)
}
