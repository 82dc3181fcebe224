package tickets

import "github.com/prometheus/client_golang/prometheus"

// DeskMetrics are the metrics of a Desk, made once whatever Desks come and go.
type DeskMetrics struct {
	received *prometheus.CounterVec
}

// NewDeskMetrics registers the metrics.
func NewDeskMetrics(r prometheus.Registerer) *DeskMetrics {
	m := &DeskMetrics{received: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ndrbridge_ticket_commands_received_total",
		Help: "Ticket commands that came in, by what became of them at the door: accepted, again (accepted before), refused (something is wrong with them), full (no room).",
	}, []string{"result"})}
	r.MustRegister(m.received)
	return m
}
