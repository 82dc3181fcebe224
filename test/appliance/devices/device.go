package devices

import (
	"fmt"
	"slices"
)

// Device is what an appliance knows of a device at some time.
type Device struct {
	ID                   int64
	Discovered, LastSeen int64
	// Fields are the values as the interface shows them.
	Fields map[string]any
	// Categories are those of the metrics that the device has.
	Categories []string
	Software   []Software
	// Names and Addresses are those that the device had over time.
	Names, Addresses []Window
	// Tags are the names of the tags that are assigned to it. The owner of the device sets
	// them.
	Tags []string

	// Locality is the number of the network that the device belongs to: 1 is 10.0.0.0/8, 2 is
	// 172.16.0.0/12, 0 is another one.
	Locality int64

	silent int64 // when it was seen last; 0: it is active
}

// Software is what runs on a device.
type Software struct {
	Type        string  `json:"software_type"`
	Name        string  `json:"name"`
	Version     *string `json:"version"`
	Description *string `json:"description"`
	ID          string  `json:"id"`
}

// ActiveIn reports whether the device was active within a range of time.
func (d *Device) ActiveIn(from, until int64) bool { return d.Discovered <= until && d.LastSeen >= from }

// Active reports whether the device was seen within the last half hour before now.
func (d *Device) Active(now int64) bool {
	const recently = 1_800_000
	return d.LastSeen > now-recently
}

// In returns the windows that overlap a range of time.
func In(windows []Window, from, until int64) []Window {
	return slices.DeleteFunc(slices.Clone(windows), func(w Window) bool { return w.From > until || w.Until < from })
}

// NodeUUID returns the UUID of the sensor with a number.
func NodeUUID(sensor int64) string {
	return fmt.Sprintf("5e5c0000-0000-4000-8000-%012x", uint64(sensor))
}

// apply sets the fields that a client changed, and those that follow from them.
func (d *Device) apply(changes map[string]any) {
	f := d.Fields
	for name, value := range changes {
		switch name {
		case "custom_criticality":
			if value != nil {
				f["critical"] = value == "critical"
			}
		case "model_override":
			if value != nil {
				f["model"] = value
			}
		case "role":
			if value == "" {
				value = f["auto_role"]
			}
		}
		f[name] = value
	}
	if f["on_watchlist"] == true || f["critical"] == true {
		f["analysis"], f["analysis_level"] = "advanced", analysisLevels()["advanced"]
	}
	f["display_name"] = f["default_name"]
	for _, name := range []string{"custom_name", "dns_name", "dhcp_name", "netbios_name", "cdp_name"} {
		if s, _ := f[name].(string); s != "" {
			f["display_name"] = s
			break
		}
	}
}

// analysisLevels returns the number of each level of analysis.
func analysisLevels() map[string]int {
	return map[string]int{"discovery": 0, "standard": 1, "advanced": 2, "l2_exempt": 3, "flow_log": 4}
}

// profile is what the devices with a role have in common.
type profile struct {
	role, class   string
	vendor, model any // nil: unknown
	categories    []string
	software      []Software
}

// gateway is the index of the device that routes for a block of devices.
func gateway(index int64) int64 { return (index-1)/50*50 + 1 }

func profileOf(h uint64, router bool) profile {
	program := func(kind, name, version, id string) Software { return Software{kind, name, &version, nil, id} }
	linux := program("OS", "Linux", "6.12", "linux_6_12")
	windows := Software{"OS", "Windows Server", nil, new("The edition is not known."), "windows_server"}
	switch {
	case router:
		return profile{"gateway", "gateway", "Example Networks", "EN-4800", []string{"net", "arp", "cdp"}, []Software{program("OS", "Router OS", "4.1", "router_os_4_1")}}
	case h%5 == 0:
		return profile{"http_server", "node", "Example Virtual", nil, []string{"net", "tcp", "http_server", "ssl_server", "dns_client", "db_client"}, []Software{linux, program("HTTP Server", "nginx", "1.28", "nginx_1_28")}}
	case h%5 == 1:
		return profile{"pc", "node", "Example Systems", "Desk 7", []string{"net", "tcp", "http_client", "ssl_client", "dns_client", "smb_client", "kerberos_client", "ldap_client"}, []Software{program("OS", "Windows", "11", "windows_11"), program("Web Browser", "Firefox", "140.0", "firefox_140")}}
	case h%5 == 2:
		return profile{"printer", "node", "Example Printing", "Laser 300", []string{"net", "tcp", "http_server", "dns_client"}, nil}
	case h%5 == 3:
		return profile{"db_server", "node", "Example Virtual", nil, []string{"net", "tcp", "db_server", "dns_client"}, []Software{linux, program("Database", "PostgreSQL", "17.5", "postgresql_17")}}
	}
	return profile{"domain_controller", "node", "Example Systems", "Rack 2", []string{"net", "tcp", "dns_server", "kerberos_server", "ldap_server", "smb_server"}, []Software{windows, {"DNS Server", "Windows DNS", nil, nil, "windows_dns"}}}
}

// DiscoveryID returns the discovery_id of a device.
func DiscoveryID(id int64) string { return fmt.Sprintf("%016x", Hash(uint64(id))) }

// InitialAddress returns the IPv4 address that a device has which is there from the beginning,
// unless a detection showed another.
func InitialAddress(id int64) string {
	sensor, index := id>>32, id&(1<<32-1)
	return fmt.Sprintf("10.%d.%d.%d", 32+sensor, index/250, 1+index%250)
}

// make returns what does not change of a device. The same id gives the same device.
func (p *Population) make(id int64) *Device {
	h := Hash(uint64(id))
	sensor, index := id>>32, id&(1<<32-1)
	router := initial(id) && index == gateway(index)
	role := profileOf(h, router)
	discoveryID := DiscoveryID(id)

	const hour, day = 3_600_000, 86_400_000
	d := &Device{ID: id, Discovered: p.start - p.start%1000 - int64(30+h%335)*day, Categories: role.categories, Software: role.software}
	if h%8 == 0 {
		d.silent = p.start - p.start%1000 - int64(1+h>>8%480)*hour
	}
	host := fmt.Sprintf("host%d", id&0xffff)
	address := fmt.Sprintf("172.%d.%d.%d", 16+h%16, byte(h>>8), 1+h>>16%254)
	if initial(id) {
		address = InitialAddress(id)
	}
	d.Locality = locality(address)
	d.Addresses = []Window{{address, d.Discovered, 0}}
	d.Names = []Window{{host + ".corp.example", d.Discovered, 0}}
	if moved := d.Discovered + int64(1+h>>24%20)*day; h%6 == 0 {
		d.Addresses = []Window{{fmt.Sprintf("192.168.%d.%d", byte(h>>32), 1+h>>40%254), d.Discovered, moved}, {address, moved, 0}}
		d.Names = []Window{{"old-" + host + ".corp.example", d.Discovered, moved}, {host + ".corp.example", moved, 0}}
	}
	analysis := []string{"advanced", "advanced", "advanced", "standard", "standard", "discovery"}[h>>12%6]
	if h>>12%19 == 0 {
		analysis = []string{"l2_exempt", "flow_log"}[h>>20%2]
	}
	d.Fields = map[string]any{
		"id": id, p.word + "_id": discoveryID, "discovery_id": discoveryID,
		"node_id": nil, "parent_id": nil, "is_l3": false, "device_class": role.class,
		"default_name": "Device " + discoveryID, "custom_name": nil, "dns_name": host + ".corp.example",
		"dhcp_name": "", "netbios_name": "", "cdp_name": "", "description": nil,
		"macaddr": fmt.Sprintf("02:%02X:%02X:%02X:%02X:%02X", byte(h>>32), byte(h>>40), byte(h>>48), byte(h>>56), byte(h)),
		"ipaddr4": address, "ipaddr6": nil, "vendor": role.vendor, "vlanid": int64(h >> 28 % 4 * 10),
		"auto_role": role.role, "role": role.role, "custom_type": "",
		"analysis": analysis, "analysis_level": analysisLevels()[analysis],
		"on_watchlist": h%7 == 0, "critical": h%9 == 0, "custom_criticality": nil,
		"model": role.model, "model_override": nil, "custom_make": nil, "custom_model": nil,
		"cloud_account": nil, "cloud_instance_id": nil, "cloud_instance_name": nil, "cloud_instance_type": nil,
		"cloud_instance_description": nil, "vpc_id": nil, "subnet_id": nil,
		"activity": role.categories, "discover_time": d.Discovered, "user_mod_time": d.Discovered + day,
	}
	f := d.Fields
	if sensor > 0 {
		f["node_id"] = sensor
	}
	if initial(id) && !router {
		f["is_l3"], f["parent_id"] = true, sensor<<32+gateway(index)
	}
	if h%10 == 3 {
		own := fmt.Sprintf("fd00:%x::%x", sensor&0xffff, index&0xffff)
		f["ipaddr6"] = own
		d.Addresses = append(d.Addresses, Window{own, d.Discovered, 0})
	}
	switch role.role {
	case "gateway":
		f["cdp_name"] = fmt.Sprintf("gw%d.corp.example", index)
	case "pc":
		f["dhcp_name"], f["netbios_name"] = host, fmt.Sprintf("HOST%d", id&0xffff)
	case "domain_controller":
		f["netbios_name"] = fmt.Sprintf("HOST%d", id&0xffff)
	case "http_server", "db_server":
		if h>>4%3 == 0 {
			f["cloud_account"], f["cloud_instance_id"] = "000000000042", fmt.Sprintf("i-%017x", h)
			f["cloud_instance_name"], f["cloud_instance_type"] = host, "m5.large"
			f["cloud_instance_description"] = "A server of the shop."
			f["vpc_id"], f["subnet_id"] = fmt.Sprintf("vpc-%08x", sensor), fmt.Sprintf("subnet-%08x", h%4)
		}
	}
	return d
}

// Hash returns a hash of a number, from which what is generated looks random.
func Hash(n uint64) uint64 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
