package tickets

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/sinks"
)

// WriterMetrics are the metrics of all Writers.
type WriterMetrics struct {
	commands *prometheus.CounterVec
	retries  *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// NewWriterMetrics registers and returns the metrics.
func NewWriterMetrics(r prometheus.Registerer) *WriterMetrics {
	m := &WriterMetrics{
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_ticket_commands_total",
			Help: "Ticket commands by result: applied (counted again if written again), or rejected.",
		}, []string{"appliance", "result"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ndrbridge_ticket_retries_total",
			Help: "Retries of ticket commands, by the class of the failure.",
		}, []string{"appliance", "class"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ndrbridge_ticket_write_seconds",
			Help:    "Time from acceptance of a ticket command until it was written to the appliance.",
			Buckets: prometheus.ExponentialBuckets(0.001, 3, 15),
		}, []string{"appliance"}),
	}
	r.MustRegister(m.commands, m.retries, m.seconds)
	return m
}

// begin creates the series of an appliance, so that the first count is an increase.
func (m *WriterMetrics) begin(appliance string) {
	for _, state := range []checkpoint.CommandState{checkpoint.CommandApplied, checkpoint.CommandRejected} {
		m.commands.WithLabelValues(appliance, string(state))
	}
	for _, class := range []sinks.Class{sinks.Transient, sinks.Throttled, sinks.Halted} {
		m.retries.WithLabelValues(appliance, string(class))
	}
	m.seconds.WithLabelValues(appliance)
}

func (m *WriterMetrics) finished(appliance string, state checkpoint.CommandState, after time.Duration) {
	m.commands.WithLabelValues(appliance, string(state)).Inc()
	if state == checkpoint.CommandApplied {
		m.seconds.WithLabelValues(appliance).Observe(after.Seconds())
	}
}
