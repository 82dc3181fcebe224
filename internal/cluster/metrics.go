package cluster

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/configs"
)

// Metrics are the metrics of this member and its shards. A Node fills them.
type Metrics struct {
	takeovers, fenced, resends *prometheus.CounterVec
	append                     *prometheus.HistogramVec
	node                       atomic.Pointer[Node] // nil: it does not run
}

var (
	membersDesc = prometheus.NewDesc("ndrbridge_cluster_members", "Live members of the cluster, as this one sees them; 0: it has not joined.", nil, nil)
	ownedDesc   = prometheus.NewDesc("ndrbridge_shard_owned", "1 if this member owns the shard and its lease is valid.", []string{"shard"}, nil)
	lostDesc    = prometheus.NewDesc("ndrbridge_shard_log_lost", "1 if the shard's log in NATS lacks records that this member's copy has, or is empty: no member takes the shard.", []string{"shard"}, nil)
	leaseDesc   = prometheus.NewDesc("ndrbridge_shard_lease_seconds", "Time left of this member's lease of the shard; 0: sends wait.", []string{"shard"}, nil)
	logDesc     = prometheus.NewDesc("ndrbridge_shard_log_bytes", "Bytes of the shard's log behind its last snapshot, as far as this member, its owner or a follower, has seen them.", []string{"shard"}, nil)
	behindDesc  = prometheus.NewDesc("ndrbridge_shard_follower_behind", "Messages of the shard's log that this member, a follower, has yet to apply.", []string{"shard"}, nil)
	ageDesc     = prometheus.NewDesc("ndrbridge_shard_snapshot_age_seconds", "Age of the shard's last snapshot, as this member, its owner or a follower, knows it.", []string{"shard"}, nil)
)

// NewMetrics registers the metrics of a cluster.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		takeovers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_shard_takeovers_total",
			Help: "Times that this member became the owner of the shard.",
		}, []string{"shard"}),
		fenced: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_shard_fenced_total",
			Help: "Times that this member lost the shard to another one while it owned it: it was paused, or cut off from NATS, for longer than the lease.",
		}, []string{"shard"}),
		resends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_shard_append_resends_total",
			Help: "Messages to the shard's log that were sent again because no answer arrived.",
		}, []string{"shard"}),
		append: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ndrbridge_shard_append_seconds",
			Help:    "Duration of appending one record to the shard's log.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}, []string{"shard"}),
	}
	r.MustRegister(m.takeovers, m.fenced, m.resends, m.append, m)
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{membersDesc, ownedDesc, lostDesc, leaseDesc, logDesc, behindDesc, ageDesc} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	n := m.node.Load()
	if n == nil {
		gauge(membersDesc, 0)
		return
	}
	gauge(membersDesc, float64(len(n.members.current().members)))
	for _, s := range n.shards {
		name := configs.ShardName(s.number)
		r, _ := s.report()
		lost := 0.0
		if r.Lost {
			lost = 1
		}
		gauge(lostDesc, lost, name)
		switch r.Role {
		case roleOwner:
			owned := 0.0
			if r.LeaseMS > 0 {
				owned = 1
			}
			gauge(ownedDesc, owned, name)
			gauge(leaseDesc, (time.Duration(r.LeaseMS) * time.Millisecond).Seconds(), name)
		case roleFollower:
			gauge(ownedDesc, 0, name)
			gauge(behindDesc, float64(r.Behind), name)
		default:
			gauge(ownedDesc, 0, name)
			continue
		}
		gauge(logDesc, float64(r.LogBytes), name)
		if !r.Snapshot.IsZero() {
			gauge(ageDesc, max(0, n.o.Clock.Wall().Sub(r.Snapshot)).Seconds(), name)
		}
	}
}

// begin makes the counters of all shards, so that their first increase is seen, and exports
// what n knows from then on.
func (m *Metrics) begin(n *Node) {
	for _, s := range n.shards {
		name := configs.ShardName(s.number)
		m.takeovers.WithLabelValues(name)
		m.fenced.WithLabelValues(name)
		m.resends.WithLabelValues(name)
		m.append.WithLabelValues(name)
	}
	m.node.Store(n)
}

// tookOver counts that this member became the owner of a shard.
func (m *Metrics) tookOver(shard int) {
	m.takeovers.WithLabelValues(configs.ShardName(shard)).Inc()
}

// lost counts that another member took a shard that this one owned.
func (m *Metrics) lost(shard int) {
	m.fenced.WithLabelValues(configs.ShardName(shard)).Inc()
}

// ofLog returns the metrics of a shard's log.
func (m *Metrics) ofLog(shard int) replicated.Metrics {
	name := configs.ShardName(shard)
	append, resends := m.append.WithLabelValues(name), m.resends.WithLabelValues(name)
	return replicated.Metrics{
		Appended: func(took time.Duration, _ int) { append.Observe(took.Seconds()) },
		Resent:   func(messages int, _ error) { resends.Add(float64(messages)) },
	}
}
