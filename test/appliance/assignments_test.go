package appliance_test

import (
	"fmt"
	"testing"

	standin "ndrbridge/test/appliance"

	"ndrbridge/test/assert"
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
				assert.Equal(t, c.idsAt(list), fmt.Sprintf("%v", ids), "are assigned")
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

// idsAt returns the ids of the objects that a GET is answered with, as text.
func (c *caller) idsAt(path string) string {
	c.t.Helper()
	return fmt.Sprint(idsOf(c.t, c.want(200, "GET", path, "").body))
}
