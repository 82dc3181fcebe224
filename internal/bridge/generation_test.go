package bridge_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/bridge"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/lease"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// confirmed confirms a recovery.
func confirmed(bridge.Recovery) error { return nil }

// TestAClusterAdoptsTheStateOfASingleBridge: with what its sinks have yet to receive.
func TestAClusterAdoptsTheStateOfASingleBridge(t *testing.T) {
	t.Parallel()
	_, hq := startAppliance(t, 12)
	soc := startInbox(t)
	soc.Answer(http.StatusServiceUnavailable)
	single := configuration(t, hq, webhookSink("soc", soc.URL))
	clustered := fmt.Sprintf("cluster: {name: prod, member: a, replicas: 1, lease: 2s, nats: {url: %q}}\n", loopback.NATS(t, nil).ClientURL()) + single
	config := parse(t, clustered)
	adopt := func() error { return bridge.Init(t.Context(), config, config.State, func(int64) {}) }

	r := run(t, single)
	await(t, "events that wait", func() bool { return sinkStatus(t, r.control(t), "soc").LagEvents == 12 })
	assert.ErrorIs(t, adopt(), checkpoint.ErrLocked, "the state of a running bridge was adopted")
	r.stop()
	require.NoError(t, adopt())
	assert.ErrorIs(t, adopt(), cluster.ErrNotNew, "it was adopted a second time")
	before := config.State + ".single"
	require.NoError(t, os.Rename(config.State, before)) // a member makes a copy of its own
	soc.Answer(http.StatusOK)
	m := run(t, clustered)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", m.log)
		}
	})
	awaitCluster(t, "the owner", func() bool { return m.log.hasLine("running as the owner") })
	awaitCluster(t, "the events", func() bool {
		status := sinkStatus(t, m.control(t), "soc")
		return status.Delivered == 12 && status.LagEvents == 0
	})
	delivered := soc.count("")

	var backup bytes.Buffer
	require.NoError(t, clientOf(t, m.Bridge).Backup(t.Context(), &backup))
	m.stop()
	exported := filepath.Join(t.TempDir(), "exported.db")
	require.NoError(t, os.WriteFile(exported, backup.Bytes(), 0o600))
	require.NoError(t, checkpoint.Detach(exported))
	require.NoError(t, os.Remove(config.State))
	require.NoError(t, os.Rename(exported, config.State))
	r = run(t, single) // a single bridge continues with it
	await(t, "contact", func() bool { return sinkStatus(t, r.control(t), "soc").State == "running" })
	n := soc.count("")
	assert.Equal(t, n, delivered, n-delivered, "events arrived again")
}

// lose replaces the NATS server by an empty one at the same address.
func (b *bridges) lose(t *testing.T) {
	t.Helper()
	port := b.nats.Addr().(*net.TCPAddr).Port
	b.nats.Shutdown()
	b.nats.WaitForShutdown()
	b.nats = loopback.NATS(t, func(o *server.Options) { o.Port = port })
}

// again starts a member that was stopped, with its files.
func (m *clusterMember) again(t *testing.T) {
	t.Helper()
	m.running = run(t, *m.yaml.Load())
}

// notReady returns the reasons why a member is not ready; empty: it is ready.
func (m *clusterMember) notReady(t *testing.T) string {
	t.Helper()
	status, text := get(t, "http://"+m.AdminAddress()+"/readyz")
	if status == http.StatusOK {
		return ""
	}
	return text
}

// TestNATSThatLosesItsDataStopsTheClusterUntilItIsRecovered: whatever the order of starts, no member
// polls or delivers without the state, and all keep their copies. The cluster continues from one
// of them, and repeats no acknowledged event.
func TestNATSThatLosesItsDataStopsTheClusterUntilItIsRecovered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lives   bool  // one member runs during the loss
		order   []int // in which the others are started: 0 and 1 have copies, 2 has none
		running bool  // all run during the recovery
	}{
		"all members are stopped, and the one without a copy is the first": {false, []int{2, 0, 1}, true},
		"the owner runs": {true, []int{2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBridges(t, 2, 30)
			b.lease = 2 * time.Second
			one := b.join(t, "one")
			one.awaitOwner(t, "one", 1)
			two := b.join(t, "two")
			one.awaitOwner(t, "one", 2)
			b.judge(t, false)
			two.stop()
			b.add(5)
			b.judge(t, false)
			awaitCluster(t, "all acknowledgements", func() bool {
				return sinkStatus(t, one.control(t), "soc").LagEvents == 0
			})
			before := b.soc.count("")
			if !c.lives {
				one.stop()
			}
			b.lose(t)
			three := &clusterMember{name: "three", link: b.link(t)}
			yaml := b.configuration(t, "three", three.link.Addr().String())
			members := []*clusterMember{one, two, three}
			waits := func(m *clusterMember) {
				awaitCluster(t, m.name+" to say what to do", func() bool { return strings.Contains(m.notReady(t), "ndrbridge cluster recover") })
				time.Sleep(3 * b.lease) // time to take the log by mistake
			}
			if c.lives {
				waits(one)
			}
			for _, n := range c.order {
				if m := members[n]; m == three {
					m.running = run(t, yaml)
				} else {
					m.again(t)
				}
				waits(members[n])
			}
			n := b.soc.count("")
			assert.Equal(t, n, before, n-before, "events were delivered without the state")
			if c.running {
				furthest := slices.MaxFunc(three.cluster(t).Members, func(a, b admin.ClusterMember) int { return cmp.Compare(a.Offset, b.Offset) })
				assert.True(t, furthest.Member == "one" && furthest.Generation == 1, "the furthest copy is that of", furthest)
				require.NoError(t, admin.API.RecoverCluster.Do(t.Context(), clientOf(t, three.Bridge), admin.Recovery{From: furthest.Member}))
			} else {
				one.stop()
				two.stop()
				b.recoverFromFile(t, parse(t, *one.yaml.Load()))
				one.again(t)
				two.again(t)
			}
			b.add(5)
			b.judge(t, !c.lives)
			for _, m := range members {
				awaitCluster(t, m.name+" to be ready", func() bool { return m.notReady(t) == "" })
			}
			seen := one.cluster(t)
			assert.True(t, seen.Generation == 2 && len(seen.Members) == 3, "the cluster", seen)
		})
	}
}

// recoverFromFile has the cluster, which NATS has lost, continue from the copy of a member that is
// stopped. Nothing is created before that is confirmed.
func (b *bridges) recoverFromFile(t *testing.T, config *configs.Config) {
	t.Helper()
	err := bridge.Init(t.Context(), config, "", func(int64) {})
	assert.True(t, err != nil && strings.Contains(err.Error(), "ndrbridge cluster recover"), "the cluster was created again", err)
	refused := errors.New("refused")
	if r, err := bridge.Recover(t.Context(), config, config.State, func(bridge.Recovery) error { return refused }); !errors.Is(err, refused) || r.Next != 0 {
		t.Errorf("it was not confirmed: %v", err)
	}
	stored, err := b.nats.Jsz(nil)
	assert.True(t, err == nil && stored.Streams <= 0, stored.Streams, "streams were created without a confirmation", err)
	r, err := bridge.Recover(t.Context(), config, config.State, confirmed)
	require.True(t, err == nil && r.Offset != 0 && r.Last == 0 && r.Generation == 1 && r.Next == 2, "the recovery", r, err)
}

// TestABackupContinuesInEmptyNATS follows the recipe in docs/cluster.md.
func TestABackupContinuesInEmptyNATS(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 2, 30)
	b.lease = 2 * time.Second
	one := b.join(t, "one")
	b.judge(t, true)
	path := filepath.Join(t.TempDir(), "backup.db")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, errors.Join(clientOf(t, one.Bridge).Backup(t.Context(), file), file.Close()))
	b.add(5)
	b.judge(t, true)
	one.stop()
	b.lose(t)
	config := parse(t, *one.yaml.Load())
	_, err = bridge.Recover(t.Context(), config, path, confirmed)
	require.NoError(t, err)
	two := b.join(t, "two")
	b.add(5)
	b.judge(t, false)
	one.again(t) // it has more than the backup, and sets that aside
	one.awaitOwner(t, "two", 2)
	two.stop()
	b.add(5)
	b.judge(t, false)
	aside, err := filepath.Glob(config.State + ".*.lost")
	assert.True(t, err == nil && len(aside) == 1, "set aside", aside, err)
}

// TestAnArchiveContinuesInEmptyNATS: with all that was delivered before it.
func TestAnArchiveContinuesInEmptyNATS(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 30)
	b.lease = 2 * time.Second
	one := b.join(t, "one")
	b.judge(t, true)
	awaitCluster(t, "all acknowledgements", func() bool { return sinkStatus(t, one.control(t), "soc").LagEvents == 0 })
	one.stop()
	folder := t.TempDir()
	b.keys = fmt.Sprintf(", archive: {folder: %q}", folder)
	two := b.join(t, "two")
	var archives []string
	awaitCluster(t, "an archive", func() bool {
		archives, _ = filepath.Glob(filepath.Join(folder, "ndrbridge-test-*.db"))
		return len(archives) == 1
	})
	two.stop()
	b.lose(t)
	_, err := bridge.Recover(t.Context(), parse(t, *two.yaml.Load()), archives[0], confirmed)
	require.NoError(t, err)
	b.join(t, "three")
	b.add(5)
	b.judge(t, true)
}

func TestNothingIsRecoveredFromAnEmptyCopy(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 1)
	path := filepath.Join(t.TempDir(), "state.db")
	empty, err := checkpoint.OpenReplica(path, 0)
	require.NoError(t, err)
	require.NoError(t, empty.Close())
	_, err = bridge.Recover(t.Context(), parse(t, b.configuration(t, "one", b.nats.Addr().String())), path, confirmed)
	assert.ErrorContains(t, err, "is empty")
}

// spoil appends what does not follow from the state: nobody can follow the log any longer.
func (b *bridges) spoil(t *testing.T) {
	t.Helper()
	nc, err := nats.Connect(b.nats.ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	storage, err := replicated.OpenJetStream(t.Context(), nc, replicated.JetStreamOptions{Name: "test", Replicas: 1})
	require.NoError(t, err)
	defer storage.Close()
	log, _, err := storage.Generation(t.Context(), 1, false)
	require.NoError(t, err)
	last := require.Value(log.Last(t.Context()))(t)
	stray, err := replicated.Take(t.Context(), log, last, replicated.Options{Context: t.Context(), Owner: "stray", Clock: lease.System()})
	require.NoError(t, err)
	require.Value(stray.Append([]byte("garbage")))(t)
}

func TestTheLogIsRecoveredFromARunningMember(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 100)
	b.lease = 2 * time.Second
	one, two := b.join(t, "one"), b.join(t, "two")
	b.judge(t, false)
	one.awaitOwner(t, "", 2)
	recover := func(from string) error {
		return admin.API.RecoverCluster.Do(t.Context(), clientOf(t, one.Bridge), admin.Recovery{From: from})
	}
	assert.ErrorContains(t, recover("two"), "nothing to recover", "a log with an owner")
	config := parse(t, *two.yaml.Load())
	two.stop()
	_, err := bridge.Recover(t.Context(), config, config.State, confirmed)
	assert.True(t, err != nil && strings.Contains(err.Error(), "a member owns the log"), "a log with an owner, from a file", err)
	one.stop()

	b.spoil(t)
	one.again(t)
	two.again(t)
	for _, m := range []*clusterMember{one, two} {
		awaitCluster(t, "that "+m.name+" cannot follow", func() bool { return strings.Contains(m.notReady(t), "does not fit the log") })
	}
	b.add(20)
	assert.ErrorContains(t, recover("three"), "cannot be reached", "a member that does not exist")
	require.NoError(t, recover("two"))
	assert.True(t, two.log.hasLine("continued from this member's copy on request"), "the member does not log what it did")
	b.judge(t, false)
	for _, m := range []*clusterMember{one, two} {
		awaitCluster(t, m.name+" to be ready", func() bool { return m.notReady(t) == "" })
	}
}
