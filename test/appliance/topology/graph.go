package topology

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
)

// conversation is the activity between two devices in one protocol.
type conversation struct {
	from, to int64 // client and server, or the ends of a protocol without roles
	protocol protocol

	begins, ends int64 // when both devices were there
	// In this time, the devices are active for the first part of each period, beginning at a phase, all in
	// milliseconds.
	period, active, phase int64
	bytes                 int64 // for each millisecond of activity
	connection, turn      int64 // the milliseconds of activity that each takes
}

// protocol is a stack of layers, the lowest first.
type protocol struct {
	layers []string
	peer   bool // it has neither client nor server
}

// ping is the protocol of devices that are in each other's reach.
var ping = protocol{layers: []string{"IPv4", "ICMP"}, peer: true}

// clients are the protocols in which a device with a category of metrics is a client. Their
// servers have the same category with _server at the end.
var clients = map[string]protocol{
	"db_client":       {layers: []string{"IPv4", "TCP", "DB"}},
	"dns_client":      {layers: []string{"IPv4", "UDP", "DNS"}},
	"http_client":     {layers: []string{"IPv4", "TCP", "HTTP"}},
	"kerberos_client": {layers: []string{"IPv4", "TCP", "Kerberos"}},
	"ldap_client":     {layers: []string{"IPv4", "TCP", "LDAP"}},
	"smb_client":      {layers: []string{"IPv4", "TCP", "SMB"}},
	"ssl_client":      {layers: []string{"IPv4", "TCP", "SSL"}},
}

// graph is the activity of a network.
type graph struct {
	conversations []conversation
	of            map[int64][]int // the indices of a device's conversations
}

type (
	// ringKey names the devices of a sensor that have a category of metrics.
	ringKey struct {
		sensor   int64
		category string
	}
	// stop is the place of a device on a ring.
	stop struct {
		at     uint64
		device *Device
	}
)

// newGraph returns the activity between devices, which depends on nothing else. The servers of
// each sensor stand on a ring, and a client talks to those at random places of it: one more
// device leaves almost all conversations as they are.
func newGraph(devices []Device) graph {
	rings := make(map[ringKey][]stop)
	for i := range devices {
		d := &devices[i]
		at := chance(d.ID).Uint64()
		for _, category := range d.Categories {
			key := ringKey{d.ID >> 32, category}
			rings[key] = append(rings[key], stop{at, d})
		}
	}
	for _, ring := range rings {
		slices.SortFunc(ring, func(a, b stop) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.device.ID, b.device.ID))
		})
	}
	g := graph{of: make(map[int64][]int)}
	for i := range devices {
		d := &devices[i]
		r := chance(d.ID)
		r.Uint64() // its own place
		for _, category := range d.Categories {
			p, ok := clients[category]
			server := strings.TrimSuffix(category, "client") + "server"
			if category == "net" && r.IntN(8) == 0 {
				p, server, ok = ping, category, true
			}
			if !ok {
				continue
			}
			for range 1 + r.IntN(2) {
				g.add(r, d, p, rings[ringKey{d.ID >> 32, server}])
			}
		}
	}
	return g
}

// chance returns the random choices of a device.
func chance(id int64) *rand.Rand { return rand.New(rand.NewPCG(uint64(id), 1)) }

// add adds a conversation of a device with one of the devices on a ring.
func (g *graph) add(r *rand.Rand, d *Device, p protocol, ring []stop) {
	const minute = 60_000
	place, period := r.Uint64(), (10+r.Int64N(24*60))*minute
	c := conversation{
		from: d.ID, protocol: p, period: period, active: minute + r.Int64N(period-minute), phase: r.Int64N(period),
		bytes: 1 + r.Int64N(500), connection: 100 + r.Int64N(10_000), turn: 10 + r.Int64N(1000),
	}
	if len(ring) == 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(ring, place, func(s stop, at uint64) int { return cmp.Compare(s.at, at) })
	peer := ring[at%len(ring)].device
	if peer.ID == d.ID {
		return
	}
	c.to, c.begins, c.ends = peer.ID, max(d.From, peer.From), min(d.Until, peer.Until)
	i := len(g.conversations)
	g.conversations = append(g.conversations, c)
	g.of[c.from] = append(g.of[c.from], i)
	g.of[c.to] = append(g.of[c.to], i)
}

// weight returns how much of a weighting a conversation has in a range of time: 0 only if it
// is not active then.
func (c *conversation) weight(weighting string, from, until int64) int64 {
	from, until = max(from, c.begins), min(until, c.ends)
	if until <= from {
		return 0
	}
	before, after := c.activeUntil(from), c.activeUntil(until)
	if after <= before {
		return 0
	}
	switch weighting {
	case "connections":
		return max(1, after/c.connection-before/c.connection)
	case "turns":
		return max(1, after/c.turn-before/c.turn)
	}
	return (after - before) * c.bytes
}

// activeUntil returns the milliseconds of activity up to a time.
func (c *conversation) activeUntil(t int64) int64 {
	t -= c.phase
	periods := t / c.period
	if t%c.period < 0 {
		periods--
	}
	return periods*c.active + min(t-periods*c.period, c.active)
}

// matches reports whether a conversation is of a relationship, as seen from one of its devices.
func (c *conversation) matches(of Relationship, from int64) bool {
	if of.Protocol != "" && !slices.ContainsFunc(c.protocol.layers, func(layer string) bool { return strings.EqualFold(layer, of.Protocol) }) {
		return false
	}
	switch of.Role {
	case "server":
		return !c.protocol.peer && c.from == from
	case "client":
		return !c.protocol.peer && c.to == from
	}
	return true
}
