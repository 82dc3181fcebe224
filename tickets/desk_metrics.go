package tickets

import "github.com/prometheus/client_golang/prometheus"

// Received is what became of something that came in at a door.
type Received string

// What becomes of what comes in. The Desk counts what Accept is given; what a
// door does not hand on, it counts by Desk.Count.
const (
	ReceivedAccepted   Received = "accepted"
	ReceivedAgain      Received = "again"      // it was accepted before
	ReceivedRefused    Received = "refused"    // something is wrong with it
	ReceivedFull       Received = "full"       // there is no room
	ReceivedIgnored    Received = "ignored"    // it asks for nothing
	ReceivedUnverified Received = "unverified" // it is not known who sent it
)

// DeskMetrics are the metrics of a Desk, made once whatever Desks come and go.
type DeskMetrics struct {
	received *prometheus.CounterVec
}

// NewDeskMetrics registers the metrics.
func NewDeskMetrics(r prometheus.Registerer) *DeskMetrics {
	m := &DeskMetrics{received: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ndrbridge_ticket_commands_received_total",
		Help: "Ticket commands that came in, by what became of them at the door: accepted, again (accepted before), refused (something is wrong with them), full (no room), ignored (they ask for nothing), unverified (it is not known who sent them).",
	}, []string{"result"})}
	r.MustRegister(m.received)
	// The first count is to be an increase, and not a new series.
	for _, what := range []Received{ReceivedAccepted, ReceivedAgain, ReceivedRefused, ReceivedFull, ReceivedIgnored, ReceivedUnverified} {
		m.received.WithLabelValues(string(what))
	}
	return m
}

// Count counts what a door did not hand to Accept.
func (d *Desk) Count(what Received) { d.Metrics.received.WithLabelValues(string(what)).Inc() }
