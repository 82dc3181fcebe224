package devices

import (
	"net/netip"
	"slices"
)

// Custom is a device that a client defined by the traffic that belongs to it.
type Custom struct {
	Number           int64 // of the definition
	Identifier, Name string
	Description      any    // a string or nil
	Address          string // of the device; empty: none is known
	Disabled         bool
}

// CustomID returns the id of the device that the definition with a number makes.
func CustomID(number int64) int64 { return 1<<31 + number }

// Define adds the device of a definition at the time now, or changes it.
func (p *Population) Define(c Custom, now int64) {
	id := CustomID(c.Number)
	p.mu.Lock()
	defer p.mu.Unlock()
	discovered := now
	if known := p.known[id]; known != nil {
		discovered = known.Discovered
	}
	d := p.make(id)
	d.Discovered, d.silent = discovered, 0
	if c.Disabled {
		d.silent = now
	}
	d.Categories, d.Software, d.Names, d.Addresses = []string{"net", "tcp"}, nil, nil, nil
	for name, value := range d.Fields {
		if _, ok := value.(string); ok && name != "discovery_id" {
			d.Fields[name] = ""
		}
	}
	for name, value := range map[string]any{
		p.word + "_id": c.Identifier, "default_name": c.Name, "description": c.Description,
		"device_class": "custom", "auto_role": "custom", "role": "custom", "is_l3": true,
		"vlanid": int64(0), "analysis": "standard", "analysis_level": analysisLevels()["standard"],
		"on_watchlist": false, "critical": false, "activity": d.Categories, "discover_time": discovered, "user_mod_time": now,
		"ipaddr4": nil, "ipaddr6": nil, "vendor": nil, "model": nil,
		"cloud_account": nil, "cloud_instance_id": nil, "cloud_instance_name": nil, "cloud_instance_type": nil,
		"cloud_instance_description": nil, "vpc_id": nil, "subnet_id": nil,
	} {
		d.Fields[name] = value
	}
	if c.Address != "" {
		d.Fields[versionOf(c.Address)] = c.Address
		d.Addresses = []Window{{c.Address, discovered, 0}}
	}
	d.Locality = locality(c.Address)
	p.known[id] = d
	if !p.further[id] {
		p.add(id)
	}
}

// Remove removes the device of a definition.
func (p *Population) Remove(number int64) {
	id := CustomID(number)
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := slices.BinarySearch(p.ids, id); ok {
		p.ids = slices.Delete(p.ids, at, at+1)
	}
	delete(p.further, id)
	delete(p.known, id)
	delete(p.changes, id)
	delete(p.changed, id)
	delete(p.addresses, id)
	delete(p.names, id)
}

// locality returns the number of the network that an address belongs to; 0: none.
func locality(address string) int64 {
	at, err := netip.ParseAddr(address)
	for i, network := range []string{"10.0.0.0/8", "172.16.0.0/12"} {
		if err == nil && netip.MustParsePrefix(network).Contains(at) {
			return int64(i + 1)
		}
	}
	return 0
}
