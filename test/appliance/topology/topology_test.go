package topology_test

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/test/appliance/topology"
)

const (
	now = int64(1772600767890)
	day = int64(86_400_000)
)

// small is a network of devices in groups.
type small struct {
	devices []topology.Device
	groups  map[int64][]int64
}

func (s small) Devices() []topology.Device { return s.devices }

func (s small) HasDevice(id int64) bool { return id >= 1 && id <= int64(len(s.devices)) }

func (s small) HasGroup(id int64) bool { return s.groups[id] != nil }

func (s small) Members(group int64) []int64 { return s.groups[group] }

// kinds are the categories of the devices of a network, by turns.
var kinds = [][]string{
	{"net", "tcp", "http_server", "ssl_server", "dns_client", "db_client"}, {"net", "tcp", "http_client", "ssl_client", "dns_client"},
	{"net", "tcp", "db_server"}, {"net", "tcp", "dns_server", "ldap_server"}, {"net", "http_client", "ldap_client"},
}

func newNetwork(n int) small {
	s := small{groups: map[int64][]int64{1: {1, 2, 3}, 2: {}}}
	for i := range n {
		s.devices = append(s.devices, topology.Device{ID: int64(i + 1), Categories: kinds[i%len(kinds)], From: now - 20*day, Until: now})
	}
	return s
}

func everything(steps ...topology.Step) topology.Query {
	return topology.Query{From: now - day, Until: now, Weighting: "bytes", Annotations: []string{"protocols", "appearances"}, Walks: []topology.Walk{{
		Origins: []topology.Source{{ObjectType: "all_devices"}}, Steps: steps,
	}}}
}

func TestADeviceMoreLeavesTheOthersAsTheyAre(t *testing.T) {
	before := topology.Run(newNetwork(200), everything(topology.Step{}), now).Edges
	after := topology.Run(newNetwork(201), everything(topology.Step{}), now).Edges
	same := 0
	for _, edge := range before {
		if slices.ContainsFunc(after, func(e topology.Edge) bool { return reflect.DeepEqual(e, edge) }) {
			same++
		}
	}
	if len(before) < 200 || same < len(before)*95/100 {
		t.Errorf("%d of %d edges are still there", same, len(before))
	}
}

func TestRoleOfThePeerDecidesTheDirection(t *testing.T) {
	n := newNetwork(50)
	for role, at := range map[string]func(topology.Edge) int64{
		"server": func(e topology.Edge) int64 { return e.From },
		"client": func(e topology.Edge) int64 { return e.To },
	} {
		found := 0
		for id := int64(1); id <= 50; id++ {
			q := topology.Query{From: now - day, Until: now, Walks: []topology.Walk{{
				Origins: []topology.Source{{ObjectType: "device", ObjectID: id}},
				Steps:   []topology.Step{{Relationships: []topology.Relationship{{Role: role}}}},
			}}}
			for _, edge := range topology.Run(n, q, now).Edges {
				found++
				if at(edge) != id {
					t.Errorf("the %ss of %d: the edge %+v", role, id, edge)
				}
			}
		}
		if found == 0 {
			t.Errorf("no device has a %s", role)
		}
	}
}

func TestProtocolIsThatOfAnyLayerInAnyCase(t *testing.T) {
	n := newNetwork(100)
	all := topology.Run(n, everything(topology.Step{}), now)
	for _, name := range []string{"http", "HTTP", "tcp", "ICMP"} {
		step := topology.Step{Relationships: []topology.Relationship{{Protocol: name}}}
		some := topology.Run(n, everything(step), now)
		if len(some.Edges) == 0 || len(some.Edges) >= len(all.Edges) {
			t.Errorf("%s: %d of %d edges", name, len(some.Edges), len(all.Edges))
		}
	}
	none := topology.Run(n, everything(topology.Step{Relationships: []topology.Relationship{{Protocol: "SMTP"}}}), now)
	if none.Edges == nil || len(none.Edges) > 0 {
		t.Errorf("a protocol that nobody speaks has the edges %v", none.Edges)
	}
}

func TestActivityIsKnownOnlyFromThePast(t *testing.T) {
	n := newNetwork(20)
	q := everything(topology.Step{})
	q.From, q.Until = now+day, now+2*day
	if got := topology.Run(n, q, now); len(got.Edges) > 0 || got.Until != now {
		t.Errorf("the future has %d edges until %d", len(got.Edges), got.Until)
	}
	q.From, q.Until = 0, now
	if got := topology.Run(n, q, now); got.From != now-30*day || len(got.Edges) == 0 {
		t.Errorf("activity is known from %d, with %d edges", got.From, len(got.Edges))
	}
	q.From, q.Until = now-30*day, now-21*day
	if got := topology.Run(n, q, now); len(got.Edges) > 0 {
		t.Errorf("before the devices were there, there are %d edges", len(got.Edges))
	}
	q.From, q.Until = -1<<53, -1<<52
	if got := topology.Run(n, q, now); len(got.Edges) > 0 {
		t.Errorf("the distant past has %d edges", len(got.Edges))
	}
}

func TestAMissingGroupIsAWarning(t *testing.T) {
	q := topology.Query{From: now - day, Until: now, Walks: []topology.Walk{{
		Origins: []topology.Source{{ObjectType: "device_group", ObjectID: 9}, {ObjectType: "device_group", ObjectID: 9}},
		Steps:   []topology.Step{{}},
	}}}
	got := topology.Run(newNetwork(10), q, now)
	if len(got.Edges) > 0 || len(got.Warnings) != 1 || got.Warnings[0].Type != "missing_object" {
		t.Errorf("the result is %+v", got)
	}
}

func TestEdgesAreBounded(t *testing.T) {
	got := topology.Run(newNetwork(6000), everything(topology.Step{}), now)
	if len(got.Edges) != 10_000 || len(got.Warnings) != 1 || got.Warnings[0].Type != "too_many_edges" {
		t.Errorf("there are %d edges, and the warnings %v", len(got.Edges), got.Warnings)
	}
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	n := newNetwork(5)
	walk := func(origin topology.Source, steps ...topology.Step) []topology.Walk {
		return []topology.Walk{{Origins: []topology.Source{origin}, Steps: steps}}
	}
	device := topology.Source{ObjectType: "device", ObjectID: 5}
	for name, test := range map[string]struct {
		walks []topology.Walk
		want  string
	}{
		"walks that are possible": {walk(device, topology.Step{PeerIn: []topology.Source{{ObjectType: "device_group", ObjectID: 1}}}), ""},
		"a device that is not":    {walk(topology.Source{ObjectType: "device", ObjectID: 6}), "walks.0.origins.0: there is no device 6"},
		"a group that is not":     {walk(device, topology.Step{PeerNotIn: []topology.Source{{ObjectType: "device_group", ObjectID: 3}}}), "walks.0.steps.0.peer_not_in.0: there is no device_group 3"},
		"too many steps":          {walk(device, make([]topology.Step, 51)...), "walks: they have 51 steps, which is more than 50"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := topology.Check(n, test.walks); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("the error is %q, want %q", got, test.want)
			}
		})
	}
}

var (
	sources = rapid.Custom(func(t *rapid.T) topology.Source {
		switch rapid.SampledFrom([]string{"device", "device", "device_group", "all_devices"}).Draw(t, "kind") {
		case "device":
			return topology.Source{ObjectType: "device", ObjectID: rapid.Int64Range(1, 40).Draw(t, "id")}
		case "device_group":
			return topology.Source{ObjectType: "device_group", ObjectID: rapid.Int64Range(1, 3).Draw(t, "id")}
		}
		return topology.Source{ObjectType: "all_devices"}
	})
	steps = rapid.Custom(func(t *rapid.T) topology.Step {
		return topology.Step{
			Relationships: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) topology.Relationship {
				return topology.Relationship{
					Protocol: rapid.SampledFrom([]string{"", "HTTP", "tcp", "ICMP", "DNS"}).Draw(t, "protocol"),
					Role:     rapid.SampledFrom([]string{"", "any", "client", "server"}).Draw(t, "role"),
				}
			}), 0, 2).Draw(t, "relationships"),
			PeerIn:    rapid.SliceOfN(sources, 0, 2).Draw(t, "peer in"),
			PeerNotIn: rapid.SliceOfN(sources, 0, 1).Draw(t, "peer not in"),
		}
	})
	queries = rapid.Custom(func(t *rapid.T) topology.Query {
		from := rapid.Int64Range(now-3*day, now).Draw(t, "from")
		return topology.Query{
			From: from, Until: rapid.Int64Range(from, now).Draw(t, "until"),
			Weighting:   rapid.SampledFrom([]string{"bytes", "connections", "turns"}).Draw(t, "weighting"),
			Annotations: []string{"appearances", "protocols"},
			Walks: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) topology.Walk {
				return topology.Walk{
					Origins: rapid.SliceOfN(sources, 1, 2).Draw(t, "origins"),
					Steps:   rapid.SliceOfN(steps, 1, 3).Draw(t, "steps"),
				}
			}), 1, 3).Draw(t, "walks"),
		}
	})
)

// in returns the devices of sources in a network.
func (s small) in(sources []topology.Source) map[int64]bool {
	found := make(map[int64]bool)
	for _, source := range sources {
		switch source.ObjectType {
		case "device":
			found[source.ObjectID] = true
		case "device_group":
			for _, id := range s.groups[source.ObjectID] {
				found[id] = true
			}
		default:
			for _, d := range s.devices {
				found[d.ID] = true
			}
		}
	}
	return found
}

func TestEdgesAreThoseThatWalksReach(t *testing.T) {
	n := newNetwork(40)
	rapid.Check(t, func(t *rapid.T) {
		q := queries.Draw(t, "query")
		got := topology.Run(n, q, now)
		for i, walk := range q.Walks {
			reached := n.in(walk.Origins)
			for j, step := range walk.Steps {
				in, notIn := n.in(step.PeerIn), n.in(step.PeerNotIn)
				allowed := func(id int64) bool { return (len(step.PeerIn) == 0 || in[id]) && !notIn[id] }
				next := make(map[int64]bool)
				for _, edge := range got.Edges {
					if !slices.Contains(edge.Annotations.Appearances, topology.Appearance{Walk: i, Step: j}) {
						continue
					}
					forward, back := reached[edge.From] && allowed(edge.To), reached[edge.To] && allowed(edge.From)
					if !forward && !back {
						t.Fatalf("walk %d, step %d: the edge %+v is not reached from %v", i, j, edge, reached)
					}
					if forward {
						next[edge.To] = true
					}
					if back {
						next[edge.From] = true
					}
				}
				reached = next
			}
		}
		for _, edge := range got.Edges {
			sum := int64(0)
			for _, p := range edge.Annotations.Protocols {
				sum += p.Weight
			}
			if edge.Weight < 1 || edge.Weight != sum || len(edge.Annotations.Appearances) == 0 {
				t.Fatalf("the edge %+v has protocols that weigh %d", edge, sum)
			}
		}
		if again := topology.Run(n, q, now); !reflect.DeepEqual(again, got) {
			t.Fatalf("the same query has another result: %+v", again)
		}
	})
}

func TestBytesOfARangeAreThoseOfItsParts(t *testing.T) {
	n := newNetwork(20)
	bytes := func(from, until int64) (sum int64) {
		q := everything(topology.Step{})
		q.From, q.Until = from, until
		for _, edge := range topology.Run(n, q, now).Edges {
			sum += edge.Weight
		}
		return sum
	}
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Int64Range(now-29*day, now).Draw(t, "from")
		until := rapid.Int64Range(from, now).Draw(t, "until")
		middle := rapid.Int64Range(from, until).Draw(t, "middle")
		if whole, parts := bytes(from, until), bytes(from, middle)+bytes(middle, until); whole != parts {
			t.Fatalf("%d bytes in the whole, %d in its parts", whole, parts)
		}
	})
}
