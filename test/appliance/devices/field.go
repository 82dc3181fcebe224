package devices

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// kind is how the values of a field are compared.
type kind int

const (
	texts       kind = iota // without regard to case
	expressions             // texts for which regular expressions are allowed
	hardware                // without separators
	addresses
	numbers
	flag
	times
)

// field is a property of devices that filters are about.
type field struct {
	name  string
	kind  kind
	enum  map[string]bool // the only values that exist; nil: any
	shown []string        // the fields of the interface with the values
}

// fieldOf returns the field with a name.
func fieldOf(name string) (field, bool) {
	f := field{name: name, shown: []string{name}}
	switch name {
	case "discovery_id", "role", "cloud_account", "vpc_id", "subnet_id", "activity", "node":
	case "instance_id", "instance_name", "instance_type":
		f.shown = []string{"cloud_" + name}
	case "cdp_name", "custom_name", "dhcp_name", "dns_name", "model", "netbios_name", "vendor", "software", "tag":
		f.kind = expressions
	case "name":
		f.kind = expressions
		f.shown = []string{"default_name", "custom_name", "dns_name", "dhcp_name", "netbios_name", "cdp_name"}
	case "analysis":
		f.enum = map[string]bool{"standard": true, "advanced": true, "discovery": true, "l2_exempt": true, "flow_log": true}
	case "network_locality_type":
		f.enum = map[string]bool{"internal": true, "external": true}
	case "macaddr":
		f.kind = hardware
	case "ipaddr":
		f.kind = addresses
	case "vlan", "network_locality_id", "id":
		f.kind = numbers
	case "is_active", "is_critical":
		f.kind = flag
	case "discover_time":
		f.kind = times
	default:
		return field{}, false
	}
	return f, true
}

// texts returns the values of a field of texts. Empty ones do not exist.
func (f field) texts(d *Device) []string {
	var found []string
	add := func(value string) {
		if value != "" {
			found = append(found, value)
		}
	}
	switch f.name {
	case "activity":
		return d.Categories
	case "tag":
		return d.Tags
	case "software":
		for _, s := range d.Software {
			add(s.ID)
		}
	case "ipaddr":
		for _, w := range d.Addresses {
			add(w.Value)
		}
	case "node":
		sensor, _ := d.Fields["node_id"].(int64)
		found = []string{NodeUUID(sensor), strconv.FormatInt(sensor, 10)}
	case "network_locality_type":
		found = []string{"internal"}
	default:
		for _, name := range f.shown {
			value, _ := d.Fields[name].(string)
			add(value)
		}
	}
	return found
}

// number returns the value of a field of numbers.
func (f field) number(d *Device) int64 {
	switch f.name {
	case "id":
		return d.ID
	case "network_locality_id":
		return d.Locality
	}
	n, _ := d.Fields["vlanid"].(int64)
	return n
}

// flag returns the value of a field that is true or false.
func (f field) flag(d *Device, now int64) bool {
	if f.name == "is_active" {
		return d.Active(now)
	}
	return d.Fields["critical"] == true
}

// exists reports whether a device has a value of a field.
func (f field) exists(d *Device) bool {
	switch f.kind {
	case numbers, flag, times:
		return true
	}
	return len(f.texts(d)) > 0
}

// whole returns a number of JSON if it is a whole one that is kept exactly.
func whole(value any) (int64, bool) {
	switch n := value.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), n == math.Trunc(n) && math.Abs(n) <= 1<<53
	case json.Number:
		if i, err := n.Int64(); err == nil {
			return i, true
		}
		f, err := n.Float64()
		return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) <= 1<<53
	}
	return 0, false
}

// wholeText is whole for the text of a number.
func wholeText(text string) (int64, bool) { return whole(json.Number(strings.TrimSpace(text))) }
