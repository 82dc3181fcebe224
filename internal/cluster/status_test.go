package cluster

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	nats "github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestStatusOfACluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 3, func(o Options) Options {
			o.ConfigHash = func() string { return "1" }
			switch o.Member {
			case "m1":
				o.ConfigHash = func() string { return "2" }
			case "m2":
				o.Version = "2"
			}
			return o
		})
		owner, _ := s.roles(t)
		for _, asked := range s.members {
			c := asked.node().Cluster(t.Context())
			assert.True(t, c.Name == "sim" && c.ID != "" && c.Generation == 1 && c.Member == asked.name && c.Owner == owner.name && c.Error == "", asked.name, "says", c)
			assert.True(t, c.LeaseSeconds > 0 && c.LeaseSeconds <= testTerm.Seconds() && c.WithoutOwnerSeconds == 0, asked.name, "says", c)
			require.Equal(t, len(c.Members), 3, asked.name, "sees so many members")
			for i, m := range c.Members {
				want := "following"
				if m.Member == owner.name {
					want = "owning"
				}
				if m.Member != s.members[i].name || m.State != want || m.Since.IsZero() || !m.Ready || m.Generation != 1 || m.Offset == 0 || m.URL != "http://"+m.Member {
					t.Errorf("%s says of %s: %+v", asked.name, s.members[i].name, m)
				}
			}
			configs := map[string][]string{
				"m0": {admin.ConfigSame, admin.ConfigDiffers, admin.ConfigUnknown},
				"m1": {admin.ConfigDiffers, admin.ConfigSame, admin.ConfigUnknown},
				"m2": {admin.ConfigUnknown, admin.ConfigUnknown, admin.ConfigSame},
			}[owner.name]
			for i, m := range c.Members {
				assert.Equal(t, m.Config, configs[i], "the configuration of", m.Member, "is")
			}
		}
	})
}

// TestStatusWithoutAnOwner: whoever looks sees that there is none, and for how long.
func TestStatusWithoutAnOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 3, nil)
		owner, standbys := s.roles(t)
		owner.crash()
		time.Sleep(testTerm * 5 / 6)
		for _, m := range standbys {
			c := m.node().Cluster(t.Context())
			assert.True(t, c.Owner == "" && c.LeaseSeconds == 0 && c.WithoutOwnerSeconds > testTerm.Seconds()/3 && c.WithoutOwnerSeconds <= testTerm.Seconds()*5/4, m.name, "says", c)
		}
	})
}

// TestMembersKnowTheOwner: what to forward to it is known until its lease is over.
func TestMembersKnowTheOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, nil)
		owner, standbys := s.roles(t)
		for range 100 {
			o, self, left, ok := owner.node().Owner()
			assert.True(t, ok && self && left > 0 && o.Member == owner.name, "the owner knows", o)
			o, self, left, ok = standbys[0].node().Owner()
			assert.True(t, ok && !self && left > 0 && o.URL == "http://"+owner.name, "the standby knows", o)
			time.Sleep(testTerm / 20)
		}
		standbys[0].stop()
		standbys[0].disk = newSimDisk()
		standbys[0].start()
		time.Sleep(startup)
		o, _, _, ok := standbys[0].node().Owner()
		assert.True(t, ok && o.Member == owner.name, "the standby that was restored knows", o)
		owner.crash()
		time.Sleep(2 * testTerm)
		o, self, _, ok := standbys[0].node().Owner()
		assert.True(t, ok && self, "the new owner knows", o)
	})
}

// TestMembersThatLoseNATSSaySoWithinALease: owners and standbys, and not only when it is back.
func TestMembersThatLoseNATSSaySoWithinALease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		registries := map[string]*prometheus.Registry{"m0": prometheus.NewRegistry(), "m1": prometheus.NewRegistry(), "m2": prometheus.NewRegistry()}
		s := startCluster(t, 3, func(o Options) Options {
			o.Metrics = NewMetrics(registries[o.Member])
			return o
		})
		expect := func(when string, owners int, ready bool) {
			t.Helper()
			n := 0
			for _, m := range s.members {
				metrics := exposition(t, registries[m.name])
				if strings.Contains(metrics, "\nndrbridge_cluster_owner 1\n") {
					n++
				}
				assert.Equal(t, strings.Contains(metrics, "\nndrbridge_cluster_following 1\n"), ready, when, "the metric of", m.name, "says whether it could take the log", !ready)
				c := m.node().Cluster(t.Context())
				assert.Equal(t, c.Owner != "", owners > 0, when, m.name, "says that the owner", c.Owner)
				reasons := m.node().NotReady()
				assert.Equal(t, len(reasons) == 0, ready, when, m.name, "is not ready because of", reasons)
			}
			assert.Equal(t, n, owners, when, "members own the log by their metric")
		}
		expect("before", 1, true)
		cut := func(cut bool) {
			for _, m := range s.members {
				m.gate().setCut(cut)
				s.servers.Cut(m.name, cut)
			}
		}
		cut(true)
		time.Sleep(testTerm + testTerm/3)
		expect("after a lease", 0, false)
		time.Sleep(20 * testTerm)
		expect("much later", 0, false)
		cut(false)
		time.Sleep(3 * testTerm)
		expect("when NATS is back", 1, true)
	})
}

func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		registries := map[string]*prometheus.Registry{"m0": prometheus.NewRegistry(), "m1": prometheus.NewRegistry()}
		s := startCluster(t, 2, func(o Options) Options {
			o.Metrics = NewMetrics(registries[o.Member])
			return o
		})
		owner, standbys := s.roles(t)
		owner.gate().pause()
		time.Sleep(2 * testTerm)
		owner.gate().resume()
		time.Sleep(2 * testTerm)
		for m, want := range map[*simMember][]string{
			owner: {
				"ndrbridge_cluster_members 2", "ndrbridge_cluster_owner 0", "ndrbridge_cluster_following 1", "ndrbridge_cluster_log_lost 0",
				"ndrbridge_cluster_fenced_total 1", "ndrbridge_cluster_behind ", "ndrbridge_cluster_lease_seconds 0",
			},
			standbys[0]: {
				"ndrbridge_cluster_members 2", "ndrbridge_cluster_owner 1", "ndrbridge_cluster_following 1", "ndrbridge_cluster_takeovers_total 1",
				"ndrbridge_cluster_fenced_total 0", "ndrbridge_cluster_append_resends_total 0", "ndrbridge_cluster_lease_seconds ", "ndrbridge_cluster_append_seconds_count ",
			},
		} {
			text := exposition(t, registries[m.name])
			for _, line := range want {
				assert.Contains(t, text, "\n"+line, m.name, "has no metric", line)
			}
			assert.Empty(t, require.Value(testutil.GatherAndLint(registries[m.name]))(t), "lint")
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

// TestPeersOverNATS: members answer with what they say of themselves, and garbage is ignored.
func TestPeersOverNATS(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	p := Peers{NC: nc, Name: "test", Hide: func(err error) error { return err }}
	assert.Empty(t, require.Value(p.Ask(t.Context()))(t), "nobody answers")
	assert.ErrorContains(t, p.Recover(t.Context(), "a"), "member a cannot be reached", "nobody recovers")
	for _, member := range []string{"a", "b"} {
		n := New(Options{
			Name: "test", Member: member, Term: testTerm, Version: "1", Metrics: NewMetrics(prometheus.NewRegistry()), Log: discard,
			ConfigHash: func() string { return "" }, URL: func() string { return "" },
		})
		stop := require.Value(p.Serve(t.Context(), n))(t)
		defer stop()
		request := n.accept(&recovery{ctx: t.Context(), done: make(chan error, 1)}) // the next one is refused
		require.NoError(t, request)
	}
	garbage, err := nc.Subscribe("ndr.test.members", func(m *nats.Msg) {
		for _, answer := range []string{"", "null", `{"member": 7}`, `{"member": "` + strings.Repeat("x", maxReport) + `"}`} {
			assert.NoError(t, m.Respond([]byte(answer)))
		}
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, garbage.Unsubscribe()) }()
	reports, err := p.Ask(t.Context())
	assert.True(t, err == nil && len(reports) == 2 && reports[0].Version == "1" && reports[0].Member != reports[1].Member, "the members answer", reports, err)
	assert.ErrorContains(t, p.Recover(t.Context(), "b"), "being recovered already", "a member that cannot recover says")
	err = p.Recover(t.Context(), "c")
	assert.True(t, err != nil && !errors.Is(err, t.Context().Err()), "an unknown member recovers", err)
}
