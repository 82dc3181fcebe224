package appliance_test

import (
	"testing"

	standin "ndrbridge/test/appliance"
)

func TestCustomDevicesGetAnIdentifier(t *testing.T) {
	_, c := serve(t, standin.Options{Product: "Example"})
	c.authorization = "Example apikey=" + standin.DefaultAPIKey
	at := c.create("/customdevices", `{"name":"North site 2","author":"ada","disabled":false}`)
	wantFields(t, c.object(at), decoded(t, `{"example_id":"North_site_2","author":"ada","description":null}`))
	own := c.create("/customdevices", `{"name":"South","author":"ada","disabled":true,"example_id":"s-1"}`)
	wantFields(t, c.object(own), decoded(t, `{"example_id":"s-1","disabled":true}`))
	for name, body := range map[string]string{
		"a space in the identifier":           `{"name":"a","author":"ada","disabled":false,"example_id":"a b"}`,
		"the identifier of another":           `{"name":"a","author":"ada","disabled":false,"example_id":"s-1"}`,
		"a name that gives that of another":   `{"name":"North_site_2","author":"ada","disabled":false}`,
		"no author":                           `{"name":"a","disabled":false}`,
		"an empty name":                       `{"name":" ","author":"ada","disabled":false}`,
		"an identifier of another product":    `{"name":"a","author":"ada","disabled":false,"service_id":"a"}`,
		"nothing that says whether it is off": `{"name":"a","author":"ada"}`,
	} {
		t.Run(name+" is refused", func(t *testing.T) { c.want(400, "POST", "/customdevices", body) })
	}
	c.want(400, "PATCH", own, `{"example_id":"s-2"}`)
	c.want(204, "PATCH", own, `{"name":"Far south"}`)
	wantFields(t, c.object(own), decoded(t, `{"name":"Far south","example_id":"s-1"}`))
}

func TestCriteriaOfCustomDevices(t *testing.T) {
	for name, test := range map[string]struct {
		criteria string
		status   int
	}{
		"an address":                              {`[{"ipaddr":"192.0.2.7"}]`, 204},
		"several, of which one must be met":       {`[{"ipaddr":"2001:db8::/32"},{"vlan_min":0,"vlan_max":4095}]`, 204},
		"a source and its peer":                   {`[{"ipaddr":"192.0.2.0/24","ipaddr_direction":"src","ipaddr_peer":"198.51.100.1"}]`, 204},
		"an address in any direction":             {`[{"ipaddr":"192.0.2.7","ipaddr_direction":"any"}]`, 204},
		"ports":                                   {`[{"src_port_min":1,"src_port_max":65535,"dst_port_min":443,"dst_port_max":443}]`, 204},
		"a range with one bound":                  {`[{"dst_port_min":1024}]`, 204},
		"none":                                    {`[]`, 204},
		"a peer without a direction":              {`[{"ipaddr":"192.0.2.7","ipaddr_peer":"198.51.100.1"}]`, 400},
		"a peer in any direction":                 {`[{"ipaddr":"192.0.2.7","ipaddr_direction":"any","ipaddr_peer":"198.51.100.1"}]`, 400},
		"a peer without an address":               {`[{"ipaddr_direction":"src","ipaddr_peer":"198.51.100.1"}]`, 400},
		"a direction without an address":          {`[{"ipaddr_direction":"src","vlan_min":1}]`, 400},
		"a direction that is not listed":          {`[{"ipaddr":"192.0.2.7","ipaddr_direction":"both"}]`, 400},
		"an address that is none":                 {`[{"ipaddr":"host.example"}]`, 400},
		"a peer that is no address":               {`[{"ipaddr":"192.0.2.7","ipaddr_direction":"dst","ipaddr_peer":"192.0.2"}]`, 400},
		"a block that is too long":                {`[{"ipaddr":"192.0.2.0/33"}]`, 400},
		"a zero in front":                         {`[{"ipaddr":"192.0.02.0/24"}]`, 400},
		"a block of IPv6 that is none":            {`[{"ipaddr":"2001:db8:::/32"}]`, 400},
		"port 0":                                  {`[{"src_port_min":0}]`, 400},
		"ports the wrong way round":               {`[{"src_port_min":1},{"src_port_min":2,"src_port_max":1}]`, 400},
		"VLANs the wrong way round":               {`[{"vlan_min":2,"vlan_max":1}]`, 400},
		"a criterion without a condition":         {`[{}]`, 400},
		"a condition that is not listed":          {`[{"ipaddr":"192.0.2.7","mac":"02:00:00:00:00:01"}]`, 400},
		"a criterion that is not in an array":     {`{"ipaddr":"192.0.2.7"}`, 400},
		"no array, which null does not stand for": {`null`, 400},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := serve(t, standin.Options{})
			at := c.create("/customdevices", `{"name":"Site","author":"ada","disabled":false,"criteria":[{"vlan_min":7}]}`)
			body := `{"criteria":` + test.criteria + `}`
			c.want(test.status, "PATCH", at, body)
			if test.status == 400 {
				body = `{"criteria":[{"vlan_min":7}]}`
			}
			wantFields(t, c.object(at+"?include_criteria=true"), decoded(t, body))
		})
	}
}

func TestCriteriaAreShownOnRequest(t *testing.T) {
	_, c := serve(t, standin.Options{})
	at := c.create("/customdevices", `{"name":"Site","author":"ada","disabled":false,"criteria":[{"vlan_min":7}]}`)
	for query, shown := range map[string]bool{"": false, "?include_criteria=false": false, "?include_criteria=true": true} {
		if _, ok := c.object(at + query)["criteria"]; ok != shown {
			t.Errorf("with %q, whether the criteria are shown is %v", query, ok)
		}
		if _, ok := c.objects("/customdevices" + query)[0]["criteria"]; ok != shown {
			t.Errorf("in the list with %q, whether the criteria are shown is %v", query, ok)
		}
	}
	c.want(204, "PATCH", at, `{"disabled":true}`)
	wantFields(t, c.object(at+"?include_criteria=true"), decoded(t, `{"criteria":[{"vlan_min":7}]}`))
}

func TestConsolesHaveNoCustomDevices(t *testing.T) {
	_, c := serve(t, standin.Options{Console: true})
	c.want(422, "GET", "/customdevices", "")
	c.want(422, "POST", "/customdevices", `{"name":"Site","author":"ada","disabled":false}`)
	c.want(422, "GET", "/customdevices/1", "")
	c.want(422, "PATCH", "/customdevices/1", `{}`)
	c.want(422, "DELETE", "/customdevices/1", "")
}

func TestCustomDevicesAreDevices(t *testing.T) {
	_, c := serve(t, standin.Options{})
	const device = 2147483649
	at := c.create("/customdevices", `{"name":"North site","author":"ada","disabled":false,"criteria":[{"ipaddr":"10.1.0.0/16"},{"ipaddr":"10.2.0.1"}]}`)
	if got := c.idsAt("/devices?search_type=name&value=North"); got != "[2147483649]" {
		t.Errorf("the devices %s have the name", got)
	}
	wantFields(t, c.device(device), decoded(t, `{"service_id":"North_site","display_name":"North site","device_class":"custom","ipaddr4":"10.2.0.1","description":null}`))
	alert := c.create("/alerts", threshold)
	c.want(204, "POST", alert+"/devices/2147483649", "")
	c.want(204, "PATCH", "/devices/2147483649", `{"custom_name":"N"}`)
	c.want(204, "PATCH", at, `{"name":"The north","description":"All of it.","criteria":[{"ipaddr":"2001:db8::1"}]}`)
	wantFields(t, c.device(device), decoded(t, `{"service_id":"North_site","display_name":"N","default_name":"The north","ipaddr4":null,"ipaddr6":"2001:db8::1","description":"All of it."}`))
	if got := c.idsAt(alert + "/devices"); got != "[2147483649]" {
		t.Errorf("the alert is assigned to %s", got)
	}
	c.want(204, "DELETE", at, "")
	c.want(404, "GET", "/devices/2147483649", "")
	if got := c.idsAt(alert + "/devices"); got != "[]" {
		t.Errorf("the alert is assigned to %s after the device was deleted", got)
	}
	for _, id := range idsOf(t, c.want(200, "POST", "/devices/search", `{"filter":{"field":"id","operator":"in","operand":[2147483649]}}`).body) {
		t.Errorf("the device %d is found after it was deleted", id)
	}
}
