package bridge_test

import (
	"fmt"
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
	"ndrbridge/test/assert"
	"ndrbridge/test/fault"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// bridges is a cluster whose members run in this process.
type bridges struct {
	nats       *server.Server
	name       string // of the cluster
	lease      time.Duration
	appliances map[string]*standin.Appliance
	soc        *inbox
	yaml       string // of all members, without state, cluster and admin
	login      string // at NATS, further keys of cluster.nats
	keys       string // further keys of cluster
}

// clusterMember is a bridge of a cluster.
type clusterMember struct {
	*running
	name string
	link *fault.Proxy // between it and NATS
}

// newBridges returns a cluster without members. Its appliances have n detections each.
func newBridges(t *testing.T, appliances, n int) *bridges {
	t.Helper()
	return newGroup(t, loopback.NATS(t, nil), "test", appliances, n)
}

// newGroup is newBridges for a cluster with a name on a NATS server.
func newGroup(t *testing.T, nats *server.Server, name string, appliances, n int) *bridges {
	t.Helper()
	b := &bridges{
		nats: nats, name: name, lease: 15 * time.Second,
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
	require.NoError(t, bridge.Init(t.Context(), parse(t, b.configuration(t, "init", b.nats.Addr().String())), "", func(int64) {}))
}

// configuration returns the configuration of a member that reaches NATS by an address.
func (b *bridges) configuration(t *testing.T, name, address string) string {
	listen := loopback.Free(t)
	return fmt.Sprintf("state: %s\nadmin: {listen: %q, advertise: \"http://%[2]s\"}\ncluster: {name: %[3]s, member: %[4]s, replicas: 1, lease: %s, nats: {url: \"nats://%s\"%s}%s}\n",
		filepath.Join(t.TempDir(), "state.db"), listen, b.name, name, b.lease, address, b.login, b.keys) + b.yaml
}

// link returns a connection to NATS that can be cut.
func (b *bridges) link(t *testing.T) *fault.Proxy {
	t.Helper()
	link := require.Value(fault.New(b.nats.Addr().String()))(t)
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

// awaitOwner waits until the member sees so many members, of which all are ready, and that the
// named one owns the log; empty: any. It returns the owner.
func (m *clusterMember) awaitOwner(t *testing.T, owner string, members int) string {
	t.Helper()
	var seen admin.Cluster
	awaitCluster(t, "an owner and its standbys", func() bool {
		seen = m.cluster(t)
		return len(seen.Members) == members && seen.Owner != "" && (owner == "" || seen.Owner == owner) &&
			!slices.ContainsFunc(seen.Members, func(m admin.ClusterMember) bool { return !m.Ready })
	})
	return seen.Owner
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
		assert.True(t, len(verdict.Faults) == 0 && (!once || verdict.Duplicates <= 0), name, verdict)
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
		require.True(t, time.Now().Before(deadline), "gave up waiting", what)
	}
}

// sorted returns the owner and the standby of two members.
func sorted(t *testing.T, a, b *clusterMember) (owner, standby *clusterMember) {
	t.Helper()
	if a.awaitOwner(t, "", 2) == a.name {
		return a, b
	}
	return b, a
}

func TestAStandbyContinuesWithoutRepeatingAnything(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 300)
	b.soc.Delay(2 * time.Millisecond)
	owner, standby := sorted(t, b.join(t, "one"), b.join(t, "two"))
	awaitCluster(t, "some events", func() bool { return b.soc.count("") >= 50 })
	owner.stop()
	b.judge(t, true)
	standby.awaitOwner(t, standby.name, 1)
	b.add(20)
	b.judge(t, true)
	again := b.join(t, owner.name)
	again.awaitOwner(t, standby.name, 2)
	standby.stop()
	b.add(20)
	b.judge(t, true)
	again.stop()
	b.judge(t, true) // what arrived late as well
}

func TestAStandbyTakesOverFromAMemberThatIsCutOff(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 300)
	b.lease = 5 * time.Second
	b.soc.Delay(2 * time.Millisecond)
	owner, standby := sorted(t, b.join(t, "one"), b.join(t, "two"))
	awaitCluster(t, "some events", func() bool { return b.soc.count("") >= 50 })
	owner.link.Cut()
	awaitCluster(t, "the standby to be the owner", func() bool { return standby.cluster(t).Owner == standby.name })
	b.add(20)
	b.judge(t, false)
	status, text := get(t, "http://"+owner.AdminAddress()+"/readyz")
	assert.True(t, status == http.StatusServiceUnavailable && strings.Contains(text, "NATS"), "the member that is cut off", status, text)
	owner.link.Join()
	standby.awaitOwner(t, standby.name, 2)
	standby.stop()
	b.add(20)
	b.judge(t, false)
}

// TestAnyMemberAnswers: requests and ticket commands at a standby have the same answers as at the
// owner.
func TestAnyMemberAnswers(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 2, 10)
	b.yaml += "\ntickets: {enabled: true}\n"
	owner, standby := sorted(t, b.join(t, "one"), b.join(t, "two"))
	b.judge(t, true)
	for name, a := range b.appliances {
		for _, m := range []*clusterMember{owner, standby} {
			detection := history(a)[0].ID
			ticket := name + "-" + m.name
			status, body := m.send(t, "", fmt.Sprintf(`{"ticket_id": %q, "appliance": %q, "detection_id": %d}`, ticket, name, detection))
			require.Equal(t, status, http.StatusAccepted, name, "at", m.name, body)
			for _, asked := range []*clusterMember{owner, standby} {
				awaitCluster(t, "the ticket at "+name, func() bool {
					commands, err := admin.API.ListTicketCommands.Call(t.Context(), asked.control(t), admin.CommandsRequest{Ticket: ticket, Status: checkpoint.CommandApplied, Limit: 10})
					return err == nil && len(commands.Commands) == 1 && commands.Commands[0].Appliance == name
				})
			}
		}
	}
	for _, path := range []string{"/api/v1/sinks", "/api/v1/tickets", "/api/v1/none"} {
		status, text := get(t, "http://"+owner.AdminAddress()+path)
		again, same := get(t, "http://"+standby.AdminAddress()+path)
		assert.True(t, again == status && same == text, path, status, text, "at the owner, and", again, same, "at the standby")
	}
	standby.link.Cut()
	owner.stop()
	awaitCluster(t, "the standby to say that there is no owner", func() bool {
		status, text := get(t, "http://"+standby.AdminAddress()+"/api/v1/status")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "no member owns the log")
	})
}

func TestAReloadIsThatOfTheMember(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 10)
	owner, standby := sorted(t, b.join(t, "one"), b.join(t, "two"))
	b.judge(t, false)
	for _, m := range []*clusterMember{owner, standby} {
		yaml := strings.Replace(*m.yaml.Load(), "max_events: 50", "max_events: 7", 1)
		m.yaml.Store(&yaml)
		changed := require.Value(m.control(t).Reload(t.Context()))(t)
		assert.True(t, len(changed.Changes) != 0, "no change is reported")
		assert.True(t, m.log.hasLine("configuration reloaded", "trigger=api", "changes=1"), m.name, "did not reload")
	}
	assert.True(t, owner.log.hasLine("configuration changed", "sink soc: changed"), "the owner did not change its sink")
	yaml := strings.Replace(*standby.yaml.Load(), "max_events: 7", "max_events: 7, colour: red", 1)
	standby.yaml.Store(&yaml)
	_, err := standby.control(t).Reload(t.Context())
	assert.True(t, err != nil && strings.Contains(err.Error(), "colour"), "a configuration that is not valid", err)
	b.add(10)
	b.judge(t, false)
}

func TestAMemberWaitsForNATS(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 10)
	link := b.link(t)
	link.Cut()
	m := b.joinOver(t, "one", link)
	awaitCluster(t, "the log to say why", func() bool { return m.log.hasLine("cannot be joined", "cluster.nats.url") })
	status, text := get(t, "http://"+m.AdminAddress()+"/readyz")
	assert.True(t, status == http.StatusServiceUnavailable && strings.Contains(text, "NATS"), status, text)
	link.Join()
	b.judge(t, true)
	awaitCluster(t, "readiness", func() bool {
		status, _ := get(t, "http://"+m.AdminAddress()+"/readyz")
		return status == http.StatusOK
	})
}

func TestTheLogIsHandedOverThroughAnyMember(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 100)
	owner, standby := sorted(t, b.join(t, "one"), b.join(t, "two"))
	require.NoError(t, admin.API.HandOver.Do(t.Context(), clientOf(t, standby.Bridge), admin.None{}))
	owner.awaitOwner(t, standby.name, 2)
	b.add(20)
	b.judge(t, true)
	require.NoError(t, admin.API.HandOver.Do(t.Context(), clientOf(t, standby.Bridge), admin.None{}))
	standby.awaitOwner(t, owner.name, 2)
	b.add(20)
	b.judge(t, true)
	owner.stop()
	standby.stop()
	b.judge(t, true) // what arrived late as well
}

// TestGroupsShareNATSServers: clusters with names of their own divide the appliances, and what
// happens to the one does not concern the other.
func TestGroupsShareNATSServers(t *testing.T) {
	t.Parallel()
	east := newBridges(t, 2, 50)
	west := newGroup(t, east.nats, "test-2", 1, 50)
	owner, standby := sorted(t, east.join(t, "one"), east.join(t, "two"))
	other := west.join(t, "one") // names of members count within a cluster
	other.awaitOwner(t, "one", 1)
	owner.stop()
	east.add(20)
	west.add(20)
	east.judge(t, true)
	west.judge(t, true)
	standby.awaitOwner(t, standby.name, 1)
	seen := other.cluster(t)
	assert.True(t, seen.Name == "test-2" && len(seen.Members) == 1 && !other.log.hasLine("another member took the log"), "the other cluster", seen)
}
