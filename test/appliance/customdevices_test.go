package appliance_test

import (
	"testing"

	standin "ndrbridge/test/appliance"
)

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
