package appliance_test

import (
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
)

func TestDashboards(t *testing.T) {
	_, c := serve(t, standin.Options{})
	wantIDs(t, idsOf(t, c.want(200, "GET", "/dashboards", "").body), 1, 2, 3, 4)
	const web = `{"author":"api","comment":null,"id":3,"mod_time":1772600767890,"name":"Web services","owner":"api",` +
		`"rights":["transfer","view","edit","share","delete"],"short_code":"WebSv","type":"custom"}`
	for _, address := range []string{"3", "~WebSv"} {
		if got := c.want(200, "GET", "/dashboards/"+address, "").body; got != web {
			t.Errorf("the dashboard %s is %s", address, got)
		}
	}
	wantIDs(t, idsOf(t, c.want(200, "GET", "/dashboards/~WebSv/reports", "").body), 1)
	if got := c.want(200, "GET", "/dashboards/4/reports", "").body; got != "[]" {
		t.Errorf("the reports are %s", got)
	}
	for name, test := range map[string]struct {
		status             int
		method, path, body string
	}{
		"an id that no dashboard has":             {404, "GET", "/dashboards/9", ""},
		"an id that is not a number":              {404, "GET", "/dashboards/WebSv", ""},
		"a short code that no dashboard has":      {404, "GET", "/dashboards/~web", ""},
		"reports of a dashboard that is not":      {404, "GET", "/dashboards/9/reports", ""},
		"deleting by a short code":                {400, "DELETE", "/dashboards/~WebSv", ""},
		"deleting a dashboard of the system":      {403, "DELETE", "/dashboards/1", ""},
		"sharing a dashboard of the system":       {403, "PUT", "/dashboards/1/sharing", `{"anyone":"viewer"}`},
		"a new owner of one of the system":        {403, "PATCH", "/dashboards/1", `{"owner":"api"}`},
		"an owner who does not exist":             {400, "PATCH", "/dashboards/3", `{"owner":"eve"}`},
		"a change of the name":                    {400, "PATCH", "/dashboards/3", `{"owner":"api","name":"a"}`},
		"a change of a dashboard that is not":     {404, "PATCH", "/dashboards/9", `{"owner":"api"}`},
		"the sharing of a dashboard that is not":  {404, "GET", "/dashboards/~none/sharing", ""},
		"sharing with a user who does not exist":  {400, "PATCH", "/dashboards/3/sharing", `{"users":{"eve":"viewer"}}`},
		"sharing that changes nothing":            {400, "PATCH", "/dashboards/3/sharing", `{}`},
		"a creation, which the interface has not": {405, "POST", "/dashboards", `{"name":"a"}`},
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			c.want(test.status, test.method, test.path, test.body)
		})
	}
	c.want(204, "DELETE", "/dashboards/4", "")
	c.want(404, "GET", "/dashboards/~BrOff", "")
	c.want(204, "DELETE", "/dashboards/3", "")
	if got := c.want(200, "GET", "/dashboards/1/reports", "").body; !strings.Contains(got, `"dashboards":[1]`) {
		t.Errorf("the reports contain a dashboard that was deleted: %s", got)
	}
}

func TestADashboardBelongsToItsNewOwner(t *testing.T) {
	_, c := serve(t, standin.Options{})
	eve := c.user("eve", `{"write":"full","metrics":"full","ndr":"full","npm":"full"}`)
	wantIDs(t, idsOf(t, eve.want(200, "GET", "/dashboards", "").body), 1, 2)
	c.want(204, "PUT", "/dashboards/~WebSv/sharing", `{"users":{"eve":"editor"}}`)
	eve.want(403, "PATCH", "/dashboards/3", `{"owner":"eve"}`)

	c.want(204, "PATCH", "/dashboards/~BrOff", `{"owner":"eve"}`)
	if got := eve.want(200, "GET", "/dashboards/4", "").body; !strings.Contains(got, `"owner":"eve"`) || !strings.Contains(got, `"transfer"`) {
		t.Errorf("the owner sees %s", got)
	}
	eve.want(204, "PATCH", "/dashboards/4/sharing", `{"anyone":"viewer"}`)
	const shared = `{"anyone":"viewer","groups":{},"users":{}}`
	if got := eve.want(200, "GET", "/dashboards/4/sharing", "").body; got != shared {
		t.Errorf("the sharing is %s", got)
	}
	eve.want(204, "DELETE", "/dashboards/4", "")
}
