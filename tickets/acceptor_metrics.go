package tickets

import "github.com/prometheus/client_golang/prometheus"

// Received is what became of something that came in at an intake.
type Received string

// What becomes of what comes in. Accept counts each command of a call that succeeds;
// a call that it refuses or has no space for counts once, however many commands it has,
// and one that ends with another error does not count. What the API does not hand to
// Accept, it counts by Desk.Count, once a request. A message of a broker that cannot be
// read is counted by its intake alone.
const (
	ReceivedAccepted   Received = "accepted"
	ReceivedDuplicate  Received = "again"      // the command was accepted before
	ReceivedRefused    Received = "refused"    // something is wrong with the call
	ReceivedFull       Received = "full"       // there is no space for the call
	ReceivedIgnored    Received = "ignored"    // the webhook asks for nothing
	ReceivedUnverified Received = "unverified" // it is not known who sent the webhook
)

// AcceptorMetrics are the metrics of a Desk, made once whatever Desks come and go.
type AcceptorMetrics struct {
	received *prometheus.CounterVec
}

// NewAcceptorMetrics registers the metrics.
func NewAcceptorMetrics(r prometheus.Registerer) *AcceptorMetrics {
	m := &AcceptorMetrics{received: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ndrbridge_ticket_commands_received_total",
		Help: "What came in at the intake. By command: accepted, again (accepted before). By request, or by attempt at a message, whatever it holds: refused (something is wrong with it; of messages those that can be read), full (no space), ignored (a webhook that asks for nothing), unverified (a webhook of which it is not known who sent it).",
	}, []string{"result"})}
	r.MustRegister(m.received)
	// The first count is to be an increase, and not a new series.
	for _, what := range []Received{ReceivedAccepted, ReceivedDuplicate, ReceivedRefused, ReceivedFull, ReceivedIgnored, ReceivedUnverified} {
		m.received.WithLabelValues(string(what))
	}
	return m
}

// Count counts what an intake did not hand to Accept.
func (d *Acceptor) Count(what Received) { d.Metrics.received.WithLabelValues(string(what)).Inc() }
