// Package devices implements the devices of the stand-in appliance: which there are, what is
// known about each, and the filters that select them.
//
// A device is a function of its id and of the time at which the appliance was made, of what
// detections show of it, and of what clients changed. Clients can define further devices.
package devices

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// PerSensor is the number of devices that each sensor has from the beginning. Their ids are
// the number of the sensor in the upper 32 bits, and 1 to PerSensor in the lower.
const PerSensor = 500

// Sensors returns the numbers of the sensors. 0 is the appliance itself.
func Sensors() []int64 { return []int64{0, 3, 6} }

// maxSightings is the number of addresses, and of names, that are remembered of a device
// beyond its own.
const maxSightings = 8

// Population is the devices of an appliance. It is safe for concurrent use.
type Population struct {
	word  string // the product's word
	start int64  // when the appliance was made

	mu        sync.RWMutex
	ids       []int64 // sorted
	further   map[int64]bool
	known     map[int64]*Device // what does not change; made when it is read
	addresses map[int64][]Window
	names     map[int64][]Window
	changes   map[int64]map[string]any // the fields that clients set
	changed   map[int64]int64          // when they did
}

// Window is a value that a device had for some time, in milliseconds since the epoch.
type Window struct {
	Value       string
	From, Until int64
}

// NewPopulation returns the devices of an appliance that was made at the time start. word is the
// product's name in fields.
func NewPopulation(word string, start int64) *Population {
	p := &Population{
		word: word, start: start,
		further: make(map[int64]bool), known: make(map[int64]*Device),
		addresses: make(map[int64][]Window), names: make(map[int64][]Window),
		changes: make(map[int64]map[string]any), changed: make(map[int64]int64),
	}
	for _, sensor := range Sensors() {
		for i := range int64(PerSensor) {
			p.ids = append(p.ids, sensor<<32+i+1)
		}
	}
	return p
}

// initial reports whether a device is there from the beginning.
func initial(id int64) bool {
	index := id & (1<<32 - 1)
	return index >= 1 && index <= PerSensor && slices.Contains(Sensors(), id>>32)
}

// Has implements resource.Set.
func (p *Population) Has(id int64) bool {
	if initial(id) {
		return true
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.further[id]
}

// IDs returns the ids of all devices, sorted.
func (p *Population) IDs() []int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Clone(p.ids)
}

// See remembers that a detection shows a device with an address and a name, which may be empty,
// in a range of time. The device exists from then on. An id below 1 is that of no device.
func (p *Population) See(id int64, address, name string, from, until int64) {
	if id < 1 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !initial(id) && !p.further[id] {
		p.add(id)
	}
	if _, err := netip.ParseAddr(address); err == nil {
		p.addresses[id] = see(p.addresses[id], Window{address, from, until})
	}
	if name != "" {
		p.names[id] = see(p.names[id], Window{name, from, until})
	}
}

// add adds a device that is not there from the beginning. The population must be locked.
func (p *Population) add(id int64) {
	p.further[id] = true
	at, _ := slices.BinarySearch(p.ids, id)
	p.ids = slices.Insert(p.ids, at, id)
}

// see adds a window to those of a device, the one that was seen last at the end.
func see(windows []Window, w Window) []Window {
	for i, known := range windows {
		if known.Value == w.Value {
			w.From, w.Until = min(w.From, known.From), max(w.Until, known.Until)
			windows = slices.Delete(windows, i, i+1)
			break
		}
	}
	at := len(windows)
	for at > 0 && windows[at-1].Until > w.Until {
		at--
	}
	if len(windows) == maxSightings {
		if at == 0 {
			return windows
		}
		windows, at = slices.Delete(windows, 0, 1), at-1 // the oldest
	}
	return slices.Insert(windows, at, w)
}

// Change replaces fields of a device, which must exist, by those that a client sent at the time
// now. A field that is null has the value again that the appliance found.
func (p *Population) Change(id int64, fields map[string]any, now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes := maps.Clone(p.changes[id])
	if changes == nil {
		changes = make(map[string]any, len(fields))
	}
	maps.Copy(changes, fields)
	p.changes[id], p.changed[id] = changes, now
}

// Get returns a device as it is at the time now, or nil if there is none with the id. The
// caller owns it, except for what it refers to.
func (p *Population) Get(id, now int64) *Device {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !initial(id) && !p.further[id] {
		return nil
	}
	known := p.known[id]
	if known == nil {
		known = p.make(id)
		p.known[id] = known
	}
	d := *known
	d.Fields = maps.Clone(known.Fields)
	p.complete(&d, now)
	return &d
}

// complete sets what changes of a device. The population must be locked.
func (p *Population) complete(d *Device, now int64) {
	const interval = 30_000 // in which the appliance looks whether devices are active
	if d.silent == 0 {
		d.LastSeen = max(d.Discovered, now-now%interval)
	} else {
		d.LastSeen = d.silent
	}
	seen := p.addresses[d.ID]
	if n := len(seen); n > 0 {
		d.LastSeen = max(d.LastSeen, seen[n-1].Until)
		d.Fields[versionOf(seen[n-1].Value)] = seen[n-1].Value
	}
	d.Addresses = windows(d.Addresses, seen, d.LastSeen)
	seen = p.names[d.ID]
	if n := len(seen); n > 0 {
		d.Fields["dns_name"] = seen[n-1].Value
	}
	d.Names = windows(d.Names, seen, d.LastSeen)
	d.Fields["last_seen_time"], d.Fields["mod_time"] = d.LastSeen, max(d.LastSeen, p.changed[d.ID])
	if changed, ok := p.changed[d.ID]; ok {
		d.Fields["user_mod_time"] = changed
	}
	d.apply(p.changes[d.ID])
}

// versionOf returns the field for an address.
func versionOf(address string) string {
	if strings.Contains(address, ":") {
		return "ipaddr6"
	}
	return "ipaddr4"
}

// windows returns a device's own windows, of which those without an end last until it was seen
// last, and those seen by detections.
func windows(own, seen []Window, last int64) []Window {
	all := make([]Window, 0, len(own)+len(seen))
	for _, w := range own {
		if w.Until == 0 {
			w.Until = last
		}
		all = append(all, w)
	}
	for _, w := range seen {
		if i := slices.IndexFunc(all, func(have Window) bool { return have.Value == w.Value }); i >= 0 {
			all[i].From, all[i].Until = min(all[i].From, w.From), max(all[i].Until, w.Until)
			continue
		}
		all = append(all, w)
	}
	return all
}
