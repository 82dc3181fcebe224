package appliance_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
)

const aBundle = `{"name":"Sites","objects":{
	"tags":[{"name":"Site"}],
	"devicegroups":[{"name":"Web servers","filter":{"field":"role","operator":"=","operand":"http_server"}}],
	"emailgroups":[{"group_name":"SOC","email_addresses":["new@example.com"],"system_notifications":true}],
	"triggers":[{"name":"Count","script":"","events":["HTTP_REQUEST"]}],
	"exclusionintervals":[{"name":"Night","interval_type":"daily","start":0,"end":60,"alert_apply_all":false,"trend_apply_all":false}],
	"applications":[{"display_name":"Site shop"}],
	"customdevices":[{"name":"Site","author":"ada","disabled":false}],
	"alerts":[` + threshold + `],
	"dashboards":[{"name":"Site","short_code":"Site1"}],
	"activitymaps":[{"name":"Site","description":"","short_code":"Site2","walks":[{"origins":[{"object_type":"device","object_id":1}],"steps":[{}]}]}]
}}`

func TestBundles(t *testing.T) {
	_, c := serve(t, standin.Options{})
	const old = `{"group_name":"SOC","email_addresses":["old@example.com"],"system_notifications":false}`
	c.want(201, "POST", "/emailgroups", old)
	if at := c.want(201, "POST", "/bundles", aBundle).header.Get("Location"); at != "/api/v1/bundles/2" {
		t.Errorf("the location is %q", at)
	}
	const metadata = `{"built_in":false,"created_time":1772600767890,"description":null,"id":2,"mod_time":1772600767890,"name":"Sites"}`
	if got := c.want(200, "GET", "/bundles", "").body; !strings.HasSuffix(got, metadata+"]") {
		t.Errorf("the bundles are %s", got)
	}
	if got := c.want(200, "GET", "/bundles/2", "").body; !strings.Contains(got, `"emailgroups":[{`) {
		t.Errorf("the bundle is %s", got)
	}
	if got := c.want(200, "GET", "/tags", "").body; got != "[]" {
		t.Errorf("before the bundle is applied, the tags are %s", got)
	}

	c.want(204, "POST", "/bundles/2/apply", `{"policy":"skip"}`)
	for path, want := range map[string]string{
		"/tags": `"name":"Site"`, "/devicegroups": `"name":"Web servers"`, "/triggers": `"name":"Count"`,
		"/exclusionintervals": `"name":"Night"`, "/customdevices": `"service_id":"Site"`, "/alerts": `"name":"Slow web servers"`,
		"/applications?search_type=name&value=Site+shop": `"discovery_id":"Site_shop"`, "/applications?value=Site+shop": `"node_id":null`,
		"/dashboards/~Site1": `"owner":"api"`, "/activitymaps/1": `"short_code":"Site2"`, "/emailgroups/1": `"old@example.com"`,
	} {
		if got := c.want(200, "GET", path, "").body; !strings.Contains(got, want) {
			t.Errorf("%s is %s, without %s", path, got, want)
		}
	}
	if got := c.want(200, "GET", "/applications/11/activity", "").body; got != "[]" {
		t.Errorf("an application of a bundle has the activity %s", got)
	}
	c.want(204, "POST", "/bundles/2/apply", `{"policy":"overwrite"}`)
	const overwritten = `[{"email_addresses":["new@example.com"],"group_name":"SOC","id":1,"system_notifications":true}]`
	if got := c.want(200, "GET", "/emailgroups", "").body; got != overwritten {
		t.Errorf("the email groups are %s", got)
	}

	c.want(204, "DELETE", "/bundles/2", "")
	c.want(204, "POST", "/bundles/1/apply", `{"policy":"skip"}`)
}

func TestABundleAssigns(t *testing.T) {
	_, c := serve(t, standin.Options{})
	const bundle = `{"name":"Notify","objects":{
		"emailgroups":[{"group_name":"SOC","email_addresses":[],"system_notifications":true}],"alerts":[ALERT]},
		"assignments":[{"path":"/alerts/emailgroups","parent":"Slow web servers","child":"SOC"}]}`
	c.want(201, "POST", "/bundles", strings.Replace(bundle, "ALERT", threshold, 1))
	c.want(204, "POST", "/bundles/2/apply", `{"policy":"skip"}`)
	slow := "/alerts/" + strconv.Itoa(len(c.objects("/alerts"))) // the newest
	if got := c.want(200, "GET", slow+"/emailgroups", "").body; got != "[]" {
		t.Errorf("without assignments, the email groups are %s", got)
	}
	c.want(204, "POST", "/bundles/2/apply", `{"policy":"skip","include_assignments":true}`)
	wantIDs(t, idsOf(t, c.want(200, "GET", slow+"/emailgroups", "").body), 1)

}

func TestBackups(t *testing.T) {
	_, c := serve(t, standin.Options{})
	const auto = `{"auto":true,"create_time":1772600767890,"id":1,"name":"Automatic backup","recovered":false}`
	if got := c.want(200, "GET", "/customizations", "").body; got != "["+auto+"]" {
		t.Errorf("the backups are %s", got)
	}
	c.want(201, "POST", "/tags", `{"name":"Kept"}`)
	c.want(201, "POST", "/customdevices", `{"name":"Branch","author":"ada","disabled":false}`)
	c.want(201, "POST", "/emailgroups", `{"group_name":"SOC","email_addresses":[],"system_notifications":true}`)
	c.want(204, "POST", "/alerts/1/emailgroups/1", "")
	if at := c.want(201, "POST", "/customizations", `{"name":"Before"}`).header.Get("Location"); at != "/api/v1/customizations/2" {
		t.Errorf("the location is %q", at)
	}
	const made = `{"name":"Before","time":1772600767890,"succeeded":true,"message":null}`
	if got := c.want(200, "GET", "/customizations/status", "").body; got != made {
		t.Errorf("the status is %s", got)
	}
	alerts := c.want(200, "GET", "/alerts", "").body

	c.want(201, "POST", "/tags", `{"name":"Gone"}`)
	c.want(204, "DELETE", "/tags/1", "")
	c.want(204, "DELETE", "/alerts/1", "")
	c.want(204, "DELETE", "/dashboards/3", "")
	const branch = `{"filter":{"field":"name","operator":"=","operand":"Branch"},"result_fields":["id"]}`
	found := c.want(200, "POST", "/devices/search", branch).body
	c.want(204, "DELETE", "/customdevices/1", "")
	if got := c.want(200, "POST", "/devices/search", branch).body; got != "[]" {
		t.Errorf("without its definition, the devices are %s", got)
	}
	c.want(204, "POST", "/customizations/2/apply", "")
	if got := c.want(200, "GET", "/tags", "").body; !strings.Contains(got, "Kept") || strings.Contains(got, "Gone") {
		t.Errorf("the tags are %s", got)
	}
	if got := c.want(200, "GET", "/alerts", "").body; got != alerts {
		t.Errorf("the alerts are %s, want %s", got, alerts)
	}
	wantIDs(t, idsOf(t, c.want(200, "GET", "/alerts/1/emailgroups", "").body), 1)
	c.want(200, "GET", "/dashboards/3", "")
	if got := c.want(200, "POST", "/devices/search", branch).body; got != found || got == "[]" {
		t.Errorf("the devices of a restored definition are %s, want %s", got, found)
	}
	if at := c.want(201, "POST", "/tags", `{"name":"New"}`).header.Get("Location"); at != "/api/v1/tags/3" {
		t.Errorf("the id of a tag that is gone is used again: %s", at)
	}
	if got := c.want(200, "GET", "/customizations/2", "").body; !strings.Contains(got, `"recovered":true`) {
		t.Errorf("the backup is %s", got)
	}

	file := c.want(200, "POST", "/customizations/2/download", "")
	var content struct {
		Objects     map[string][]map[string]any
		Assignments map[string][][2]int64
	}
	require.NoError(t, json.Unmarshal([]byte(file.body), &content))
	if content.Objects["tags"][0]["name"] != "Kept" || content.Assignments["/alerts/emailgroups"][0] != [2]int64{1, 1} {
		t.Errorf("the file is %s", file.body)
	}

	c.want(400, "POST", "/customizations", `{"name":"Before"}`)
	if got := c.want(200, "GET", "/customizations/status", "").body; !strings.Contains(got, `"succeeded":false`) {
		t.Errorf("the status is %s", got)
	}
	for _, path := range []string{"/customizations/9/apply", "/customizations/9/download"} {
		c.want(404, "POST", path, "")
	}
	c.want(204, "DELETE", "/customizations/2", "")
	c.want(404, "GET", "/customizations/2", "")
	for i := range 9 {
		c.want(201, "POST", "/customizations", `{"name":"`+strconv.Itoa(i)+`"}`)
	}
	c.want(422, "POST", "/customizations", `{"name":"one too many"}`)
}
