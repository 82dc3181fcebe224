package appliance_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
)

// children are what can be assigned to an alert, and two of each: seeded, or created with
// the bodies.
var children = map[string][]string{
	"applications":       nil,
	"devicegroups":       {`{"name":"one"}`, `{"name":"two"}`},
	"devices":            nil,
	"emailgroups":        {`{"group_name":"one","email_addresses":[],"system_notifications":true}`, `{"group_name":"two","email_addresses":[],"system_notifications":true}`},
	"exclusionintervals": {interval("one"), interval("two")},
	"networks":           nil,
}

func interval(name string) string {
	return `{"name":"` + name + `","interval_type":"daily","start":0,"end":1,"alert_apply_all":true,"trend_apply_all":false}`
}

func TestAssignments(t *testing.T) {
	for kind, bodies := range children {
		t.Run(kind+" are assigned to alerts", func(t *testing.T) {
			_, c := serve(t, standin.Options{})
			c.want(201, "POST", "/alerts", threshold)
			alert := c.objects("/alerts")[2]["id"]
			for _, body := range bodies {
				c.create("/"+kind, body)
			}
			a, b := c.objects("/" + kind)[0]["id"], c.objects("/" + kind)[1]["id"]
			list := fmt.Sprintf("/alerts/%v/%s", alert, kind)
			wantAssigned := func(ids ...any) {
				t.Helper()
				if got, want := c.idsAt(list), fmt.Sprintf("%v", ids); got != want {
					t.Errorf("%s are assigned, want %s", got, want)
				}
			}

			wantAssigned()
			c.want(204, "POST", fmt.Sprintf("%s/%v", list, a), "")
			c.want(204, "POST", fmt.Sprintf("%s/%v", list, a), "")
			wantAssigned(a)
			c.want(204, "POST", list, fmt.Sprintf(`{"assign":[%v.0],"unassign":[%ve0]}`, b, a))
			wantAssigned(b)
			c.want(204, "POST", list, fmt.Sprintf(`{"assign":[%v,%v],"unassign":[%v]}`, a, b, b))
			wantAssigned(a)
			c.want(204, "DELETE", fmt.Sprintf("%s/%v", list, a), "")
			wantAssigned()

			c.want(404, "DELETE", fmt.Sprintf("%s/%v", list, a), "")
			c.want(404, "POST", list+"/999999", "")
			c.want(404, "DELETE", list+"/999999", "")
			c.want(404, "POST", list, fmt.Sprintf(`{"assign":[%v,999999]}`, a))
			c.want(400, "POST", list, `{}`)
			c.want(400, "POST", list, `{"assign":["1"]}`)
			wantAssigned()
			for _, method := range []string{"GET", "POST"} {
				c.want(404, method, "/alerts/999/"+kind, `{"assign":[]}`)
			}
			c.want(404, "POST", fmt.Sprintf("/alerts/999/%s/%v", kind, a), "")
		})
	}
}

func TestAssignmentsAreSeenFromBothSides(t *testing.T) {
	_, c := serve(t, standin.Options{})
	for i := range 3 {
		c.create("/alerts", fmt.Sprintf(`{"name":"alert %d","type":"detection","object_type":"application","cc":[],"apply_all":%v}`, i, i == 0))
	}
	const direct = "?direct_assignments_only=true"
	for _, test := range []struct{ method, path, body, direct, all string }{
		{"POST", "/alerts/4/applications/2", "", "[4]", "[3 4]"},
		{"POST", "/applications/2/alerts/5", "", "[4 5]", "[3 4 5]"},
		{"POST", "/applications/2/alerts/3", "", "[3 4 5]", "[3 4 5]"},
		{"POST", "/applications/2/alerts", `{"unassign":[3,4]}`, "[5]", "[3 5]"},
		{"DELETE", "/alerts/5/applications/2", "", "[]", "[3]"},
		{"PATCH", "/alerts/3", `{"apply_all":false}`, "[]", "[]"},
	} {
		c.want(204, test.method, test.path, test.body)
		if got := c.idsAt("/applications/2/alerts" + direct); got != test.direct {
			t.Errorf("after %s %s, the application has the alerts %s, want %s", test.method, test.path, got, test.direct)
		}
		for _, query := range []string{"", "?direct_assignments_only=false"} {
			if got := c.idsAt("/applications/2/alerts" + query); got != test.all {
				t.Errorf("after %s %s, %q lists the alerts %s, want %s", test.method, test.path, query, got, test.all)
			}
		}
	}
	c.want(400, "GET", "/applications/2/alerts?direct_assignments_only=1", "")
	c.want(405, "DELETE", "/applications/2/alerts/5", "")
}

func TestAlertsOfDevices(t *testing.T) {
	_, c := serve(t, standin.Options{})
	for i := range 4 {
		c.create("/alerts", strings.NewReplacer("Slow web servers", fmt.Sprint("alert ", i), "false", strconv.FormatBool(i == 0)).Replace(threshold))
	}
	c.want(204, "PATCH", "/alerts/1", `{"apply_all":false}`)
	c.create("/devicegroups", `{"name":"static"}`)
	c.create("/devicegroups", `{"name":"dynamic","filter":{"field":"id","operator":"in","operand":[7,8]}}`)
	for _, path := range []string{"/alerts/4/devicegroups/1", "/alerts/5/devicegroups/2", "/alerts/6/devices/7", "/devices/7/devicegroups/1"} {
		c.want(204, "POST", path, "")
	}
	for path, want := range map[string]string{
		"/devices/7/alerts?direct_assignments_only=true": "[6]",
		"/devices/7/alerts": "[2 3 4 5 6]",
		"/devices/8/alerts": "[2 3 5]",
		"/devices/9/alerts": "[2 3]",
		"/alerts/3/devices": "[]",
		"/alerts/6/devices": "[7]",
	} {
		if got := c.idsAt(path); got != want {
			t.Errorf("GET %s lists %s, want %s", path, got, want)
		}
	}
	c.want(204, "POST", "/devices/9/alerts/6", "")
	c.want(204, "POST", "/devices/9/alerts", `{"assign":[4]}`)
	c.want(204, "DELETE", "/devices/7/alerts/6", "")
	c.want(204, "DELETE", "/devicegroups/2", "")
	for path, want := range map[string]string{"/alerts/6/devices": "[9]", "/alerts/4/devices": "[9]", "/devices/7/alerts": "[2 3 4]"} {
		if got := c.idsAt(path); got != want {
			t.Errorf("GET %s lists %s, want %s", path, got, want)
		}
	}
	c.want(404, "POST", "/devices/999999999/alerts/6", "")
}

// idsAt returns the ids of the objects that a GET is answered with, as text.
func (c *caller) idsAt(path string) string {
	c.t.Helper()
	return fmt.Sprint(idsOf(c.t, c.want(200, "GET", path, "").body))
}
