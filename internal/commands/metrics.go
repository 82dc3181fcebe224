package commands

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
)

// Received is the result of something that arrived at an intake.
type Received string

// The results. Accept counts each command of a successful call; a call that it refuses
// or has no space for counts once, however many commands it has, and a call that ends
// with another error does not count. The API counts requests that it does not pass to
// Accept by Acceptor.Count, once per request. An unreadable message of a broker is
// counted only by its intake.
const (
	receivedAccepted   Received = "accepted"
	receivedDuplicate  Received = "duplicate"  // the command had been accepted before
	ReceivedRefused    Received = "refused"    // the call is invalid
	receivedFull       Received = "full"       // there is no space for the call
	ReceivedIgnored    Received = "ignored"    // the webhook requests no change
	ReceivedUnverified Received = "unverified" // the sender of the webhook was not verified
)

// AcceptorMetrics are the metrics of all Acceptors. They are registered once, whatever
// Acceptors come and go.
type AcceptorMetrics struct {
	received *prometheus.CounterVec
}

// NewAcceptorMetrics registers and returns the metrics.
func NewAcceptorMetrics(r prometheus.Registerer) *AcceptorMetrics {
	m := &AcceptorMetrics{received: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ndrbridge_ticket_commands_received_total",
		Help: "Ticket commands received, by result. Per command: accepted, duplicate (accepted before). Per request, or per attempt at a message: refused (invalid; messages only if readable), full (no space), ignored (a webhook that requests no change), unverified (a webhook whose sender was not verified).",
	}, []string{"result"})}
	r.MustRegister(m.received)
	// Create all series, so that the first count is an increase.
	for _, what := range []Received{receivedAccepted, receivedDuplicate, ReceivedRefused, receivedFull, ReceivedIgnored, ReceivedUnverified} {
		m.received.WithLabelValues(string(what))
	}
	return m
}

// Count counts something that was not passed to Accept.
func (a *Acceptor) Count(what Received) { a.Metrics.received.WithLabelValues(string(what)).Inc() }

// WriterMetrics are the metrics of all Writers of one kind.
type WriterMetrics struct {
	commands *prometheus.CounterVec
	retries  *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// NewWriterMetrics registers and returns the metrics of a kind.
func NewWriterMetrics(r prometheus.Registerer, kind Kind) *WriterMetrics {
	name, what := "ndrbridge_"+string(kind)+"_", strings.ToUpper(string(kind[:1]))+string(kind[1:])
	m := &WriterMetrics{
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name + "commands_total",
			Help: what + " commands by result: applied (counted again if written again), or rejected.",
		}, []string{"appliance", "result"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name + "retries_total",
			Help: "Retries of " + string(kind) + " commands, by the class of the failure.",
		}, []string{"appliance", "class"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    name + "write_seconds",
			Help:    "Time from acceptance of a " + string(kind) + " command until it was written to the appliance.",
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
	for _, class := range []failure.Class{failure.Transient, failure.Throttled, failure.Halted} {
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
