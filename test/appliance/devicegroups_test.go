package appliance_test

import (
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
)

func TestDeviceGroups(t *testing.T) {
	_, c := serve(t, standin.Options{})
	const servers = `{"name":"Servers","filter":{"field":"role","operator":"=","operand":"http_server"}}`
	if at := c.want(201, "POST", "/devicegroups", servers).header.Get("Location"); at != "/api/v1/devicegroups/1" {
		t.Errorf("the location is %q", at)
	}
	c.want(201, "POST", "/devicegroups", `{"name":"Printers","description":"all floors"}`)
	c.want(204, "PATCH", "/devicegroups/1", `{"description":"web"}`)
	const changed = `{"description":"web","dynamic":true,"filter":{"field":"role","operand":"http_server","operator":"="},"id":1,"mod_time":1772600767890,"name":"Servers"}`
	if got := c.want(200, "GET", "/devicegroups/1", "").body; got != changed {
		t.Errorf("the group is %s, want %s", got, changed)
	}
	wantIDs(t, idsOf(t, c.want(200, "GET", "/devicegroups", "").body), 1, 2)
	c.want(204, "DELETE", "/devicegroups/1", "")
	c.want(404, "GET", "/devicegroups/1", "")
}

func TestMembersOfDeviceGroups(t *testing.T) {
	_, c := serve(t, standin.Options{})
	c.want(201, "POST", "/devicegroups", `{"name":"Routers","filter":{"operator":"and","rules":[{"field":"role","operator":"=","operand":"gateway"},{"field":"node","operator":"=","operand":"3"}]}}`)
	c.want(201, "POST", "/devicegroups", `{"name":"Tagged","filter":{"field":"tag","operator":"exists"}}`)
	c.want(201, "POST", "/devicegroups", `{"name":"Static"}`)
	c.want(201, "POST", "/tags", `{"name":"lab"}`)
	const router = "/devices/12884901889"
	members := func(group, query string) []int64 {
		t.Helper()
		return idsOf(t, c.want(200, "GET", "/devicegroups/"+group+"/devices"+query, "").body)
	}
	groups := func(query string) []int64 {
		t.Helper()
		return idsOf(t, c.want(200, "GET", router+"/devicegroups"+query, "").body)
	}
	wantIDs(t, members("1", "?limit=2&offset=1"), 3<<32+51, 3<<32+101)
	wantIDs(t, members("2", ""))
	wantIDs(t, members("3", ""))
	c.want(404, "GET", "/devicegroups/4/devices", "")
	wantIDs(t, groups(""), 1)

	c.want(204, "POST", router+"/tags", `{"assign":[1]}`)
	c.want(204, "POST", router+"/devicegroups/3", "")
	wantIDs(t, members("2", ""), 3<<32+1)
	wantIDs(t, members("3", ""), 3<<32+1)
	wantIDs(t, members("3", "?active_until=1"))
	wantIDs(t, groups(""), 1, 2, 3)
	wantIDs(t, groups("?active_from=-1h"), 1, 2)
	wantIDs(t, groups("?active_from=1&active_until=2"))

	c.want(422, "POST", router+"/devicegroups/1", "")
	c.want(422, "POST", router+"/devicegroups", `{"unassign":[1,3]}`)
	c.want(404, "POST", router+"/devicegroups", `{"assign":[4]}`)
	c.want(204, "POST", router+"/devicegroups", `{"unassign":[3]}`)
	c.want(204, "POST", router+"/devicegroups", `{"assign":[3]}`)
	c.want(204, "DELETE", router+"/devicegroups/3", "")
	c.want(404, "DELETE", router+"/devicegroups/3", "")
	c.want(204, "DELETE", "/tags/1", "")
	wantIDs(t, groups(""), 1)
	c.want(204, "PATCH", "/devicegroups/1", `{"filter":{"field":"is_active","operator":"=","operand":false}}`)
	wantIDs(t, groups(""))
}

func TestTagsOfDevices(t *testing.T) {
	_, c := serve(t, standin.Options{})
	for _, name := range []string{"a", "b", "c"} {
		c.want(201, "POST", "/tags", `{"name":"`+name+`"}`)
	}
	c.want(204, "POST", "/devices/1/tags", `{"assign":[1,3]}`)
	c.want(204, "POST", "/devices/1/tags/2", "")
	c.want(204, "DELETE", "/devices/1/tags/3", "")
	c.want(404, "POST", "/devices/1/tags/4", "")
	c.want(404, "POST", "/devices/77777/tags/1", "")
	wantIDs(t, idsOf(t, c.want(200, "GET", "/devices/1/tags", "").body), 1, 2)
	c.want(204, "DELETE", "/tags/2", "")
	wantIDs(t, idsOf(t, c.want(200, "GET", "/devices/1/tags", "").body), 1)
}

func TestTriggersOfDevices(t *testing.T) {
	_, c := serve(t, standin.Options{})
	c.want(204, "POST", "/devices/1/triggers", `{"assign":[3]}`)
	c.want(204, "POST", "/devices/1/triggers/2", "")
	c.want(204, "DELETE", "/devices/1/triggers/3", "")
	wantIDs(t, idsOf(t, c.want(200, "GET", "/devices/1/triggers", "").body), 1, 2)
	wantIDs(t, idsOf(t, c.want(200, "GET", "/devices/1/triggers?direct_assignments_only=true", "").body), 2)
	wantIDs(t, idsOf(t, c.want(200, "GET", "/devices/2/triggers?direct_assignments_only=true", "").body))
}

func TestTags(t *testing.T) {
	_, c := serve(t, standin.Options{})
	c.want(201, "POST", "/tags", `{"name":"crown jewels"}`)
	c.want(400, "POST", "/tags", `{"name":"crown jewels"}`)
	const tag = `{"id":1,"mod_time":1772600767890,"name":"crown jewels"}`
	if one, all := c.want(200, "GET", "/tags/1", "").body, c.want(200, "GET", "/tags", "").body; one != tag || all != "["+tag+"]" {
		t.Errorf("the tag is %s, the tags are %s", one, all)
	}
	c.want(204, "DELETE", "/tags/1", "")
	c.want(404, "GET", "/tags/1", "")
}

func TestNetworksAndTriggers(t *testing.T) {
	_, c := serve(t, standin.Options{})
	wantIDs(t, idsOf(t, c.want(200, "GET", "/networks", "").body), 1, 2)
	wantIDs(t, idsOf(t, c.want(200, "GET", "/triggers", "").body), 1, 2, 3)
	for path, name := range map[string]string{"/networks/2": "Branch office", "/triggers/1": "Count requests by path"} {
		if got := c.want(200, "GET", path, "").body; !strings.Contains(got, `"name":"`+name+`"`) {
			t.Errorf("%s is %s", path, got)
		}
		c.want(405, "DELETE", path, "")
	}
}
