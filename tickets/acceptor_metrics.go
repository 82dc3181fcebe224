package tickets

import "github.com/prometheus/client_golang/prometheus"

// Received is the result of something that arrived at an intake.
type Received string

// The results. Accept counts each command of a successful call; a call that it refuses
// or has no space for counts once, however many commands it has, and a call that ends
// with another error does not count. The API counts requests that it does not pass to
// Accept by Acceptor.Count, once per request. An unreadable message of a broker is
// counted only by its intake.
const (
	ReceivedAccepted   Received = "accepted"
	ReceivedDuplicate  Received = "duplicate"  // the command had been accepted before
	ReceivedRefused    Received = "refused"    // the call is invalid
	ReceivedFull       Received = "full"       // there is no space for the call
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
	for _, what := range []Received{ReceivedAccepted, ReceivedDuplicate, ReceivedRefused, ReceivedFull, ReceivedIgnored, ReceivedUnverified} {
		m.received.WithLabelValues(string(what))
	}
	return m
}

// Count counts something that was not passed to Accept.
func (a *Acceptor) Count(what Received) { a.Metrics.received.WithLabelValues(string(what)).Inc() }
