package devices_test

import (
	"testing"

	"ndrbridge/test/appliance/devices"
	"ndrbridge/test/assert"
)

func TestPopulation(t *testing.T) {
	p := devices.NewPopulation("service", now)
	assert.Equal(t, len(p.IDs()), len(devices.Sensors())*devices.PerSensor, "devices")
	addresses := make(map[any]int64)
	for _, id := range p.IDs() {
		d := p.Get(id, now)
		other, taken := addresses[d.Fields["ipaddr4"]]
		assert.False(t, taken, "the devices", id, other, "have one address")
		addresses[d.Fields["ipaddr4"]] = id
		parent, ok := d.Fields["parent_id"].(int64)
		assert.True(t, !ok || p.Has(parent), "the device", id, "is behind", parent, "which does not exist")
		assert.True(t, d.Discovered <= d.LastSeen && d.LastSeen <= now && d.Fields["user_mod_time"].(int64) <= now, "the device", id, "has the times", d.Fields)
	}
	for name, id := range map[string]int64{"0": 0, "a negative id": -5, "an id after the last": 501, "a sensor that is not": 1<<32 + 1} {
		assert.True(t, !p.Has(id) && p.Get(id, now) == nil, "there is a device for", name)
	}
}

func TestSightings(t *testing.T) {
	p := devices.NewPopulation("service", now)
	see := func(address string, from, until int64) { p.See(7, address, "", now-from, now-until) }
	see("10.0.0.1", 9000, 8000)
	see("10.0.0.2", 5000, 4000)
	see("10.0.0.1", 7000, 6000) // late, but before the last
	see("not an address", 1000, 0)
	d := p.Get(7, now)
	assert.True(t, d.Fields["ipaddr4"] == "10.0.0.2", "the address", d.Fields["ipaddr4"])
	got := devices.In(d.Addresses, now-6500, now-5500)
	assert.True(t, len(got) == 2 && got[1] == (devices.Window{Value: "10.0.0.1", From: now - 9000, Until: now - 6000}), "the addresses are", got)
	for i := range int64(100) {
		see("2001:db8::"+string('a'+rune(i%6)), i, i)
		see("10.1.0."+string('0'+rune(i%10)), i, i)
	}
	n := len(p.Get(7, now).Addresses)
	assert.True(t, n <= 11, n, "addresses are remembered")
	silent := p.Get(3, now)
	if p.See(3, "10.0.0.3", "", now-1, now); silent.Active(now) || !p.Get(3, now).Active(now) {
		t.Error("a silent device is not active once it is seen")
	}
}
