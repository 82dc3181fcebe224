package cluster

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// loss describes the data that NATS loses while no member runs.
type loss struct {
	end      bool // only the end of the log, not all of it
	registry bool // the settings, too
}

var losses = map[string]loss{
	"everything":         {registry: true},
	"the log":            {},
	"the end of the log": {end: true},
}

// TestWhatNATSLostIsNotReplaced: whatever the order of starts, members keep copies of records that
// NATS lost, and no member continues without them, until an operator recovers the log from the
// latest copy.
func TestWhatNATSLostIsNotReplaced(t *testing.T) {
	t.Parallel()
	orders := map[string][]int{ // of members; 2 has no copy
		"the one without a copy is the last":        {0, 1, 2},
		"the one without a copy is in the middle":   {1, 2, 0},
		"the one without a copy is first and alone": {2, 0, 1},
		"all at once": nil,
	}
	for what, lost := range losses {
		for order, starts := range orders {
			if lost.end && starts != nil && starts[0] == 2 {
				continue // what is left of the log does not show that its end is lost
			}
			t.Run(what+", and "+order, func(t *testing.T) {
				bubble(t, func(t *testing.T) { lost.run(t, starts) })
			})
		}
	}
}

func (l loss) run(t *testing.T, starts []int) {
	s := startCluster(t, 2, withoutSnapshots)
	time.Sleep(5 * testTerm)
	for _, m := range s.members {
		m.stop()
	}
	s.members = append(s.members, &simMember{sim: s, name: "new", rate: 1, disk: newSimDisk()})
	had := []uint64{s.members[0].disk.number(), s.members[1].disk.number()}
	generation := s.generation()
	last := uint64(0)
	if l.end {
		messages := s.servers.Messages(generation)
		last = messages[len(messages)-6].Seq
	}
	s.servers.Forget(generation, last)
	if l.registry {
		s.registry.forget()
	}
	left := len(s.servers.Messages(generation))
	wantNothingTaken := func() {
		t.Helper()
		assert.Equal(t, len(s.servers.Messages(generation)), left, "the log", "messages, and had", "after the loss")
	}

	pause := 100 * testTerm
	if starts == nil {
		starts, pause = []int{0, 1, 2}, 0
	}
	for _, i := range starts {
		s.members[i].start()
		time.Sleep(pause)
		wantNothingTaken()
	}
	time.Sleep(100 * testTerm)
	wantNothingTaken()
	for i, m := range s.members[:2] {
		assert.Equal(t, m.disk.number(), had[i], "the copy of", m.name, "has", "records, and had")
		assert.Contains(t, strings.Join(m.node().NotReady(), "; "), "ndrbridge cluster recover", m.name, "is not ready because of")
		r := m.node().Report()
		assert.True(t, r.Lost && r.Offset != 0, m.name, "reports", r)
	}
	if t.Failed() {
		return
	}
	from := s.members[0]
	if s.members[1].node().Report().Offset > from.node().Report().Offset {
		from = s.members[1]
	}
	require.NoError(t, from.node().Recover(t.Context()))
	s.wantRecovered(t, generation+1, max(had[0], had[1]))
}

// wantRecovered expects that all members are ready with a generation whose state began with
// so many records.
func (s *simulation) wantRecovered(t *testing.T, generation, records uint64) {
	t.Helper()
	time.Sleep(30 * testTerm)
	assert.Equal(t, s.generation(), generation, "the generation in use")
	owner := s.owner()
	require.True(t, owner != nil, "the log has no owner after the recovery")
	n := owner.disk.number()
	assert.True(t, n >= records, "the state", n, "records after the recovery, and had", records)
	for _, m := range s.members {
		assert.Empty(t, m.node().NotReady(), m.name, "is not ready after the recovery")
	}
	s.judge(t)
}

// TestACopyOfAnotherClusterIsKept: the cluster was created again instead of being recovered.
func TestACopyOfAnotherClusterIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, withoutSnapshots)
		for _, m := range s.members {
			m.stop()
		}
		s.members[1].disk = newSimDisk()
		had := s.members[0].disk.number()
		s.servers.Forget(s.generation(), 0)
		s.registry.forget()
		s.create()
		s.members[0].start()
		time.Sleep(startup)
		s.members[1].start()
		time.Sleep(100 * testTerm)
		if owner := s.owner(); owner != nil {
			t.Errorf("%s owns the log, although %s has a copy of another one", owner.name, s.members[0].name)
		}
		assert.Equal(t, s.members[0].disk.number(), had, "the copy", "records, and had")
		assert.Contains(t, strings.Join(s.members[0].node().NotReady(), "; "), "NATS has another one", "it is not ready because of")
	})
}

// TestWaitingForAnOperatorIsNoFailure: after a long wait, the first failure must not keep the member
// away for long.
func TestWaitingForAnOperatorIsNoFailure(t *testing.T) {
	n := New(Options{Term: time.Minute, Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry())})
	for range 10 {
		n.fail(replicated.ErrNoKey)
		n.stopTaking(errors.New("the log is empty"))
	}
	n.fail(errors.New("the disk is full"))
	assert.Equal(t, n.problem.failures, 1, "failures were counted")
}
