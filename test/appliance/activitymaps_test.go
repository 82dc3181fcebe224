package appliance_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/appliance/topology"
	"ndrbridge/test/require"
)

const (
	fromOne = `[{"origins":[{"object_type":"device","object_id":1}],"steps":[{}]}]`
	aMap    = `{"name":"Web","description":"","walks":` + fromOne + `}`
)

// topology returns the result of a query.
func (c *caller) topology(path, body string) topology.Result {
	c.t.Helper()
	var result topology.Result
	require.NoError(c.t, json.Unmarshal([]byte(c.want(200, "POST", path, body).body), &result))
	return result
}

func TestActivityMaps(t *testing.T) {
	_, c := serve(t, standin.Options{})
	if at := c.want(201, "POST", "/activitymaps", aMap).header.Get("Location"); at != "/api/v1/activitymaps/1" {
		t.Errorf("the location is %q", at)
	}
	c.want(204, "PATCH", "/activitymaps/1", `{"short_code":"web","mode":"3dforce","show_alert_status":true,"weighting":"turns"}`)
	want := `{"description":"","id":1,"mod_time":1772600767890,"mode":"3dforce","name":"Web","owner":"api",` +
		`"rights":["view","edit","share","delete"],"short_code":"web","show_alert_status":true,"walks":` +
		`[{"origins":[{"object_id":1,"object_type":"device"}],"steps":[{}]}],"weighting":"turns"}`
	if got := c.want(200, "GET", "/activitymaps/1", "").body; got != want {
		t.Errorf("the map is %s, want %s", got, want)
	}
	c.want(204, "DELETE", "/activitymaps/1", "")
	if got := c.want(200, "GET", "/activitymaps", "").body; got != "[]" {
		t.Errorf("the maps are %s", got)
	}
}

func TestTopologyQueries(t *testing.T) {
	_, c := serve(t, standin.Options{})
	everywhere := c.topology("/activitymaps/query", `{"from":"-1d","weighting":"turns","edge_annotations":["protocols","appearances"],
		"walks":[{"origins":[{"object_type":"all_devices","object_id":0}],"steps":[{"relationships":[{"protocol":"http","role":"server"}]}]}]}`)
	if len(everywhere.Edges) == 0 || everywhere.Until != epoch.UnixMilli() || everywhere.From != epoch.UnixMilli()-86_400_000 {
		t.Fatalf("%d edges from %d until %d", len(everywhere.Edges), everywhere.From, everywhere.Until)
	}
	for _, edge := range everywhere.Edges {
		protocols := edge.Annotations.Protocols
		if len(protocols) == 0 || !slices.Contains(protocols[0].Protocol, "HTTP") || !slices.Equal(edge.Annotations.Appearances, []topology.Appearance{{}}) {
			t.Fatalf("the edge is %+v", edge)
		}
	}
	client := everywhere.Edges[0].From

	walk := `[{"origins":[{"object_type":"device","object_id":` + strconv.FormatInt(client, 10) + `}],"steps":[{}]}]`
	c.want(201, "POST", "/activitymaps", `{"name":"One","description":"","walks":`+walk+`,"weighting":"turns"}`)
	ofMap := c.topology("/activitymaps/1/query", `{"from":"-1d"}`)
	found := slices.ContainsFunc(ofMap.Edges, func(e topology.Edge) bool {
		return e.From == client && e.To == everywhere.Edges[0].To && e.Weight >= everywhere.Edges[0].Weight && e.Annotations == nil
	})
	if !found {
		t.Errorf("the edge %+v is not among %+v", everywhere.Edges[0], ofMap.Edges)
	}
	if none := c.topology("/activitymaps/1/query", `{"from":0}`); len(none.Edges) > 0 {
		t.Errorf("no time has the edges %+v", none.Edges)
	}
}

func TestADeviceGroupIsAnOriginWithItsDevices(t *testing.T) {
	_, c := serve(t, standin.Options{})
	c.want(201, "POST", "/devicegroups", `{"name":"Web servers","filter":{"field":"activity","operator":"=","operand":"http_server"}}`)
	group := c.topology("/activitymaps/query", `{"from":"-1d","walks":[{"origins":[{"object_type":"device_group","object_id":1}],
		"steps":[{"relationships":[{"protocol":"HTTP","role":"client"}]}]}]}`)
	all := c.topology("/activitymaps/query", `{"from":"-1d","walks":[{"origins":[{"object_type":"all_devices","object_id":0}],
		"steps":[{"relationships":[{"protocol":"HTTP","role":"client"}]}]}]}`)
	if len(all.Edges) == 0 || len(group.Edges) != len(all.Edges) {
		t.Errorf("%d edges lead to web servers, %d in all have HTTP", len(group.Edges), len(all.Edges))
	}

	c.want(201, "POST", "/activitymaps", `{"name":"Group","description":"","walks":[{"origins":[{"object_type":"device_group","object_id":1}],"steps":[{}]}]}`)
	c.want(204, "DELETE", "/devicegroups/1", "")
	if gone := c.topology("/activitymaps/1/query", `{"from":"-1d"}`); len(gone.Edges) > 0 || len(gone.Warnings) != 1 {
		t.Errorf("a map of a deleted group shows %+v", gone)
	}
	c.want(204, "PATCH", "/activitymaps/1", `{"name":"The group is gone"}`)
}

func TestSharingDecidesWhoSeesAnActivityMap(t *testing.T) {
	_, c := serve(t, standin.Options{})
	c.want(201, "POST", "/activitymaps", aMap)
	eve := c.user("eve", `{"write":"full","metrics":"full","ndr":"full","npm":"full"}`)
	eve.want(404, "GET", "/activitymaps/1", "")
	eve.want(404, "POST", "/activitymaps/1/query", `{"from":-1000}`)
	eve.want(404, "DELETE", "/activitymaps/1", "")

	c.want(204, "PUT", "/activitymaps/1/sharing", `{"users":{"eve":"viewer"},"groups":{"local.soc":"editor"}}`)
	if got := eve.want(200, "GET", "/activitymaps/1", "").body; !strings.Contains(got, `"rights":["view"]`) {
		t.Errorf("a viewer sees %s", got)
	}
	eve.want(403, "PATCH", "/activitymaps/1", `{"name":"Mine"}`)
	eve.want(403, "PATCH", "/activitymaps/1/sharing", `{"anyone":"viewer"}`)

	c.want(204, "PATCH", "/activitymaps/1/sharing", `{"anyone":"viewer","users":{"eve":"editor"}}`)
	eve.want(204, "PATCH", "/activitymaps/1", `{"name":"Ours"}`)
	eve.want(403, "DELETE", "/activitymaps/1", "")
	const shared = `{"anyone":"viewer","groups":{"local.soc":"editor"},"users":{"eve":"editor"}}`
	if got := c.want(200, "GET", "/activitymaps/1/sharing", "").body; got != shared {
		t.Errorf("the sharing is %s", got)
	}
	c.want(204, "PATCH", "/activitymaps/1/sharing", `{"users":{"eve":null}}`)
	eve.want(200, "GET", "/activitymaps/1", "")
	c.want(204, "PUT", "/activitymaps/1/sharing", `{"anyone":null}`)
	eve.want(404, "GET", "/activitymaps/1", "")
	if got := eve.want(200, "GET", "/activitymaps", "").body; got != "[]" {
		t.Errorf("eve sees the maps %s", got)
	}
}
