package bridge_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/internal/bridge"
	"ndrbridge/test/certificate"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

func TestMembersRunTheNATSServers(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 300)
	cert, key := certificate.Files(t, t.TempDir(), "member", certificate.New(t, "127.0.0.1", time.Now().Add(time.Hour), nil))
	var peers []string
	for _, port := range loopback.FreePorts(t, 3) {
		peers = append(peers, fmt.Sprintf("127.0.0.1:%d", port))
	}
	var members []*clusterMember
	var text string
	for i, listen := range peers {
		text = strings.Replace(b.configuration(t, fmt.Sprint("bridge-", i), "x"), `replicas: 1, lease: 15s, nats: {url: "nats://x"}`,
			fmt.Sprintf(`lease: 3s, nats: {embedded: {listen: %q, peers: [%s], tls: {cert_file: %q, key_file: %q, ca_file: %[3]q}}}`, listen, strings.Join(peers, ", "), cert, key), 1)
		members = append(members, &clusterMember{name: fmt.Sprint("bridge-", i), running: run(t, text)})
		if i == 1 {
			awaitCluster(t, "a member to wait for another one", func() bool {
				return members[0].log.hasLine("cannot be joined", "this one is connected to bridge-1")
			})
		}
	}
	awaitCluster(t, "the members to wait for a cluster", func() bool { return members[2].log.hasLine("can neither own nor follow", "ndrbridge cluster init") })
	require.NoError(t, bridge.Init(t.Context(), parse(t, text), "", func(int64) {}))
	owner := members[0].awaitOwner(t, "", 3)
	b.judge(t, true)
	for i, m := range members {
		if m.name == owner {
			m.stop()
			b.add(100)
			members[(i+1)%3].awaitOwner(t, "", 2)
			b.judge(t, true)
			m.again(t)
			break
		}
	}
	members[0].awaitOwner(t, "", 3)
	recoverWithEmptyServers(t, members)
	b.add(100)
	b.judge(t, false)
}

// recoverWithEmptyServers follows the recipe in docs/cluster.md for embedded servers most of which
// are gone for good.
func recoverWithEmptyServers(t *testing.T, members []*clusterMember) {
	t.Helper()
	for _, m := range members {
		m.stop()
	}
	for _, m := range members {
		folder := parse(t, *m.yaml.Load()).State + ".nats"
		require.NoError(t, os.Rename(folder, folder+".lost"))
		m.again(t)
	}
	for _, m := range members {
		awaitCluster(t, m.name+" to say what to do", func() bool { return strings.Contains(m.notReady(t), "ndrbridge cluster recover") })
	}
	var seen admin.Cluster
	awaitCluster(t, "all members to answer", func() bool { seen = members[0].cluster(t); return len(seen.Members) == len(members) })
	furthest := slices.MaxFunc(seen.Members, func(a, b admin.ClusterMember) int { return cmp.Compare(a.Offset, b.Offset) })
	require.NoError(t, admin.API.RecoverCluster.Do(t.Context(), clientOf(t, members[0].Bridge), admin.Recovery{From: furthest.Member}))
	members[0].awaitOwner(t, "", len(members))
}
