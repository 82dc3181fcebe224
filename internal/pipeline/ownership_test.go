package pipeline_test

import (
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/lease"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// memory is a log that another process can own.
type memory struct {
	foreign atomic.Bool
	records uint64
}

func (m *memory) Append([]byte) (checkpoint.Point, error) {
	if m.foreign.Load() {
		return checkpoint.Point{}, checkpoint.ErrNotOwner
	}
	m.records++
	return checkpoint.Point{Offset: m.records}, nil
}

func TestAnOwnerWhoseStateFailsStopsAtOnce(t *testing.T) {
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
			replica, err := checkpoint.OpenReplica(m.config.State, 0)
			if err == nil {
				err = replica.Close()
			}
			require.NoError(t, err)
			log := new(memory)
			m.owned = &cluster.Ownership{Log: log, Renew: 20 * time.Millisecond, Lease: lease.New(time.Hour, clock)}
			m.owned.Lease.Renew(clock.Now())
			r := p.run(t, m)
			<-m.slow // a request is under way that is never answered
			if c.stopping {
				r.cancel()
			}
			log.foreign.Store(true)
			assert.ErrorIs(t, r.end(t), checkpoint.ErrNotOwner, "it ended with")
			assert.True(t, m.owned.Lease.Left() == 0, "the lease goes on")
		})
	}
}
