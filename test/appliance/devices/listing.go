package devices

import (
	"errors"
	"fmt"
	"strings"

	"ndrbridge/test/appliance/expression"
)

// ParseListing returns the filter for a listing of devices that restricts a property to a value.
// A value between slashes is a regular expression for the properties with texts. at parses a time.
func ParseListing(property, value string, at func(string) (int64, error)) (*Filter, error) {
	property = strings.ReplaceAll(property, " ", "_")
	if value == "" {
		return &Filter{matches: func(*Device) bool { return true }}, nil
	}
	switch property {
	case "discover_time":
		return parseDiscovered(value, at)
	case "vlan":
		n, ok := wholeText(value)
		if !ok {
			return nil, errors.New("value: must be the number of a VLAN")
		}
		f, _ := fieldOf("vlan")
		return &Filter{matches: func(d *Device) bool { return f.number(d) == n }}, nil
	case "ip_address":
		holds, err := within(value)
		if err != nil {
			return nil, fmt.Errorf("value: %q is not an address", value)
		}
		f, _ := fieldOf("ipaddr")
		return some(f, holds), nil
	case "discovery_id", "node":
		f, _ := fieldOf(property)
		return some(f, func(text string) bool { return strings.EqualFold(text, value) }), nil
	case "mac_address":
		return hardwareListing(value), nil
	}
	holds := contains(strings.ToLower(value))
	if inner, ok := strings.CutPrefix(value, "/"); ok && strings.HasSuffix(inner, "/") {
		compiled, _, err := expression.Compile(strings.TrimSuffix(inner, "/"))
		if err != nil {
			return nil, fmt.Errorf("value: %w", err)
		}
		holds = compiled.MatchString
	}
	if property == "type" {
		return some(typeField(), holds), nil
	}
	if property != "any" {
		f, ok := fieldOf(property)
		if !ok {
			return nil, fmt.Errorf("search_type: %q is unknown", property)
		}
		return some(f, holds), nil
	}
	found := []*Filter{some(typeField(), holds), hardwareListing(value)}
	for _, name := range []string{"name", "discovery_id", "ipaddr", "macaddr", "vendor", "tag", "activity", "node"} {
		f, _ := fieldOf(name)
		found = append(found, some(f, holds))
	}
	return &Filter{matches: func(d *Device) bool {
		for _, f := range found {
			if f.matches(d) {
				return true
			}
		}
		return false
	}}, nil
}

// typeField is what a device is, as found by the appliance or set by a client.
func typeField() field {
	return field{name: "type", shown: []string{"role", "auto_role", "custom_type", "device_class"}}
}

// hardwareListing selects the devices whose hardware address begins with a value, as those of a
// vendor do.
func hardwareListing(value string) *Filter {
	f, _ := fieldOf("macaddr")
	start := f.plain(value)
	return some(f, func(text string) bool { return start != "" && strings.HasPrefix(f.plain(text), start) })
}

// parseDiscovered parses a time, from which on devices were discovered, or two with a comma.
func parseDiscovered(value string, at func(string) (int64, error)) (*Filter, error) {
	start, end, both := strings.Cut(value, ",")
	if !both {
		end = "0"
	}
	from, err := at(start)
	if err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	until, err := at(end)
	if err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	return discovered(from, until), nil
}
