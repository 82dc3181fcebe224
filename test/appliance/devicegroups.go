package appliance

import (
	"errors"

	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

// newDeviceResources sets the devices, and what groups and marks them.
func (a *Appliance) newDeviceResources() {
	now := a.millis()
	a.resources.devices = devices{a}
	a.resources.deviceGroups = resource.NewCollection(a.description, resource.Kind{
		Path: "/devicegroups", Name: "device group", Component: "DeviceGroup", Unique: []string{"name"},
		Complete: func(_ *rest.Request, group resource.Object) {
			if _, ok := group["filter"]; !ok {
				group["filter"] = nil
			}
			if _, ok := group["dynamic"]; !ok {
				group["dynamic"] = group["filter"] != nil
			}
		},
		Check: func(_ *rest.Request, _, group resource.Object) error {
			switch {
			case group["dynamic"] == true && group["filter"] == nil:
				return errors.New("filter: a dynamic group requires one")
			case group["dynamic"] == false && group["filter"] != nil:
				return errors.New("filter: a static group has none")
			}
			return nil
		},
	})
	a.resources.tags = resource.NewCollection(a.description, resource.Kind{
		Path: "/tags", Name: "tag", Component: "Tag", Unique: []string{"name"},
	})
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
	a.resources.triggers = resource.NewCollection(a.description, resource.Kind{
		Path: "/triggers", Name: "trigger", Component: "Trigger",
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
