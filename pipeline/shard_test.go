package pipeline_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/cluster/lease"
	"ndrbridge/configs"
	"ndrbridge/pipeline"
)

func TestAShardWhoseStateFailsStopsAtOnce(t *testing.T) {
	for _, c := range []struct {
		name     string
		stopping bool // when the state fails
	}{
		{"while it runs", false},
		{"while it is being stopped", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProcess()
			m := p.add(t, "first", 10)
			m.config.ShutdownTimeout = configs.Duration(time.Hour)
			m.slow = make(chan struct{}, 1)
			clock := lease.System()
			m.shard = &pipeline.Shard{Number: 3, Of: 16, Lease: lease.New(time.Hour, clock)}
			m.shard.Lease.Renew(clock.Now())
			r := p.run(t, m)
			<-m.slow // a request is under way that is never answered
			if c.stopping {
				r.cancel()
			}
			if err := os.Remove(m.config.State); err != nil {
				t.Fatal(err)
			}
			if err := r.end(t); !errors.Is(err, checkpoint.ErrLost) {
				t.Errorf("it ended with %v", err)
			}
			if m.shard.Lease.Left() > 0 {
				t.Error("the lease goes on")
			}
		})
	}
}
