package appliance

import (
	"errors"
	"fmt"
	"slices"

	"ndrbridge/test/appliance/devices"
	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

// The size of device groups.
const (
	maxGroups = 1000
	maxGroup  = 256 << 10 // bytes of one
)

// newDeviceResources sets the devices, and what groups and marks them.
func (a *Appliance) newDeviceResources() {
	now := a.millis()
	a.resources.population = devices.NewPopulation(a.options.word(), now)
	a.resources.devices = deviceSet{a}
	a.resources.deviceGroups = resource.NewCollection(a.description, resource.Kind{
		Path: "/devicegroups", Name: "device group", Component: "DeviceGroup", Unique: []string{"name"}, Max: maxGroups,
		Complete: func(_ *rest.Request, group resource.Object) {
			if _, ok := group["filter"]; !ok {
				group["filter"] = nil
			}
			if _, ok := group["dynamic"]; !ok {
				group["dynamic"] = group["filter"] != nil
			}
		},
		Check: func(r *rest.Request, _, group resource.Object) error {
			encoded, err := rest.Encode(group)
			switch {
			case err != nil:
				return fmt.Errorf("encode the device group: %w", err)
			case len(encoded) > maxGroup:
				return fmt.Errorf("a device group has at most %d bytes", maxGroup)
			case group["dynamic"] == true && group["filter"] == nil:
				return errors.New("filter: a dynamic group requires one")
			case group["dynamic"] == false && group["filter"] != nil:
				return errors.New("filter: a static group has none")
			case group["filter"] == nil:
				return nil
			}
			_, err = devices.ParseFilter(group["filter"], r.Now)
			return err
		},
	})
	a.resources.tags = resource.NewCollection(a.description, resource.Kind{
		Path: "/tags", Name: "tag", Component: "Tag", Unique: []string{"name"},
	})
	a.addNetworks(now)
	a.addTriggers(now)

	parent := resource.Side{Path: "/devices", Name: "device", Set: a.resources.devices}
	a.resources.groupsOfDevices = resource.NewRelation(parent, resource.Side{Path: "/devicegroups", Name: "device group", Set: a.resources.deviceGroups})
	a.resources.groupsOfDevices.Refuse(func(_, group int64) error {
		if a.resources.deviceGroups.Get(group)["dynamic"] == true {
			return fmt.Errorf("the filter of device group %d decides which devices belong to it", group)
		}
		return nil
	})
	a.resources.tagsOfDevices = resource.NewRelation(parent, resource.Side{Path: "/tags", Name: "tag", Set: a.resources.tags})
	a.resources.triggersOfDevices = resource.NewRelation(parent, resource.Side{Path: "/triggers", Name: "trigger", Set: a.resources.triggers})
	a.resources.triggersOfDevices.Indirect(false, func(int64) []int64 {
		var ids []int64
		for _, trigger := range a.resources.triggers.All() {
			if trigger["apply_all"] == true {
				ids = append(ids, resource.Number(trigger, "id"))
			}
		}
		return ids
	})
}

func (a *Appliance) addNetworks(now int64) {
	a.resources.networks = resource.NewCollection(a.description, resource.Kind{
		Path: "/networks", Name: "network", Component: "Network",
	})
	for _, network := range []resource.Object{
		{"name": "Default network", "description": "Everything that no other network contains.", "node_id": nil},
		{"name": "Branch office", "description": nil, "node_id": int64(3)},
	} {
		network["idle"], network["mod_time"] = false, now
		a.resources.networks.Add(network)
	}
}

func (a *Appliance) addTriggers(now int64) {
	a.resources.triggers = resource.NewCollection(a.description, resource.Kind{
		Path: "/triggers", Name: "trigger", Component: "Trigger", Max: 500,
	})
	for _, trigger := range []resource.Object{
		{"name": "Count requests by path", "events": []any{"HTTP_REQUEST"}, "script": "Device.metricAddDetailCount('paths', HTTP.path, 1);", "apply_all": true, "disabled": false},
		{"name": "Record long names", "events": []any{"DNS_REQUEST"}, "script": "if (DNS.qname.length > 60) { DNS.commitRecord(); }", "apply_all": false, "disabled": false},
		{"name": "Log sign-ins", "events": []any{"LDAP_REQUEST", "LDAP_RESPONSE"}, "script": "debug(LDAP.dn);", "apply_all": false, "disabled": true},
	} {
		trigger["author"], trigger["description"], trigger["mod_time"] = nil, nil, now
		a.resources.triggers.Add(trigger)
	}
}

// membership returns whether devices belong to a device group at the time now, in milliseconds.
// No device belongs to a group that does not exist.
func (a *Appliance) membership(group, now int64) func(*devices.Device) bool {
	object := a.resources.deviceGroups.Get(group)
	if object == nil || object["filter"] == nil {
		assigned := a.resources.groupsOfDevices.Parents(group) // sorted
		return func(d *devices.Device) bool {
			_, ok := slices.BinarySearch(assigned, d.ID)
			return ok
		}
	}
	filter, err := devices.ParseFilter(object["filter"], now)
	if err != nil {
		return func(*devices.Device) bool { return false } // it was put there unchecked
	}
	return filter.Matches
}

// members returns the ids of the devices that belong to a device group, sorted.
func (a *Appliance) members(group, now int64) []int64 {
	belongs := a.membership(group, now)
	return slices.DeleteFunc(a.resources.population.IDs(), func(id int64) bool {
		d := a.device(id, now)
		return d == nil || !belongs(d)
	})
}

// tagged returns the ids of the devices that have a tag, sorted.
func (a *Appliance) tagged(tag, _ int64) []int64 {
	return append([]int64{}, a.resources.tagsOfDevices.Parents(tag)...) // nil would select all
}

// devicesIn returns a handler that lists the devices that belong to an object of a collection.
func (a *Appliance) devicesIn(what string, sets *resource.Collection, members func(id, now int64) []int64) rest.Handler {
	return func(r *rest.Request) rest.Answer {
		id := r.ID("id")
		if !sets.Has(id) {
			return rest.NotFound("no %s has the id %d", what, id)
		}
		s, err := newSelection(inQuery(r), r.Now)
		if err != nil {
			return rest.BadRequest(err)
		}
		s.ids = members(id, r.Now)
		return a.selectDevices(r.Context(), s, r.Now)
	}
}

// groupsOfDevice serves GET /devices/{id}/devicegroups.
func (a *Appliance) groupsOfDevice(r *rest.Request, d *devices.Device) rest.Answer {
	get := inQuery(r)
	from, until, err := window(get, "active_from", "active_until", r.Now)
	if err != nil {
		return rest.BadRequest(err)
	}
	windowed := get("active_from") != nil || get("active_until") != nil
	var ids []int64
	for _, group := range a.resources.deviceGroups.All() {
		id, dynamic := resource.Number(group, "id"), group["dynamic"] == true
		if windowed && (!dynamic || !d.ActiveIn(from, until)) {
			continue
		}
		if a.membership(id, r.Now)(d) {
			ids = append(ids, id)
		}
	}
	return rest.Array(a.resources.deviceGroups.Shown(r, ids))
}
