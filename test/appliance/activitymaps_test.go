package appliance_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/appliance/topology"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// topology returns the result of a query.
func (c *caller) topology(path, body string) topology.Result {
	c.t.Helper()
	var result topology.Result
	require.NoError(c.t, json.Unmarshal([]byte(c.want(200, "POST", path, body).body), &result))
	return result
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
		require.True(t, len(protocols) != 0 && slices.Contains(protocols[0].Protocol, "HTTP") && slices.Equal(edge.Annotations.Appearances, []topology.Appearance{{}}), "the edge", edge)
	}
	client := everywhere.Edges[0].From

	walk := `[{"origins":[{"object_type":"device","object_id":` + strconv.FormatInt(client, 10) + `}],"steps":[{}]}]`
	c.want(201, "POST", "/activitymaps", `{"name":"One","description":"","walks":`+walk+`,"weighting":"turns"}`)
	ofMap := c.topology("/activitymaps/1/query", `{"from":"-1d"}`)
	found := slices.ContainsFunc(ofMap.Edges, func(e topology.Edge) bool {
		return e.From == client && e.To == everywhere.Edges[0].To && e.Weight >= everywhere.Edges[0].Weight && e.Annotations == nil
	})
	assert.True(t, found, "the edge", everywhere.Edges, "is not among", ofMap.Edges)
	none := c.topology("/activitymaps/1/query", `{"from":0}`)
	assert.Empty(t, none.Edges, "no time has the edges")
}

func TestADeviceGroupIsAnOriginWithItsDevices(t *testing.T) {
	_, c := serve(t, standin.Options{})
	c.want(201, "POST", "/devicegroups", `{"name":"Web servers","filter":{"field":"activity","operator":"=","operand":"http_server"}}`)
	edges := func(origin string) int {
		return len(c.topology("/activitymaps/query", `{"from":"-1d","walks":[{"origins":[`+origin+`],
			"steps":[{"relationships":[{"protocol":"HTTP","role":"client"}]}]}]}`).Edges)
	}
	group, all := edges(`{"object_type":"device_group","object_id":1}`), edges(`{"object_type":"all_devices","object_id":0}`)
	assert.True(t, all != 0 && group == all, group, "edges lead to web servers", all, "in all have HTTP")
}
