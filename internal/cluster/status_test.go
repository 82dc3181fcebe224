package cluster

import (
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"ndrbridge/internal/admin"
)

func TestStatusOfACluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 3, func(o Options) Options {
			o.Appliances = func(shard int) []string { return []string{"hq", "lab"}[:shard%2] }
			o.ConfigHash = func() string { return "1" }
			switch o.Member {
			case "m1":
				o.ConfigHash = func() string { return "2" }
			case "m2":
				o.Version = "2"
			}
			return o
		})
		time.Sleep(steady)
		var owns, follows [3]int
		c := s.members[0].node().Cluster()
		if c.Name != "sim" || c.Member != "m0" || len(c.Members) != 3 || len(c.Shards) != simShards {
			t.Fatalf("cluster %+v", c)
		}
		for i, m := range c.Members {
			owns[i], follows[i] = len(m.Owns), len(m.Follows)
			if want := []string{admin.ConfigSame, admin.ConfigDiffers, admin.ConfigUnknown}[i]; m.Config != want || m.Member != s.members[i].name {
				t.Errorf("member %s has config %s, want %s", m.Member, m.Config, want)
			}
			if m.Since.IsZero() {
				t.Errorf("member %+v", m)
			}
		}
		if owns[0]+owns[1]+owns[2] != simShards || follows[0]+follows[1]+follows[2] != simShards {
			t.Errorf("members own %v and follow %v of %d shards", owns, follows, simShards)
		}
		for n, shard := range c.Shards {
			ranked := s.byRank(n)
			if shard.Shard != n || shard.Owner != ranked[0].name || shard.LeaseSeconds <= 0 || shard.LeaseSeconds > testTerm.Seconds() {
				t.Errorf("shard %+v, want it owned by %s", shard, ranked[0].name)
			}
			if len(shard.Followers) != 1 || shard.Followers[0].Member != ranked[1].name {
				t.Errorf("shard %d is followed by %v, want %s", n, shard.Followers, ranked[1].name)
			}
			if shard.State != string(s.members[0].state(n)) || shard.Error != "" || shard.Next != "" || shard.WithoutOwnerSeconds != 0 {
				t.Errorf("shard %+v", shard)
			}
			if want := []string{"hq", "lab"}[:n%2]; !reflect.DeepEqual(shard.Appliances, append([]string{}, want...)) {
				t.Errorf("shard %d has appliances %v", n, shard.Appliances)
			}
		}
	})
}

// TestStatusOfAShardWithoutOwner: whoever looks sees how long there has been none, and the
// follower who takes the shard when.
func TestStatusOfAShardWithoutOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 3, nil)
		time.Sleep(steady)
		ranked := s.byRank(0)
		ranked[0].crash()
		for _, m := range ranked[1:] {
			shard := m.node().Cluster().Shards[0]
			for ; shard.Owner == ranked[0].name; shard = m.node().Cluster().Shards[0] {
				time.Sleep(testTerm / 100)
			}
			if m != ranked[1] && shard.Owner == ranked[1].name {
				continue // it read the registry too late to see the time between
			}
			if shard.Owner != "" || shard.LeaseSeconds != 0 || shard.WithoutOwnerSeconds <= 0 || shard.WithoutOwnerSeconds > testTerm.Seconds()/2 {
				t.Errorf("%s sees %+v, want no owner for a moment", m.name, shard)
			}
			if shard.Next != ranked[1].name {
				t.Errorf("%s reports that %q is next, want %s", m.name, shard.Next, ranked[1].name)
			}
			if m == ranked[1] && (shard.NextSeconds <= 0 || shard.NextSeconds > testTerm.Seconds()) {
				t.Errorf("it takes the shard in %vs", shard.NextSeconds)
			}
		}
	})
}

// TestMembersThatLoseNATSSaySoWithinALease: owners and followers, and not only when it is back.
func TestMembersThatLoseNATSSaySoWithinALease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		registries := map[string]*prometheus.Registry{"m0": prometheus.NewRegistry(), "m1": prometheus.NewRegistry(), "m2": prometheus.NewRegistry()}
		s := startCluster(t, 3, func(o Options) Options {
			o.Metrics = NewMetrics(registries[o.Member])
			return o
		})
		expect := func(when string, owned int, ready bool) {
			t.Helper()
			n, owners := 0, 0
			for _, m := range s.members {
				for line := range strings.Lines(exposition(t, registries[m.name])) {
					if strings.HasPrefix(line, "ndrbridge_shard_owned{") && strings.HasSuffix(line, " 1\n") {
						n++
					}
				}
				for _, shard := range m.node().Cluster().Shards {
					if shard.Owner != "" {
						owners++
					}
				}
				if reasons := m.node().NotReady(); (len(reasons) == 0) != ready {
					t.Errorf("%s, %s is not ready because of %q", when, m.name, reasons)
				}
			}
			if n != owned || owners != 3*owned {
				t.Errorf("%s, %d shards are owned by the metric, and %d as the three members see it; want %d", when, n, owners, owned)
			}
		}
		time.Sleep(steady)
		expect("before", simShards, true)
		cut := func(cut bool) {
			for _, m := range s.members {
				m.gate().setCut(cut)
				s.servers.Cut(m.name, cut)
			}
		}
		cut(true)
		time.Sleep(testTerm + testTerm/30)
		expect("after a lease", 0, false)
		time.Sleep(20 * testTerm)
		expect("much later", 0, false)
		cut(false)
		time.Sleep(3 * testTerm)
		expect("when NATS is back", simShards, true)
	})
}

func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		registries := map[string]*prometheus.Registry{"m0": prometheus.NewRegistry(), "m1": prometheus.NewRegistry()}
		s := startCluster(t, 2, func(o Options) Options {
			o.Metrics = NewMetrics(registries[o.Member])
			return o
		})
		time.Sleep(steady)
		ranked := s.byRank(0)
		ranked[0].gate().pause()
		time.Sleep(2 * testTerm)
		ranked[0].gate().resume()
		time.Sleep(testTerm)
		for m, want := range map[*simMember][]string{
			ranked[0]: {
				"ndrbridge_cluster_members 2",
				`ndrbridge_shard_owned{shard="00"} 0`,
				`ndrbridge_shard_fenced_total{shard="00"} 1`,
				`ndrbridge_shard_follower_behind{shard="00"} `,
			},
			ranked[1]: {
				"ndrbridge_cluster_members 2",
				`ndrbridge_shard_owned{shard="00"} 1`,
				`ndrbridge_shard_fenced_total{shard="00"} 0`,
				`ndrbridge_shard_append_resends_total{shard="00"} 0`,
				`ndrbridge_shard_lease_seconds{shard="00"} `,
				`ndrbridge_shard_append_seconds_count{shard="00"} `,
			},
		} {
			text := exposition(t, registries[m.name])
			for _, line := range want {
				if !strings.Contains(text, "\n"+line) {
					t.Errorf("%s has no metric %q", m.name, line)
				}
			}
			if problems, err := testutil.GatherAndLint(registries[m.name]); err != nil || len(problems) > 0 {
				t.Errorf("lint: %v, %v", problems, err)
			}
		}
	})
}

// exposition returns the metrics of a registry as a scraper reads them.
func exposition(t *testing.T, r *prometheus.Registry) string {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	return answer.Body.String()
}
