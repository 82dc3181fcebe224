package cluster

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint/replicated"
)

// Metrics are the metrics of this member. A Node fills them.
type Metrics struct {
	takeovers, fenced, resends prometheus.Counter
	append                     prometheus.Histogram
	node                       atomic.Pointer[Node]     // nil: it does not run
	archiver                   atomic.Pointer[archiver] // nil: it writes no archives
}

func gauge(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("ndrbridge_cluster_"+name, help, nil, nil)
}

var (
	membersDesc   = gauge("members", "Members of the cluster that can be reached, this one included; 0: it has not joined.")
	ownerDesc     = gauge("owner", "1 if this member owns the log and its lease is valid.")
	followingDesc = gauge("following", "1 if this member owns the log, or could take it and has the configuration of its owner; 0: it can neither, or its configuration differs.")
	lostDesc      = gauge("log_lost", "1 if NATS lost the log, or records of it that this member's copy has: no member takes it.")
	leaseDesc     = gauge("lease_seconds", "Time left of this member's lease; 0: it owns nothing, and sends nothing.")
	logDesc       = gauge("log_bytes", "Bytes of the log behind its last snapshot, as far as this member has seen them.")
	behindDesc    = gauge("behind", "Messages of the log that this member has yet to apply.")
	ageDesc       = gauge("snapshot_age_seconds", "Age of the last snapshot, as this member knows it.")
	archiveDesc   = gauge("archive_timestamp_seconds", "When the newest archive in the owner's folder was written, in seconds since 1970; 0: never, or not known. Absent without cluster.archive.")
	everyDesc     = gauge("archive_interval_seconds", "How often the owner writes an archive: cluster.archive.every.")
)

// NewMetrics registers the metrics of a member of a cluster.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		takeovers: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ndrbridge_cluster_takeovers_total",
			Help: "Times that this member became the owner of the log.",
		}),
		fenced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ndrbridge_cluster_fenced_total",
			Help: "Times that another member took the log while this one owned it: it was paused, or cut off from NATS, for longer than the lease.",
		}),
		resends: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ndrbridge_cluster_append_resends_total",
			Help: "Messages to the log that were sent again because no answer arrived.",
		}),
		append: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "ndrbridge_cluster_append_seconds",
			Help:    "Duration of appending one record to the log.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}),
	}
	r.MustRegister(m.takeovers, m.fenced, m.resends, m.append, m)
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{membersDesc, ownerDesc, followingDesc, lostDesc, leaseDesc, logDesc, behindDesc, ageDesc, archiveDesc, everyDesc} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	var r Report
	members, couldOwn := 0, false
	n := m.node.Load()
	if n != nil {
		r, members = n.Report(), n.members()
		couldOwn = n.couldOwn(r)
	}
	set := func(d *prometheus.Desc, v float64) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	truth := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	set(membersDesc, float64(members))
	set(ownerDesc, truth(r.LeaseMS > 0))
	set(followingDesc, truth(couldOwn))
	set(lostDesc, truth(r.Lost))
	set(leaseDesc, (time.Duration(r.LeaseMS) * time.Millisecond).Seconds())
	set(logDesc, float64(r.LogBytes))
	set(behindDesc, float64(r.Behind))
	if !r.Snapshot.IsZero() {
		set(ageDesc, max(0, n.o.Clock.Wall().Sub(r.Snapshot)).Seconds())
	}
	if a := m.archiver.Load(); a != nil {
		set(archiveDesc, float64(a.newest.Load()))
		set(everyDesc, a.Every.Seconds())
	}
}

// ofLog returns the metrics of the log, which also call appended with the bytes of each record, and
// resent with the reason if messages are sent again.
func (m *Metrics) ofLog(appended func(bytes int), resent func(why error)) replicated.Metrics {
	return replicated.Metrics{
		Appended: func(took time.Duration, bytes int) {
			m.append.Observe(took.Seconds())
			appended(bytes)
		},
		Resent: func(messages int, why error) {
			m.resends.Add(float64(messages))
			resent(why)
		},
	}
}
