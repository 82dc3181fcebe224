package bridge_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/bridge"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/fault"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// bridges is a cluster whose members run in this process.
type bridges struct {
	nats       *server.Server
	shards     int
	lease      time.Duration
	appliances map[string]*standin.Appliance
	soc        *inbox
	yaml       string // of all members, without state, cluster and admin
	login      string // at NATS, further keys of cluster.nats
}

// clusterMember is a bridge of a cluster.
type clusterMember struct {
	*running
	name string
	link *fault.Proxy // between it and NATS
}

// newBridges returns a cluster without members. Its appliances have n detections each.
func newBridges(t *testing.T, shards, appliances, n int) *bridges {
	t.Helper()
	b := &bridges{
		nats: loopback.NATS(t, nil), shards: shards, lease: 15 * time.Second,
		appliances: make(map[string]*standin.Appliance), soc: startInbox(t),
	}
	var yaml strings.Builder
	yaml.WriteString("shutdown_timeout: 10s\nappliances:\n")
	for i := range appliances {
		name := fmt.Sprintf("hq-%d", i)
		a, url := startAppliance(t, n)
		b.appliances[name] = a
		fmt.Fprintf(&yaml, `
  - name: %s
    url: %s
    api_key: %s
    rate_limit: 1000
    retry: {initial: 10ms, max: 50ms}
    audit: {enabled: false}
    detections: {start: beginning, interval: 20ms, page_size: 200}
`, name, url, standin.DefaultAPIKey)
	}
	yaml.WriteString("sinks:\n" + webhookSink("soc", b.soc.URL))
	b.yaml = yaml.String()
	b.create(t)
	return b
}

// create creates the cluster in NATS.
func (b *bridges) create(t *testing.T) {
	t.Helper()
	require.NoError(t, bridge.Init(t.Context(), parse(t, b.configuration(t, "init", b.nats.Addr().String()))))
}

// configuration returns the configuration of a member that reaches NATS by an address.
func (b *bridges) configuration(t *testing.T, name, address string) string {
	return fmt.Sprintf("state: %s\nadmin: {listen: \"127.0.0.1:0\"}\ncluster: {name: test, member: %s, shards: %d, replicas: 1, lease: %s, nats: {url: \"nats://%s\"%s}}\n",
		filepath.Join(t.TempDir(), "state.db"), name, b.shards, b.lease, address, b.login) + b.yaml
}

// link returns a connection to NATS that can be cut.
func (b *bridges) link(t *testing.T) *fault.Proxy {
	t.Helper()
	link, err := fault.New(b.nats.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { link.Close() })
	return link
}

// join runs a member until the test ends, or it is stopped.
func (b *bridges) join(t *testing.T, name string, change ...func(*bridge.Options)) *clusterMember {
	t.Helper()
	return b.joinOver(t, name, b.link(t), change...)
}

func (b *bridges) joinOver(t *testing.T, name string, link *fault.Proxy, change ...func(*bridge.Options)) *clusterMember {
	t.Helper()
	m := &clusterMember{name: name, link: link, running: run(t, b.configuration(t, name, link.Addr().String()), change...)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%s", name, m.log)
		}
	})
	return m
}

// cluster returns the cluster as the member sees it.
func (m *clusterMember) cluster(t *testing.T) admin.Cluster {
	t.Helper()
	seen, err := admin.API.GetCluster.Call(t.Context(), clientOf(t, m.Bridge), admin.None{})
	if err != nil {
		return admin.Cluster{} // it has not joined yet
	}
	return seen
}

// owners returns the owner of each shard, as the member sees it, once it sees so many members,
// and all shards have an owner and, if that is not the only member, a follower.
func (m *clusterMember) owners(t *testing.T, members int) (owners []string) {
	t.Helper()
	awaitCluster(t, "owners and followers", func() bool {
		owners = nil
		seen := m.cluster(t)
		for _, s := range seen.Shards {
			if s.Owner == "" || members > 1 && len(s.Followers) == 0 {
				return false
			}
			owners = append(owners, s.Owner)
		}
		return len(owners) > 0 && len(seen.Members) == members
	})
	return owners
}

// judge waits until everything of all appliances has arrived.
func (b *bridges) judge(t *testing.T, once bool) {
	t.Helper()
	for name, a := range b.appliances {
		awaitCluster(t, "everything of "+name, func() bool {
			n, _ := b.soc.book().Missing(name, history(a))
			return n == 0
		})
		verdict := b.soc.book().Judge(name, history(a))
		if len(verdict.Faults) > 0 || once && verdict.Duplicates > 0 {
			t.Errorf("%s: %+v", name, verdict)
		}
	}
}

func (b *bridges) add(n int) {
	for _, a := range b.appliances {
		a.AddMany(n)
	}
}

// awaitCluster waits until something holds, longer than await: a busy machine may lose
// leases.
func awaitCluster(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting: %s", what)
		}
	}
}

// sorted returns the owner and the other one of two members.
func sorted(t *testing.T, a, b *clusterMember) (owner, other *clusterMember) {
	t.Helper()
	if a.owners(t, 2)[0] == a.name {
		return a, b
	}
	return b, a
}

func TestAFollowerContinuesWithoutRepeatingAnything(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 1, 300)
	b.soc.Delay(2 * time.Millisecond)
	one, two := b.join(t, "one"), b.join(t, "two")
	owner, follower := sorted(t, one, two)
	awaitCluster(t, "some events", func() bool { return b.soc.count("") >= 50 })
	owner.stop()
	b.judge(t, true)
	if owners := follower.owners(t, 1); owners[0] != follower.name {
		t.Errorf("the owner is %s", owners[0])
	}
	b.add(20)
	b.judge(t, true)
	again := b.join(t, owner.name)
	again.owners(t, 2)
	follower.stop()
	b.add(20)
	b.judge(t, true)
	again.stop()
	b.judge(t, true) // what arrived late as well
}

func TestAFollowerTakesOverFromAMemberThatIsCutOff(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 1, 300)
	b.lease = 5 * time.Second
	b.soc.Delay(2 * time.Millisecond)
	one, two := b.join(t, "one"), b.join(t, "two")
	owner, follower := sorted(t, one, two)
	awaitCluster(t, "some events", func() bool { return b.soc.count("") >= 50 })
	owner.link.Cut()
	awaitCluster(t, "the follower to be the owner", func() bool {
		seen := follower.cluster(t)
		return len(seen.Shards) == 1 && seen.Shards[0].Owner == follower.name
	})
	b.add(20)
	b.judge(t, false)
	if status, text := get(t, "http://"+owner.AdminAddress()+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "NATS") {
		t.Errorf("the member that is cut off: %d %s", status, text)
	}
	owner.link.Join()
	follower.owners(t, 2)
	follower.stop()
	b.add(20)
	b.judge(t, false)
}

func TestTicketsReachTheOwnerThroughAnyMember(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 2, 3, 10)
	b.yaml += "\ntickets: {enabled: true}\n"
	one, two := b.join(t, "one"), b.join(t, "two")
	one.owners(t, 2)
	b.judge(t, true)
	for name, a := range b.appliances {
		for _, m := range []*clusterMember{one, two} {
			detection := history(a)[0].ID
			ticket := name + "-" + m.name
			status, body := m.send(t, "", fmt.Sprintf(`{"ticket_id": %q, "appliance": %q, "detection_id": %d}`, ticket, name, detection))
			if status != http.StatusAccepted {
				t.Fatalf("%s at %s: %d %s", name, m.name, status, body)
			}
			awaitCluster(t, "the ticket at "+name, func() bool {
				commands, err := admin.API.ListTicketCommands.Call(t.Context(), m.control(t), admin.CommandsRequest{Ticket: ticket, Status: checkpoint.CommandApplied, Limit: 10})
				return err == nil && len(commands.Commands) == 1 && commands.Commands[0].Appliance == name
			})
		}
	}
}

func TestAReloadReachesAllMembers(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 4, 4, 10)
	one, two := b.join(t, "one"), b.join(t, "two")
	owners := one.owners(t, 2)
	for _, m := range []*clusterMember{one, two} {
		if !slices.Contains(owners, m.name) { // the other one was alone when it took them
			require.NoError(t, admin.API.HandOver.Do(t.Context(), clientOf(t, one.Bridge), admin.Handover{Shard: new(0)}))
			awaitCluster(t, "each member to own a shard", func() bool { return slices.Contains(m.owners(t, 2), m.name) })
		}
	}
	b.judge(t, false)
	for _, m := range []*clusterMember{one, two} {
		yaml := strings.Replace(*m.yaml.Load(), "max_events: 50", "max_events: 7", 1)
		m.yaml.Store(&yaml)
	}
	changed, err := one.control(t).Reload(t.Context())
	require.NoError(t, err)
	if len(changed.Changes) == 0 {
		t.Error("no change is reported")
	}
	for _, m := range []*clusterMember{one, two} {
		if !m.log.hasLine("configuration changed", "sink soc: changed") || !m.log.hasLine("configuration reloaded", "trigger=api", "changes=1") {
			t.Errorf("%s did not reload", m.name)
		}
	}
	yaml := strings.Replace(*one.yaml.Load(), "max_events: 7", "max_events: 7, colour: red", 1)
	one.yaml.Store(&yaml)
	if _, err := one.control(t).Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "colour") {
		t.Errorf("a configuration that is not valid: %v", err)
	}
	for _, m := range []*clusterMember{one, two} {
		status, err := m.control(t).Status(t.Context())
		if err != nil || status.Reload == nil || status.Reload.OK == (m == one) {
			t.Errorf("the last reload of %s: %+v (%v)", m.name, status.Reload, err)
		}
	}
	b.add(10)
	b.judge(t, false)
}

func TestAMemberWaitsForNATS(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 1, 10)
	link := b.link(t)
	link.Cut()
	m := b.joinOver(t, "one", link)
	awaitCluster(t, "the log to say why", func() bool { return m.log.hasLine("cannot be joined", "cluster.nats.url") })
	if status, text := get(t, "http://"+m.AdminAddress()+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "NATS") {
		t.Errorf("%d %s", status, text)
	}
	link.Join()
	b.judge(t, true)
	awaitCluster(t, "readiness", func() bool {
		status, _ := get(t, "http://"+m.AdminAddress()+"/readyz")
		return status == http.StatusOK
	})
}

func TestAMemberWithAnotherNumberOfShardsEnds(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 2, 1, 10)
	b.join(t, "one").owners(t, 1)
	b.shards = 3
	other, err := newBridge(t, b.configuration(t, "two", b.nats.Addr().String()), io.Discard, nil)
	require.NoError(t, err)
	if err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "set cluster.shards: 2 instead of 3") {
		t.Errorf("got %v", err)
	}
}

func TestAShardIsHandedOverThroughAnyMember(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 1, 100)
	one, two := b.join(t, "one"), b.join(t, "two")
	owner, other := sorted(t, one, two)
	other.owners(t, 2) // it sees the owner, too
	require.NoError(t, admin.API.HandOver.Do(t.Context(), clientOf(t, other.Bridge), admin.Handover{Shard: new(0)}))
	if owners := owner.owners(t, 2); owners[0] != other.name {
		t.Errorf("the owner is %s", owners[0])
	}
	b.add(20)
	b.judge(t, true)
	for what, wrong := range map[string]admin.Handover{"a member": {Member: "none"}, "a shard": {Shard: new(7)}} {
		if err := admin.API.HandOver.Do(t.Context(), clientOf(t, one.Bridge), wrong); !errors.Is(err, admin.ErrUnknown) {
			t.Errorf("%s that does not exist: %v", what, err)
		}
	}
	one.stop()
	two.stop()
	b.judge(t, true) // what arrived late as well
}
