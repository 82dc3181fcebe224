package appliance

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

// deviceHandlers returns the handlers of devices, and of what groups and marks them.
func (a *Appliance) deviceHandlers() rest.Handlers {
	handlers := rest.Handlers{"POST /devices/search": a.searchDevices}
	for _, c := range []*resource.Collection{a.resources.deviceGroups, a.resources.tags, a.resources.networks, a.resources.triggers} {
		maps.Copy(handlers, c.Handlers())
	}
	return handlers
}

// devices are the devices as a side of relations.
type devices struct{ *Appliance }

// Has implements resource.Set.
func (d devices) Has(id int64) bool { return id > 0 }

// Shown implements resource.Set.
func (d devices) Shown(_ *rest.Request, ids []int64) [][]byte {
	elements := make([][]byte, len(ids))
	for i, id := range ids {
		elements[i] = d.device(id)
	}
	return elements
}

// searchDevices serves POST /devices/search, by ids only. Every id above 0 is that of a
// device.
func (a *Appliance) searchDevices(r *rest.Request) rest.Answer {
	body, err := parseObject(r.Data)
	if err != nil {
		return rest.BadRequest(err)
	}
	var filter struct {
		Field, Operator string
		Operand         []int64
	}
	var limit *int
	body.takeOptional("filter", &filter)
	body.takeOptional("limit", &limit)
	if err := body.end(""); err != nil {
		return rest.BadRequest(err)
	}
	switch {
	case filter.Field != "id" || filter.Operator != "in":
		return rest.BadRequest(errors.New("filter: devices can only be searched by id, with the operator in"))
	case limit != nil && *limit < 0:
		return rest.BadRequest(errors.New("limit: must not be negative"))
	}
	ids := slices.Compact(slices.Sorted(slices.Values(filter.Operand)))
	ids = slices.DeleteFunc(ids, func(id int64) bool { return id <= 0 })
	if limit != nil {
		ids = ids[:min(*limit, len(ids))]
	}
	elements := make([][]byte, len(ids))
	for i, id := range ids {
		elements[i] = a.device(id)
	}
	return rest.Array(elements)
}

// device returns the device with an id. The same id gives the same device.
func (a *Appliance) device(id int64) []byte {
	h := mix(uint64(id))
	role := []string{"http_server", "pc", "printer", "db_server", "domain_controller"}[h%5]
	discoveryID := fmt.Sprintf("%016x", h)
	name := "Device " + discoveryID
	dnsName := ""
	if h%4 != 0 {
		dnsName = fmt.Sprintf("%s-%d.corp.example", role, id)
		name = dnsName
	}
	const discovered, day = 1644418590000, 86_400_000
	seen := int64(discovered + h%365*day)
	b, err := rest.Encode(map[string]any{
		"analysis": "advanced", "analysis_level": 2, "auto_role": role, "cdp_name": "",
		"cloud_account": nil, "cloud_instance_id": nil, "cloud_instance_name": nil, "cloud_instance_type": nil,
		"critical": h%9 == 0, "custom_criticality": nil, "custom_make": nil, "custom_model": nil, "custom_name": nil, "custom_type": "",
		"default_name": "Device " + discoveryID, "description": nil, "device_class": "node", "dhcp_name": "",
		"discover_time": discovered, "discovery_id": discoveryID, "display_name": name, "dns_name": dnsName,
		a.options.word() + "_id": discoveryID, "id": id,
		"ipaddr4": fmt.Sprintf("10.%d.%d.%d", byte(h>>8), byte(h>>16), byte(h>>24)), "ipaddr6": nil, "is_l3": false,
		"last_seen_time": seen, "macaddr": fmt.Sprintf("02:%02X:%02X:%02X:%02X:%02X", byte(h>>32), byte(h>>40), byte(h>>48), byte(h>>56), byte(h)),
		"mod_time": seen + 31_076, "model": nil, "model_override": nil, "netbios_name": "", "node_id": nil,
		"on_watchlist": h%7 == 0, "parent_id": nil, "role": role, "subnet_id": nil, "user_mod_time": seen - day,
		"vendor": nil, "vlanid": 0, "vpc_id": nil,
	})
	if err != nil {
		panic(err) // it contains only strings, numbers and booleans
	}
	return b
}
