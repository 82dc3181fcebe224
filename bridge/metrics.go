package bridge

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"ndrbridge/poller"
	"ndrbridge/sinks"
	"ndrbridge/tickets"
)

// metrics are registered once per bridge; parts come and go.
type metrics struct {
	registry *prometheus.Registry
	vectors  *vectors
	sinks    *sinks.Metrics
	sources  *poller.Metrics
	requests *prometheus.CounterVec
	acceptor *tickets.AcceptorMetrics
	writers  *tickets.WriterMetrics

	writerVectors *vectors
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.vectors = &vectors{Registerer: m.registry}
	m.sinks = sinks.NewMetrics(m.vectors)
	m.sources = poller.NewMetrics(m.vectors)
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ndrbridge_source_requests_total",
		Help: "Requests to the appliance by status code, or by the failure if no response arrived: dns, connect, tls, timeout, canceled, other.",
	}, []string{"appliance", "code"})
	m.vectors.MustRegister(m.requests)
	m.writerVectors = &vectors{Registerer: m.registry}
	m.writers = tickets.NewWriterMetrics(m.writerVectors)
	m.acceptor = tickets.NewAcceptorMetrics(m.registry)
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
