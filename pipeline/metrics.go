package pipeline

import (
	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/poller"
	"ndrbridge/sinks"
	"ndrbridge/tickets"
)

// metrics are registered once per pipeline; parts come and go.
type metrics struct {
	parts    *registrations // of appliances and sinks
	sinks    *sinks.Metrics
	sources  *poller.Metrics
	requests *prometheus.CounterVec
	acceptor *tickets.AcceptorMetrics
	writers  *tickets.WriterMetrics
	written  *registrations // those of writers
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{parts: &registrations{Registerer: r}, written: &registrations{Registerer: r}}
	m.sinks = sinks.NewMetrics(m.parts)
	m.sources = poller.NewMetrics(m.parts)
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ndrbridge_source_requests_total",
		Help: "Requests to the appliance by status code, or by the failure if no response arrived: dns, connect, tls, timeout, canceled, other.",
	}, []string{"appliance", "code"})
	m.parts.MustRegister(m.requests)
	m.writers = tickets.NewWriterMetrics(m.written)
	m.acceptor = tickets.NewAcceptorMetrics(r)
	return m
}

// forget drops the metrics of parts that before has and after lacks.
func (m *metrics) forget(before, after *runtime) {
	for _, p := range before.sinks {
		if after.sink(p.config.Name) == nil {
			m.parts.forget(prometheus.Labels{"sink": p.config.Name})
		}
	}
	for _, p := range before.appliances {
		name := p.config.Name
		stays := after.appliance(name)
		if stays == nil || stays.writer == nil {
			m.written.forget(prometheus.Labels{"appliance": name})
		}
		if stays == nil {
			m.parts.forget(prometheus.Labels{"appliance": name})
			continue
		}
		for _, s := range p.streams {
			if stream := s.source.Source().Stream; !stays.has(stream) {
				m.parts.forget(prometheus.Labels{"appliance": name, "stream": stream})
			}
		}
	}
}

// registrations is a Registerer that remembers all metrics, so that they can be
// unregistered when the pipeline is closed, and the series of removed parts be dropped.
type registrations struct {
	prometheus.Registerer
	all []prometheus.Collector
}

// MustRegister implements prometheus.Registerer.
func (r *registrations) MustRegister(collectors ...prometheus.Collector) {
	r.Registerer.MustRegister(collectors...)
	r.all = append(r.all, collectors...)
}

// undo unregisters everything.
func (r *registrations) undo() {
	for _, c := range r.all {
		r.Unregister(c)
	}
}

// forget drops the series that have all of these labels.
func (r *registrations) forget(labels prometheus.Labels) {
	for _, c := range r.all {
		if v, ok := c.(interface{ DeletePartialMatch(prometheus.Labels) int }); ok {
			v.DeletePartialMatch(labels)
		}
	}
}
