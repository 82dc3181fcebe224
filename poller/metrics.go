package poller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"ndrbridge/checkpoint"
	"ndrbridge/transform"
)

// Metrics holds the metrics of all sources.
type Metrics struct {
	polls       *prometheus.CounterVec
	events      *prometheus.CounterVec
	found       *prometheus.CounterVec
	dead        *prometheus.CounterVec
	lastSuccess *prometheus.GaugeVec
	lag         *prometheus.GaugeVec
	gaps        *prometheus.CounterVec // of the audit log

	// For records only.
	warnings   *prometheus.CounterVec
	cursors    *prometheus.CounterVec
	incomplete *prometheus.CounterVec
}

// NewMetrics registers the metrics of sources.
func NewMetrics(r prometheus.Registerer) *Metrics {
	stream := []string{"appliance", "stream"}
	m := &Metrics{
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_source_polls_total",
			Help: "Polls, by result: ok, refused, throttled or failed.",
		}, append(stream, "class")),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_source_events_total",
			Help: "Events committed to the journal.",
		}, stream),
		found: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_source_reconciled_total",
			Help: "Events found only by reading the recent past again.",
		}, stream),
		dead: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_source_dead_letters_total",
			Help: "Objects that could not be made into events.",
		}, stream),
		lastSuccess: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ndrbridge_source_last_success_timestamp_seconds",
			Help: "When a poll last succeeded.",
		}, stream),
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ndrbridge_source_lag_seconds",
			Help: "How far the stream is behind the appliance's clock, as of the last successful poll; 0 once it was read to its end.",
		}, stream),
		gaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_source_gaps_total",
			Help: "Gaps in the audit log: entries were purged before they were read, or the log was restarted.",
		}, stream),
		warnings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_source_warnings_total",
			Help: "Answers in which the record store warned, or reported that its search was incomplete.",
		}, stream),
		cursors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_source_cursor_failures_total",
			Help: "Cursors of the record store that expired or failed; their windows were read again.",
		}, stream),
		incomplete: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_source_incomplete_windows_total",
			Help: "Windows of records given up with fewer records than the record store reported, or without being checked again.",
		}, stream),
	}
	r.MustRegister(m.polls, m.events, m.found, m.dead, m.lastSuccess, m.lag, m.gaps)
	r.MustRegister(m.warnings, m.cursors, m.incomplete)
	return m
}

// begin exposes the counters of a stream that is about to be polled before there is
// anything to count, so that the first count is an increase and not a new series. It
// returns the counter of the stream's events.
func (m *Metrics) begin(s checkpoint.Source) prometheus.Counter {
	for _, class := range []string{"ok", "refused", "throttled", "failed"} {
		m.polls.WithLabelValues(s.Appliance, s.Stream, class)
	}
	counters := []*prometheus.CounterVec{m.dead}
	switch s.Stream {
	case transform.StreamDetections:
		counters = append(counters, m.found)
	case transform.StreamAudit:
		counters = append(counters, m.gaps)
	default:
		counters = append(counters, m.found, m.warnings, m.cursors, m.incomplete)
	}
	for _, c := range counters {
		c.WithLabelValues(s.Appliance, s.Stream)
	}
	return m.events.WithLabelValues(s.Appliance, s.Stream)
}

// counted returns the value of a counter.
func counted(c prometheus.Counter) uint64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		return 0 // a counter made by prometheus never fails
	}
	return uint64(m.GetCounter().GetValue())
}

func (m *Metrics) committed(s checkpoint.Source, c checkpoint.Commit) {
	m.events.WithLabelValues(s.Appliance, s.Stream).Add(float64(len(c.Events)))
	m.dead.WithLabelValues(s.Appliance, s.Stream).Add(float64(len(c.Dead)))
}

func (m *Metrics) reconciled(s checkpoint.Source, events int) {
	m.found.WithLabelValues(s.Appliance, s.Stream).Add(float64(events))
}

func (m *Metrics) gap(s checkpoint.Source) {
	m.gaps.WithLabelValues(s.Appliance, s.Stream).Inc()
}

func (m *Metrics) warned(s checkpoint.Source) {
	m.warnings.WithLabelValues(s.Appliance, s.Stream).Inc()
}

func (m *Metrics) cursorFailed(s checkpoint.Source) {
	m.cursors.WithLabelValues(s.Appliance, s.Stream).Inc()
}

func (m *Metrics) windowIncomplete(s checkpoint.Source) {
	m.incomplete.WithLabelValues(s.Appliance, s.Stream).Inc()
}

func (m *Metrics) behind(s checkpoint.Source, milliseconds int64) {
	m.lag.WithLabelValues(s.Appliance, s.Stream).Set(float64(milliseconds) / 1000)
}

func (m *Metrics) polled(s checkpoint.Source, class string, now time.Time) {
	m.polls.WithLabelValues(s.Appliance, s.Stream, class).Inc()
	if class == "ok" {
		m.lastSuccess.WithLabelValues(s.Appliance, s.Stream).Set(float64(now.UnixMilli()) / 1000)
	}
}
