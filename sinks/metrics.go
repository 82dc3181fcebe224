package sinks

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"ndrbridge/internal/failure"
)

// Metrics are the metrics of all sinks.
type Metrics struct {
	events      *prometheus.CounterVec
	retries     *prometheus.CounterVec
	state       *prometheus.GaugeVec
	matches     *prometheus.CounterVec
	matchErrors *prometheus.CounterVec
	send        *prometheus.HistogramVec
	delivery    *prometheus.HistogramVec
}

// NewMetrics registers the metrics of sinks.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_sink_events_total",
			Help: "Events by result: delivered (acknowledged; redeliveries count again) or dead (dead-lettered).",
		}, []string{"sink", "result"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_sink_retries_total",
			Help: "Failed attempts to deliver a batch, by class of failure; each is retried.",
		}, []string{"sink", "class"}),
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ndrbridge_sink_state",
			Help: "State of the sink: 0 running, 1 retrying, 2 halted, 3 paused, 4 stuck.",
		}, []string{"sink"}),
		matches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_sink_match_total",
			Help: "Events by the result of the sink's match: matched or filtered (not sent). Absent for a sink without match.",
		}, []string{"sink", "result"}),
		matchErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_sink_match_errors_total",
			Help: "Events for which the sink's match failed; on_error decides what happens to them.",
		}, []string{"sink"}),
		send: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ndrbridge_sink_send_seconds",
			Help:    "Duration of sending one batch.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}, []string{"sink"}),
		delivery: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ndrbridge_delivery_seconds",
			Help:    "Time from the recording of an event to its acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.001, 3, 15),
		}, []string{"sink"}),
	}
	r.MustRegister(m.events, m.retries, m.state, m.matches, m.matchErrors, m.send, m.delivery)
	return m
}

// sinkMetrics are the metrics of one sink, looked up once.
type sinkMetrics struct {
	delivered, dead prometheus.Counter
	retries         *prometheus.CounterVec // by class
	state           prometheus.Gauge
	matchErrors     prometheus.Counter
	matches         *prometheus.CounterVec // by result
	send, delivery  prometheus.Observer
}

// of returns the metrics of a sink. It creates all series at zero, so that the
// first count is an increase and not a new series.
func (m *Metrics) of(sink string) sinkMetrics {
	for _, class := range []failure.Class{failure.Transient, failure.Throttled, failure.Rejected, failure.Halted} {
		m.retries.WithLabelValues(sink, string(class))
	}
	return sinkMetrics{
		delivered:   m.events.WithLabelValues(sink, "delivered"),
		dead:        m.events.WithLabelValues(sink, "dead"),
		retries:     m.retries.MustCurryWith(prometheus.Labels{"sink": sink}),
		state:       m.state.WithLabelValues(sink),
		matchErrors: m.matchErrors.WithLabelValues(sink),
		matches:     m.matches.MustCurryWith(prometheus.Labels{"sink": sink}),
		send:        m.send.WithLabelValues(sink),
		delivery:    m.delivery.WithLabelValues(sink),
	}
}

// counterValue returns the value of a counter.
func counterValue(c prometheus.Counter) uint64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		return 0 // the counters of package prometheus do not fail
	}
	return uint64(m.GetCounter().GetValue())
}
