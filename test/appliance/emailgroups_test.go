package appliance_test

import (
	"testing"

	standin "ndrbridge/test/appliance"
)

func TestEmailGroups(t *testing.T) {
	_, c := serve(t, standin.Options{})
	const soc = `{"group_name":"SOC","email_addresses":["soc@example.com"],"system_notifications":true}`
	created := c.want(201, "POST", "/emailgroups", soc)
	if at := created.header.Get("Location"); at != "/api/v1/emailgroups/1" || created.body != "" {
		t.Errorf("the location is %q, the body %q", at, created.body)
	}
	c.want(204, "PATCH", "/emailgroups/1", `{"email_addresses":[]}`)
	const changed = `{"email_addresses":[],"group_name":"SOC","id":1,"system_notifications":true}`
	if got := c.want(200, "GET", "/emailgroups/1", "").body; got != changed {
		t.Errorf("the group is %s, want %s", got, changed)
	}
	if got := c.want(200, "GET", "/emailgroups", "").body; got != "["+changed+"]" {
		t.Errorf("the groups are %s", got)
	}
	for name, test := range map[string]struct {
		status             int
		method, path, body string
	}{
		"a name that another group has":   {400, "POST", "/emailgroups", soc},
		"a group without addresses":       {400, "POST", "/emailgroups", `{"group_name":"a","system_notifications":true}`},
		"an address without a host":       {400, "PATCH", "/emailgroups/1", `{"email_addresses":["soc@"]}`},
		"a field that does not exist":     {400, "PATCH", "/emailgroups/1", `{"colour":"red"}`},
		"a field that cannot be changed":  {400, "PATCH", "/emailgroups/1", `{"id":2}`},
		"a field of another type":         {400, "PATCH", "/emailgroups/1", `{"group_name":7}`},
		"a body that is not an object":    {400, "PATCH", "/emailgroups/1", `[]`},
		"a body that is not JSON":         {400, "PATCH", "/emailgroups/1", `{`},
		"an id that no group has":         {404, "GET", "/emailgroups/2", ""},
		"a change of a group that is not": {404, "PATCH", "/emailgroups/2", `{}`},
		"a parameter that is unknown":     {400, "GET", "/emailgroups?limit=1", ""},
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			c.want(test.status, test.method, test.path, test.body)
		})
	}
	c.want(204, "DELETE", "/emailgroups/1", "")
	c.want(404, "DELETE", "/emailgroups/1", "")
	if at := c.want(201, "POST", "/emailgroups", soc).header.Get("Location"); at != "/api/v1/emailgroups/2" {
		t.Errorf("the id of a deleted group is used again: %s", at)
	}
}
