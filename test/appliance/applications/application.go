// Package applications implements the applications of the stand-in appliance: containers of
// metrics that it has from the start, their activity, and the search for them.
package applications

import (
	"fmt"
	"hash/fnv"
	"strings"

	"ndrbridge/test/appliance/resource"
)

const (
	firstChange = 1644418590000 // of an application, in milliseconds
	day         = 86_400_000
)

// application is an application and its groups of metrics.
type application struct {
	name, description string
	node              int64 // the sensor; 0: the appliance itself
	protocol          string
	devices           []int64 // the numbers of its devices on the sensor
	categories        []string
	days              int64 // after which its activity ended; 0: it goes on
}

var all = []application{
	{"All Activity", "All traffic that the appliance sees.", 0, "any", nil, []string{"net", "tcp", "http", "ssl", "dns"}, 0},
	{"Web Shop", "The shop and its payment pages.", 0, "HTTP", []int64{11, 12, 13}, []string{"http", "ssl"}, 0},
	{"Customer Database", "", 0, "DB", []int64{21, 22}, []string{"db"}, 0},
	{"Sign-in", "Domain controllers and the services that ask them.", 3, "LDAP", []int64{1, 2}, []string{"ldap", "kerberos"}, 0},
	{"Name Resolution", "", 3, "DNS", []int64{1, 2, 3}, []string{"dns"}, 0},
	{"File Shares", "", 0, "CIFS", []int64{31, 32, 33, 34}, []string{"cifs", "nfs"}, 0},
	{"Email", "Servers that receive and relay messages.", 6, "SMTP", []int64{5, 6}, []string{"smtp"}, 0},
	{"Payroll", "Used at the end of each month.", 6, "HTTP", []int64{41}, []string{"http", "db"}, 0},
	{"Telephony", "", 3, "SIP", []int64{51, 52}, []string{"sip", "rtp"}, 0},
	{"Old Intranet", "Replaced.", 0, "HTTP", []int64{61}, []string{"http"}, 90},
}

// Seeds returns the applications. word is the product's.
func Seeds(word string) []resource.Object {
	objects := make([]resource.Object, len(all))
	for i, a := range all {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(a.name)) // it never fails
		criteria := []any{}
		if len(a.devices) > 0 {
			var sources []any
			for _, device := range a.devices {
				sources = append(sources, resource.Object{"object_type": "device", "object_id": a.node<<32 + device})
			}
			criteria = append(criteria, resource.Object{"protocol": a.protocol, "sources": sources})
		}
		var description, node any
		if a.description != "" {
			description = a.description
		}
		if a.node != 0 {
			node = a.node
		}
		objects[i] = resource.Object{
			"id": int64(i + 1), word + "_id": strings.ToLower(strings.ReplaceAll(a.name, " ", "_")),
			"discovery_id": fmt.Sprintf("%016x", hash.Sum64()), "display_name": a.name, "description": description,
			"criteria": criteria, "node_id": node,
			"mod_time": changed(i) + day, "user_mod_time": changed(i),
		}
	}
	return objects
}

// changed returns when a user last changed the application with an index.
func changed(i int) int64 { return firstChange + int64(i)*day }

// Activity is a time in which an application had metrics of a group.
type Activity struct {
	ID            int64  `json:"id"`
	ApplicationID int64  `json:"application_id"`
	FromTime      int64  `json:"from_time"`
	UntilTime     int64  `json:"until_time"`
	ModTime       int64  `json:"mod_time"`
	StatName      string `json:"stat_name"`
}

// ActivityOf returns the activity of the application with an id, as it is at the time now in
// milliseconds. Applications that clients made have none.
func ActivityOf(word string, id, now int64) []Activity {
	if id < 1 || id > int64(len(all)) {
		return []Activity{}
	}
	const cycle, most = 30_000, 10 // metrics are stored every half minute
	a, from := all[id-1], changed(int(id-1))
	until := max(from, now-now%cycle)
	if a.days > 0 {
		until = from + a.days*day
	}
	activity := make([]Activity, len(a.categories))
	for i, category := range a.categories {
		activity[i] = Activity{
			ID: id*most + int64(i), ApplicationID: id, FromTime: from, UntilTime: until, ModTime: until,
			StatName: word + ".application." + category,
		}
	}
	return activity
}
