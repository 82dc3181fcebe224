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
