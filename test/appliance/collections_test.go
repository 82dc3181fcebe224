package appliance_test

import (
	"encoding/json"
	"maps"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// threshold is the body of a threshold alert.
const threshold = `{"name":"Slow web servers","type":"threshold","cc":["ops@example.com"],"apply_all":false,` +
	`"stat_name":"service.device.http_server","field_name":"tprocess","operator":">","operand":"200","interval_length":60}`

// collections are the resources that clients create, change and delete in the same way.
var collections = map[string]struct {
	body, change string
	unique       bool   // whether no two objects may have the name
	query        string // that shows all fields
}{
	"/alerts":             {threshold, `{"disabled":true,"severity":1,"refire_interval":14400,"operand":"-0.5"}`, true, ""},
	"/customdevices":      {`{"name":"Branch","author":"ada","disabled":false}`, `{"description":"All of it.","criteria":[{"vlan_min":1,"vlan_max":1}]}`, true, "?include_criteria=true"},
	"/devicegroups":       {`{"name":"Printers","description":"All printers."}`, `{"description":"All of them."}`, true, ""},
	"/emailgroups":        {`{"group_name":"SOC","email_addresses":["soc@example.com"],"system_notifications":true}`, `{"system_notifications":false}`, true, ""},
	"/exclusionintervals": {`{"name":"Night","interval_type":"daily","start":79200,"end":18000,"alert_apply_all":true,"trend_apply_all":false}`, `{"interval_type":"weekly","end":604800}`, true, ""},
}

func TestCollections(t *testing.T) {
	for path, test := range collections {
		t.Run("objects of "+path+" are created, changed and deleted", func(t *testing.T) {
			_, c := serve(t, standin.Options{})
			at := c.create(path, test.body)
			object := c.object(at + test.query)
			wantFields(t, object, decoded(t, test.body))
			list := c.objects(path + test.query)
			assert.DeepEqual(t, list[len(list)-1], object, "the list ends with")
			if test.unique {
				c.want(400, "POST", path, test.body)
			}

			c.want(204, "PATCH", at, test.change)
			want := object
			maps.Copy(want, decoded(t, test.change))
			wantFields(t, c.object(at+test.query), want)
			c.want(204, "PATCH", at, `{}`)
			for _, body := range []string{`{"id":7}`, `{"colour":"red"}`, `[]`, `{`} {
				c.want(400, "PATCH", at, body)
			}
			wantFields(t, c.object(at+test.query), want)

			c.want(204, "DELETE", at, "")
			c.want(404, "GET", at, "")
			c.want(404, "PATCH", at, `{}`)
			c.want(404, "DELETE", at, "")
			again := c.create(path, test.body)
			assert.True(t, again != at, at, "is used again after it was deleted")
		})
	}
}

// create creates an object and returns its path.
func (c *caller) create(path, body string) string {
	c.t.Helper()
	created := c.want(201, "POST", path, body)
	at := created.header.Get("Location")
	require.True(c.t, created.body == "" && len(at) > len("/api/v1"+path+"/") && at[:len("/api/v1"+path)] == "/api/v1"+path, path, at, created.body)
	return at[len("/api/v1"):]
}

// object returns the object that a GET is answered with.
func (c *caller) object(path string) map[string]any {
	c.t.Helper()
	return decoded(c.t, c.want(200, "GET", path, "").body)
}

// objects returns the objects that a GET is answered with.
func (c *caller) objects(path string) []map[string]any {
	c.t.Helper()
	return decodedList(c.t, c.want(200, "GET", path, "").body)
}

func decodedList(t *testing.T, text string) (objects []map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &objects))
	return objects
}

func decoded(t *testing.T, text string) (object map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &object), text)
	return object
}

// wantFields checks the fields of an object that want has.
func wantFields(t *testing.T, object, want map[string]any) {
	t.Helper()
	for name, value := range want {
		assert.DeepEqual(t, object[name], value, name, "is")
	}
}
