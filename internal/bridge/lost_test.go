package bridge_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ndrbridge/internal/bridge"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

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
		lives bool  // one member runs during the loss
		order []int // in which the others are started: 0 and 1 have copies, 2 has none
	}{
		"all members are stopped, and the one without a copy is the first": {false, []int{2, 0, 1}},
		"the owner runs": {true, []int{2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBridges(t, 2, 3, 30)
			b.lease = 2 * time.Second
			one, two := b.join(t, "one"), b.join(t, "two")
			b.judge(t, false)
			one.owners(t, 2)
			two.stop()
			awaitCluster(t, "one member to own everything", func() bool {
				seen := one.cluster(t)
				return len(seen.Shards) == 2 && seen.Shards[0].Owner == "one" && seen.Shards[1].Owner == "one"
			})
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
				awaitCluster(t, m.name+" to say what to do", func() bool { return strings.Contains(m.notReady(t), "NATS") })
				time.Sleep(3 * b.lease) // time to take a shard by mistake
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
				if text := members[n].notReady(t); !strings.Contains(text, "ndrbridge cluster init") || !strings.Contains(text, "ndrbridge cluster recover") {
					t.Errorf("%s is not ready because of %s", members[n].name, text)
				}
			}
			if n := b.soc.count(""); n != before {
				t.Errorf("%d events were delivered without the state", n-before)
			}
			one.stop()
			two.stop()
			config := parse(t, *one.yaml.Load())
			if err := bridge.Init(t.Context(), config); err == nil || !strings.Contains(err.Error(), "is a copy of a shard") {
				t.Errorf("the cluster was created again: %v", err)
			}
			var shards []*bridge.Recovery
			for n := range b.shards {
				shards = append(shards, &bridge.Recovery{Shard: n, Path: config.Shard(n).State})
			}
			require.NoError(t, bridge.Recover(t.Context(), config, shards, func() error { return nil }))
			for _, r := range shards {
				if _, err := os.Stat(r.Kept); err != nil || r.Offset == 0 || r.Last != 0 {
					t.Errorf("the recovery %+v: %v", r, err)
				}
			}
			one.again(t)
			two.again(t)
			b.add(5)
			b.judge(t, !c.lives)
			for _, m := range members {
				awaitCluster(t, m.name+" to be ready", func() bool { return m.notReady(t) == "" })
			}
			one.owners(t, 3)
		})
	}
}

// TestABackupContinuesInEmptyNATS follows the recipe in docs/cluster.md.
func TestABackupContinuesInEmptyNATS(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 2, 3, 30)
	b.lease = 2 * time.Second
	one := b.join(t, "one")
	b.judge(t, true)
	folder := t.TempDir()
	var archive bytes.Buffer
	require.NoError(t, clientOf(t, one.Bridge).Backup(t.Context(), &archive))
	config := parse(t, *one.yaml.Load())
	var shards []*bridge.Recovery
	for files := tar.NewReader(&archive); ; {
		header, err := files.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		content, err := io.ReadAll(files)
		path := filepath.Join(folder, header.Name)
		require.NoError(t, errors.Join(err, os.WriteFile(path, content, 0o600)))
		shards = append(shards, &bridge.Recovery{Shard: len(shards), Path: path})
	}
	b.add(5)
	b.judge(t, true)
	one.stop()
	b.lose(t)
	require.NoError(t, bridge.Recover(t.Context(), config, shards, func() error { return nil }))
	two := b.join(t, "two")
	b.add(5)
	b.judge(t, false)
	one.again(t) // it has more than the backup, and sets that aside
	one.owners(t, 2)
	two.stop()
	b.add(5)
	b.judge(t, false)
	for n := range b.shards {
		if _, err := os.Stat(config.Shard(n).State + ".lost"); err != nil {
			t.Error(err)
		}
	}
}
