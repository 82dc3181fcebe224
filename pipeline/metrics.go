package pipeline

import (
	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/poller"
	"ndrbridge/sinks"
	"ndrbridge/tickets"
)

// metrics are registered once per pipeline; parts come and go.
type metrics struct {
	vectors  *vectors
	sinks    *sinks.Metrics
	sources  *poller.Metrics
	requests *prometheus.CounterVec
	acceptor *tickets.AcceptorMetrics
	writers  *tickets.WriterMetrics

	writerVectors *vectors
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{vectors: &vectors{Registerer: r}, writerVectors: &vectors{Registerer: r}}
	m.sinks = sinks.NewMetrics(m.vectors)
	m.sources = poller.NewMetrics(m.vectors)
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ndrbridge_source_requests_total",
		Help: "Requests to the appliance by status code, or by the failure if no response arrived: dns, connect, tls, timeout, canceled, other.",
	}, []string{"appliance", "code"})
	m.vectors.MustRegister(m.requests)
	m.writers = tickets.NewWriterMetrics(m.writerVectors)
	m.acceptor = tickets.NewAcceptorMetrics(r)
	return m
}

// forget drops the metrics of parts that before has and after lacks.
func (m *metrics) forget(before, after *runtime) {
	for _, p := range before.sinks {
		if after.sink(p.config.Name) == nil {
			m.vectors.forget(prometheus.Labels{"sink": p.config.Name})
		}
	}
	for _, p := range before.appliances {
		name := p.config.Name
		stays := after.appliance(name)
		if stays == nil || stays.writer == nil {
			m.writerVectors.forget(prometheus.Labels{"appliance": name})
		}
		if stays == nil {
			m.vectors.forget(prometheus.Labels{"appliance": name})
			continue
		}
		for _, s := range p.streams {
			if stream := s.source.Source().Stream; !stays.has(stream) {
				m.vectors.forget(prometheus.Labels{"appliance": name, "stream": stream})
			}
		}
	}
}

// vectors is a Registerer that remembers labelled metrics, so that the series of
// removed parts can be dropped.
type vectors struct {
	prometheus.Registerer
	all []vector
}

type vector interface {
	DeletePartialMatch(labels prometheus.Labels) int
}

// MustRegister implements prometheus.Registerer.
func (v *vectors) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		if vector, ok := c.(vector); ok {
			v.all = append(v.all, vector)
		}
	}
	v.Registerer.MustRegister(collectors...)
}

// forget drops the series that have all of these labels.
func (v *vectors) forget(labels prometheus.Labels) {
	for _, vector := range v.all {
		vector.DeletePartialMatch(labels)
	}
}

// registrations is a Registerer that remembers all metrics, so that they can be
// unregistered when the pipeline is closed.
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
