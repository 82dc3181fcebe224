package appliance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestDevices(t *testing.T) {
	a, c := serve(t, standin.Options{Product: "Acme"})
	c.authorization = strings.Replace(c.authorization, "Service", "Acme", 1)
	t.Run("a body that is nested thousands deep is refused", func(t *testing.T) {
		body := `{"filter": ` + strings.Repeat(`{"operator": "not", "rules": [`, 4000) + strings.Repeat("]}", 4001)
		assert.Equal(t, c.want(http.StatusBadRequest, "POST", "/devices/search", body).body, `{"error_message":"the body is nested more than 100 deep"}`, "the refusal")
	})
	t.Run("an id makes the same device each time, with the product's own id", func(t *testing.T) {
		const body = `{"filter": {"field": "id", "operator": "in", "operand": [7]}}`
		first := c.want(http.StatusOK, "POST", "/devices/search", body).body
		assert.Equal(t, c.want(http.StatusOK, "POST", "/devices/search", body).body, first, "then")
		var devices []map[string]any
		err := json.Unmarshal([]byte(first), &devices)
		assert.True(t, err == nil && devices[0]["acme_id"] == devices[0]["discovery_id"] && devices[0]["display_name"] != "", first, err)
	})
	t.Run("every participant that is a device has one", func(t *testing.T) {
		d := a.Generate()
		var ids []int64
		for _, p := range d.Participants {
			ids = append(ids, p.ObjectID)
		}
		body := `{"filter": {"field": "id", "operator": "in", "operand": ` + mustJSON(t, ids) + `}}`
		found := idsOf(t, c.want(http.StatusOK, "POST", "/devices/search", body).body)
		assert.True(t, len(found) != 0, "none of", ids, "is known")
	})
}

func TestDeviceSearchReturnsTheFieldsAskedFor(t *testing.T) {
	_, c := serve(t, standin.Options{Product: "Acme"})
	c.authorization = strings.Replace(c.authorization, "Service", "Acme", 1)
	got := c.want(200, "POST", "/devices/search", `{"limit":1,"offset":2,"result_fields":["dns_name","acme_id"],"filter":{"operator":"and","rules":[
		{"field":"analysis","operator":"in","operand":["advanced","standard"]},{"field":"id","operator":"<=","operand":500}]}}`).body
	var found []map[string]any
	err := json.Unmarshal([]byte(got), &found)
	assert.True(t, err == nil && len(found) == 1 && len(found[0]) == 3 && found[0]["acme_id"] != "" && found[0]["dns_name"] != "", "found", got, err)
}

func TestTheDevicesOfATag(t *testing.T) {
	_, c := serve(t, standin.Options{})
	tag := c.create("/tags", `{"name":"crown jewels"}`)
	list := tag + "/devices"
	assert.Equal(t, c.idsAt(list), "[]")
	for _, id := range []int{9, 7} {
		c.want(204, "POST", fmt.Sprintf("/devices/%d/tags%s", id, strings.TrimPrefix(tag, "/tags")), "")
	}
	assert.Equal(t, c.idsAt(list), "[7 9]")
	assert.Equal(t, c.idsAt(list+"?limit=1&offset=1"), "[9]")
	c.want(404, "GET", "/tags/999999/devices", "")
}

// device returns a device as the appliance shows it.
func (c *caller) device(id int64) map[string]any {
	c.t.Helper()
	var d map[string]any
	require.NoError(c.t, json.Unmarshal([]byte(c.want(http.StatusOK, "GET", fmt.Sprintf("/devices/%d", id), "").body), &d))
	return d
}

func TestDevicesOfDetections(t *testing.T) {
	a, c := serve(t, standin.Options{})
	d := a.Generate()
	d.StartTime, d.UpdateTime = epoch.UnixMilli()-3_600_000, epoch.UnixMilli()-1_800_000
	d.Participants = []standin.Participant{
		{ID: 1, Role: "offender", ObjectType: "device", ObjectID: 77777, ObjectValue: "10.1.2.3", Hostname: "laptop.corp.example"},
		{ID: 2, Role: "victim", ObjectType: "ipaddr", ObjectID: 88888, ObjectValue: "203.0.113.1"},
	}
	c.want(404, "GET", "/devices/77777", "")
	a.Add(d)
	got := c.device(77777)
	assert.True(t, got["ipaddr4"] == "10.1.2.3" && got["dns_name"] == "laptop.corp.example" && got["display_name"] == "laptop.corp.example", "the device", got)
	c.want(404, "GET", "/devices/88888", "")
	for path, want := range map[string]bool{"from=-1h": true, "until=-2h": false, "from=-45m&until=-40m": true, "from=-20m": false} {
		body := c.want(200, "GET", "/devices/77777/ipaddrs?"+path, "").body
		assert.Equal(t, strings.Contains(body, `"ipaddr":"10.1.2.3"`), want, path, "the addresses are", body)
	}
	assert.Contains(t, c.want(200, "GET", "/devices/77777/dnsnames", "").body, `{"dns_name":"laptop.corp.example","from_time":1772597167890,"until_time":1772598967890}`)
	wantIDs(t, idsOf(t, c.want(200, "POST", "/devices/search", `{"filter":{"field":"ipaddr","operator":"=","operand":"10.1.2.3"}}`).body), 77777)
	wantIDs(t, idsOf(t, c.want(200, "POST", "/devices/search", `{"filter":{"field":"dns_name","operator":"=","operand":"LAPTOP.corp.example"}}`).body), 77777)
	for range 200 {
		d := a.Generate()
		a.Add(d)
		for _, p := range d.Participants {
			if p.ObjectType != "device" {
				continue
			}
			device := c.device(p.ObjectID)
			if device["ipaddr4"] != p.ObjectValue && device["last_seen_time"].(float64) <= float64(d.UpdateTime) || p.Hostname.String() != "" && device["dns_name"] != string(p.Hostname) {
				t.Errorf("the participant %+v is the device %v", p, device)
			}
		}
	}
}
