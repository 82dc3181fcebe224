package poller

import (
	"strings"
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
	gaps        *prometheus.CounterVec // of the audit log
	off         *prometheus.GaugeVec   // of optional streams
	skipped     *prometheus.CounterVec // of evidence

	// For records only.
	warnings   *prometheus.CounterVec
	cursors    *prometheus.CounterVec
	incomplete *prometheus.CounterVec
}

// NewMetrics registers the metrics of sources.
func NewMetrics(r prometheus.Registerer) *Metrics {
	stream := []string{"appliance", "stream"}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(stream, labels...))
		r.MustRegister(c)
		return c
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, stream)
		r.MustRegister(g)
		return g
	}
	return &Metrics{
		polls: counter("ndrbridge_source_polls_total",
			"Polls, by result: ok, refused, throttled or failed.", "class"),
		events: counter("ndrbridge_source_events_total",
			"Events committed to the journal."),
		found: counter("ndrbridge_source_reconciled_total",
			"Events found only by reading the recent past again."),
		dead: counter("ndrbridge_source_dead_letters_total",
			"Objects that could not be made into events."),
		lastSuccess: gauge("ndrbridge_source_last_success_timestamp_seconds",
			"When a poll last succeeded."),
		gaps: counter("ndrbridge_source_gaps_total",
			"Gaps in the audit log: entries were purged before they were read, or the log was restarted."),
		off: gauge("ndrbridge_source_off",
			"1 while an optional stream is off, because the appliance answers 403 or 404, otherwise 0."),
		skipped: counter("ndrbridge_source_skipped_total",
			"Detections that got no evidence, by reason: gone, forgotten, unnamed (no participant with an address or a host name), untimed; trimmed counts events that left the journal before they were read.", "reason"),
		warnings: counter("ndrbridge_source_warnings_total",
			"Answers in which the record store warned, or reported that its search was incomplete."),
		cursors: counter("ndrbridge_source_cursor_failures_total",
			"Cursors of the record store that expired or failed; their windows were read again."),
		incomplete: counter("ndrbridge_source_incomplete_windows_total",
			"Windows of records given up with fewer records than the record store reported, or without being checked again."),
	}
}

// begin exposes the counters of a stream that is about to be polled before there is
// anything to count, so that the first count is an increase and not a new series. It
// returns the counter of the stream's events.
func (m *Metrics) begin(s checkpoint.Source) prometheus.Counter {
	for _, class := range []string{"ok", "refused", "throttled", "failed"} {
		m.polls.WithLabelValues(s.Appliance, s.Stream, class)
	}
	m.setOff(s, false)
	counters := []*prometheus.CounterVec{m.dead}
	switch s.Stream {
	case transform.StreamDetections:
		counters = append(counters, m.found)
	case StreamEvidence:
		m.skippedOf(s)
	case transform.StreamAudit:
		counters = append(counters, m.gaps, m.found)
	default:
		if strings.HasPrefix(s.Stream, transform.StreamRecords+"/") {
			counters = append(counters, m.found, m.warnings, m.cursors, m.incomplete)
		}
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

// skippedOf returns how many detections were skipped, and exposes the counters of that.
func (m *Metrics) skippedOf(s checkpoint.Source) (n uint64) {
	if s.Stream == StreamEvidence {
		for reason := range evidenceSkips {
			n += counted(m.skipped.WithLabelValues(s.Appliance, s.Stream, reason))
		}
	}
	return n
}

// count adds n to a counter of a stream.
func (s *stream) count(c *prometheus.CounterVec, n int) {
	c.WithLabelValues(s.source.Appliance, s.source.Stream).Add(float64(n))
}

func (m *Metrics) polled(s checkpoint.Source, class string, now time.Time) {
	m.polls.WithLabelValues(s.Appliance, s.Stream, class).Inc()
	if class == "ok" {
		m.lastSuccess.WithLabelValues(s.Appliance, s.Stream).Set(float64(now.UnixMilli()) / 1000)
	}
}

func (m *Metrics) setOff(s checkpoint.Source, off bool) {
	value := 0.0
	if off {
		value = 1
	}
	m.off.WithLabelValues(s.Appliance, s.Stream).Set(value)
}
