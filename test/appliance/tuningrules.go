package appliance

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"ndrbridge/test/appliance/devices"
	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
	"ndrbridge/test/appliance/tuning"
)

// maxTuningRules is the number of tuning rules that an appliance holds.
const maxTuningRules = 100

// tuned contains the tuning rules and which detections they match, whether the rules are
// active or not. The store's lock guards it.
type tuned struct {
	rules   []*tunedRule             // by slot; nil: free
	matches map[int64][]tuningMatch  // by detection
	members map[int64]map[int64]bool // the devices of the groups that rules refer to
}

type tunedRule struct {
	*tuning.Rule
	id                       int64
	detections, participants int // that it matches
}

// tuningMatch says that the rule in a slot matches a detection.
type tuningMatch struct{ slot, participants uint16 }

// hidden are the detections that active rules hide. The zero value hides none.
type hidden struct {
	active  []bool // by slot; nil: no rule is active
	matches map[int64][]tuningMatch
}

// has reports whether a detection is hidden.
func (h hidden) has(id int64) bool {
	return h.active != nil && slices.ContainsFunc(h.matches[id], func(m tuningMatch) bool { return h.active[m.slot] })
}

// at returns what is hidden at a time in milliseconds. It is valid while the store is locked.
func (t *tuned) at(now int64) hidden {
	h := hidden{matches: t.matches}
	for slot, rule := range t.rules {
		if rule != nil && rule.Active(now) {
			if h.active == nil {
				h.active = make([]bool, len(t.rules))
			}
			h.active[slot] = true
		}
	}
	return h
}

func (t *tuned) member(group, device int64) bool { return t.members[group][device] }

func (t *tuned) slotOf(id int64) int {
	return slices.IndexFunc(t.rules, func(r *tunedRule) bool { return r != nil && r.id == id })
}

// set adds or replaces the rule with an id.
func (t *tuned) set(id int64, rule *tuning.Rule, detections []*Version) {
	slot := t.slotOf(id)
	if slot < 0 {
		slot = slices.Index(t.rules, nil)
	}
	if slot < 0 {
		slot = len(t.rules)
		t.rules = append(t.rules, nil)
	}
	if t.matches == nil {
		t.matches = make(map[int64][]tuningMatch)
	}
	t.rules[slot] = &tunedRule{Rule: rule, id: id}
	t.rematch([]int{slot}, detections)
}

// remove removes the rule with an id, if there is one.
func (t *tuned) remove(id int64) {
	if slot := t.slotOf(id); slot >= 0 {
		t.rematch([]int{slot}, nil)
		t.rules[slot] = nil
	}
}

// rematch matches the rules in some slots with the detections, and with no others.
func (t *tuned) rematch(slots []int, detections []*Version) {
	for id, matches := range t.matches {
		matches = slices.DeleteFunc(matches, func(m tuningMatch) bool { return slices.Contains(slots, int(m.slot)) })
		if t.matches[id] = matches; len(matches) == 0 {
			delete(t.matches, id)
		}
	}
	for _, slot := range slots {
		t.rules[slot].detections, t.rules[slot].participants = 0, 0
	}
	for _, v := range detections {
		t.match(v, slots)
	}
}

// saw matches the visible version of a detection with the rules.
func (t *tuned) saw(v *Version) {
	t.forget(v.ID)
	var slots []int
	for slot, rule := range t.rules {
		if rule != nil {
			slots = append(slots, slot)
		}
	}
	t.match(v, slots)
}

// forget removes what is known of a detection.
func (t *tuned) forget(id int64) {
	for _, m := range t.matches[id] {
		t.rules[m.slot].detections--
		t.rules[m.slot].participants -= int(m.participants)
	}
	delete(t.matches, id)
}

// match matches a detection with the rules in some slots, and counts it for those that match.
func (t *tuned) match(v *Version, slots []int) {
	var subject *tuning.Subject
	for _, slot := range slots {
		rule := t.rules[slot]
		if !rule.Covers(v.Type, v.Categories) {
			continue
		}
		if subject == nil {
			subject = subjectOf(v) // which takes much longer than the rest
		}
		if participants, ok := rule.Match(subject, t.member); ok {
			m := tuningMatch{uint16(slot), uint16(min(participants, 1<<16-1))}
			rule.detections++
			rule.participants += int(m.participants)
			t.matches[v.ID] = append(t.matches[v.ID], m)
		}
	}
}

// subjectOf returns a detection as rules see it.
func subjectOf(v *Version) *tuning.Subject {
	d := v.Detection()
	s := &tuning.Subject{Properties: d.Properties}
	for _, p := range d.Participants {
		seen := tuning.Participant{Role: p.Role, External: p.External, Scanner: p.ScannerService.String()}
		if p.ObjectType == "device" {
			seen.Device = p.ObjectID
		}
		if address, err := netip.ParseAddr(p.ObjectValue); err == nil {
			seen.Address = address.Unmap()
		}
		s.Participants = append(s.Participants, seen)
	}
	return s
}

// newTuningRules returns the collection of tuning rules.
func (a *Appliance) newTuningRules() *resource.Collection {
	return resource.NewCollection(a.description, resource.Kind{
		Path: "/detections/rules/hiding", Name: "tuning rule", Component: "TuningRule", Max: maxTuningRules,
		Complete: func(r *rest.Request, rule resource.Object) {
			rule["author"], rule["create_time"], rule["hide_past_detections"] = r.Caller.Name, r.Now, true
			rule["detections_hidden"], rule["participants_hidden"] = 0, 0
		},
		Check: func(_ *rest.Request, before, rule resource.Object) error {
			if _, err := tuning.Compile(rule); err != nil {
				return err
			}
			return a.checkTuningRule(before, rule)
		},
		Stored:  a.storeTuningRule,
		Removed: func(id int64) { a.changeTuning(func(t *tuned) { t.remove(id) }) },
		Show:    a.showTuningRule,
	})
}

// checkTuningRule returns an error if a rule refers to what does not exist. Fields that are as
// they were before are not checked, so that a rule can be changed after something that it refers
// to was deleted; before is nil if the rule is new.
func (a *Appliance) checkTuningRule(before, rule resource.Object) error {
	for _, field := range []string{"offender", "victim"} {
		if before != nil && reflect.DeepEqual(before[field], rule[field]) {
			continue
		}
		criterion, _ := rule[field].(resource.Object)
		sets := map[string]resource.Set{"device": a.resources.devices, "device_group": a.resources.deviceGroups}
		set, id := sets[resource.Text(criterion, "object_type")], resource.Number(criterion, "object_id")
		if set != nil && !set.Has(id) {
			return fmt.Errorf("%s.object_id: there is no %s with the id %d", field, criterion["object_type"], id)
		}
	}
	if before != nil && reflect.DeepEqual(before["properties"], rule["properties"]) {
		return nil
	}
	kind := resource.Text(rule, "detection_type")
	tunable, ok := a.formats.tunable(kind)
	if !ok {
		return fmt.Errorf("detection_type: no format has the type %q", kind)
	}
	properties, _ := rule["properties"].([]any)
	for i, property := range properties {
		property, _ := property.(resource.Object)
		if name := resource.Text(property, "property"); !tunable[name] {
			return fmt.Errorf("properties.%d.property: %q is not tunable for %s", i, name, kind)
		}
	}
	return nil
}

func (a *Appliance) storeTuningRule(_ *rest.Request, object resource.Object) {
	rule, err := tuning.Compile(object)
	if err != nil {
		panic(err) // it was checked
	}
	members := a.membersOf(rule.Groups())
	a.changeTuning(func(t *tuned) {
		for group, devices := range members {
			if t.members == nil {
				t.members = make(map[int64]map[int64]bool)
			}
			t.members[group] = devices
		}
		t.set(resource.Number(object, "id"), rule, a.store.current)
	})
}

// AddRule adds a tuning rule that the appliance has by itself, and returns its id. Fields that are
// not set have their defaults; those that clients create later have higher ids.
func (a *Appliance) AddRule(fields map[string]any) int64 {
	id := a.resources.tuningRules.Add(fields)
	a.storeTuningRule(nil, a.resources.tuningRules.Get(id))
	return id
}

// Rules returns the tuning rules, sorted by id. They must not be modified.
func (a *Appliance) Rules() []map[string]any { return a.resources.tuningRules.All() }

func (a *Appliance) changeTuning(change func(*tuned)) {
	a.store.Lock()
	defer a.store.Unlock()
	change(&a.store.tuned)
	a.groupsInRules.Store(slices.ContainsFunc(a.store.tuned.rules, func(r *tunedRule) bool { return r != nil && r.Groups() != nil }))
}

// showTuningRule returns a rule with its counts.
func (a *Appliance) showTuningRule(r *rest.Request, object resource.Object) resource.Object {
	a.store.RLock()
	defer a.store.RUnlock()
	shown := maps.Clone(object)
	t := &a.store.tuned
	if slot := t.slotOf(resource.Number(object, "id")); slot >= 0 && t.rules[slot].Active(r.Now) {
		shown["detections_hidden"], shown["participants_hidden"] = t.rules[slot].detections, t.rules[slot].participants
	}
	return shown
}

// followGroups makes the rules follow the device groups that they refer to. It is called
// before an operation on detections, without the store's lock: which devices are in a group
// can depend on the detections.
func (a *Appliance) followGroups() {
	if !a.groupsInRules.Load() {
		return
	}
	a.store.RLock()
	var ids []int64
	for _, rule := range a.store.tuned.rules {
		if rule != nil {
			ids = append(ids, rule.Groups()...)
		}
	}
	a.store.RUnlock()
	groups := a.membersOf(ids)
	a.store.Lock()
	defer a.store.Unlock()
	t := &a.store.tuned
	before := t.members
	// A rule that was stored meanwhile can refer to another group, whose members are new.
	t.members = make(map[int64]map[int64]bool)
	var slots []int
	for slot, rule := range t.rules {
		if rule == nil {
			continue
		}
		changed := false
		for _, group := range rule.Groups() {
			members, ok := groups[group]
			if !ok {
				members = before[group]
			}
			t.members[group] = members
			changed = changed || !maps.Equal(before[group], members)
		}
		if changed {
			slots = append(slots, slot)
		}
	}
	if slots != nil {
		t.rematch(slots, a.store.current)
	}
}

// membersOf returns the devices of device groups.
func (a *Appliance) membersOf(groups []int64) map[int64]map[int64]bool {
	now := a.millis()
	members := make(map[int64]map[int64]bool)
	belongs := make(map[int64]func(*devices.Device) bool)
	for _, group := range groups {
		if members[group] == nil {
			members[group], belongs[group] = make(map[int64]bool), a.membership(group, now)
		}
	}
	if len(groups) == 0 {
		return members
	}
	for _, id := range a.resources.population.IDs() {
		d := a.device(id, now)
		for group, belongs := range belongs {
			if d != nil && belongs(d) {
				members[group][id] = true
			}
		}
	}
	return members
}
