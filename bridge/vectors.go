package bridge

import "github.com/prometheus/client_golang/prometheus"

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
