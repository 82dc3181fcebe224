package sinks_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/sinks"
	"ndrbridge/test/require"
)

func TestSinkWhoseSendDoesNotReturnIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		free := make(chan struct{})
		f := newFixtureWith(t, 3, &target{answer: func(int, []string) error {
			<-free
			return nil
		}}, func(o *sinks.Options) { o.Metrics = sinks.NewMetrics(registry) })
		state := func() (metric float64) {
			families := require.Value(registry.Gather())(t)
			for _, family := range families {
				if family.GetName() == "ndrbridge_sink_state" {
					metric = family.GetMetric()[0].GetGauge().GetValue()
				}
			}
			return metric
		}
		stop := f.start()
		defer stop()
		time.Sleep(5 * time.Minute)
		f.expectState(t, sinks.StateRunning)
		pass(15 * time.Minute)
		if s := f.runner.Status(); s.State != sinks.StateStuck || s.Error == "" || state() != 4 {
			t.Errorf("after 20 minutes: %+v, metric %v", s, state())
		}
		close(free)
		pass(time.Minute)
		if s := f.runner.Status(); s.State != sinks.StateRunning || s.Error != "" || state() != 0 {
			t.Errorf("after it ended: %+v, metric %v", s, state())
		}
	})
}
