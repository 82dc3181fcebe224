package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/admin"
	"ndrbridge/test/require"
)

// loss describes the data that NATS loses while no member runs.
type loss struct {
	end      bool // only the ends of the logs, not all of them
	registry bool // the bucket, too
}

var losses = map[string]loss{
	"everything":           {registry: true},
	"all logs":             {},
	"the ends of all logs": {end: true},
}

// TestWhatNATSLostIsNotReplaced: whatever the order of starts, members keep copies of records that
// NATS lost, and no member continues without them, until an operator recovers each shard from the
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
				continue // what is left of the logs does not show that their ends are lost
			}
			t.Run(what+", and "+order, func(t *testing.T) {
				bubble(t, func(t *testing.T) { lost.run(t, starts) })
			})
		}
	}
}

func (l loss) run(t *testing.T, starts []int) {
	s := startCluster(t, 2, withoutSnapshots)
	time.Sleep(steady)
	for _, m := range s.members {
		m.stop()
	}
	s.members = append(s.members, &simMember{sim: s, name: "new", rate: 1, disk: newSimDisk()})
	var had [simShards][2]uint64 // records, by member
	var left [simShards]int      // messages
	for shard := range simShards {
		for i, m := range s.members[:2] {
			had[shard][i] = m.disk.number(shard)
		}
		last := uint64(0)
		if l.end {
			messages := s.servers.Messages(shard)
			last = messages[len(messages)-6].Seq
		}
		s.servers.Forget(shard, last)
		left[shard] = len(s.servers.Messages(shard))
	}
	if l.registry {
		s.registry.restore(newFakeRegistry())
	}

	pause := 100 * testTerm
	if starts == nil {
		starts, pause = []int{0, 1, 2}, 0
	}
	for _, i := range starts {
		s.members[i].start()
		time.Sleep(pause)
		s.wantNothingTaken(t, left)
	}
	time.Sleep(100 * testTerm)
	s.wantNothingTaken(t, left)
	for shard := range simShards {
		for i, m := range s.members[:2] {
			if n := m.disk.number(shard); n != had[shard][i] {
				t.Errorf("shard %d: the copy of %s has %d records, and had %d", shard, m.name, n, had[shard][i])
			}
		}
	}
	for _, m := range s.members[:2] {
		reasons := strings.Join(m.node().NotReady(), "; ")
		if waiting := m.current.Load().waiting.Load(); waiting != nil {
			reasons = *waiting
		}
		if !strings.Contains(reasons, "ndrbridge cluster recover") {
			t.Errorf("%s is not ready because of %q", m.name, reasons)
		}
	}
	if t.Failed() {
		return
	}
	s.recoverLatest(t, had)
}

// wantNothingTaken expects that no message was appended since the loss, not even a take.
func (s *simulation) wantNothingTaken(t *testing.T, left [simShards]int) {
	t.Helper()
	for shard := range simShards {
		if n := len(s.servers.Messages(shard)); n != left[shard] {
			t.Errorf("shard %d: its log has %d messages, and had %d after the loss", shard, n, left[shard])
		}
	}
}

// recoverLatest continues each shard from the member that had the most records of it, and expects
// all of them afterwards.
func (s *simulation) recoverLatest(t *testing.T, had [simShards][2]uint64) {
	t.Helper()
	if s.members[0].current.Load().waiting.Load() != nil {
		for _, m := range s.members {
			m.stop()
		}
		id := s.members[0].disk.cluster()
		require.NoError(t, Resume(t.Context(), s.registry, "sim", simShards, 1, id))
		for _, m := range s.members {
			m.start()
		}
		time.Sleep(10 * testTerm)
	}
	for shard := range simShards {
		from := s.members[0]
		if had[shard][1] > had[shard][0] {
			from = s.members[1]
		}
		require.NoError(t, from.node().Recover(t.Context(), admin.Recovery{Shard: new(shard), From: from.name}))
	}
	time.Sleep(30 * testTerm)
	for shard := range simShards {
		owner := s.owner(shard)
		if owner == nil {
			t.Errorf("shard %d has no owner after the recovery", shard)
			continue
		}
		if n, want := owner.disk.number(shard), slices.Max(had[shard][:]); n < want {
			t.Errorf("shard %d: its state has %d records after the recovery, and had %d", shard, n, want)
		}
	}
	for _, m := range s.members {
		if reasons := m.node().NotReady(); len(reasons) > 0 {
			t.Errorf("%s is not ready after the recovery: %q", m.name, reasons)
		}
	}
	s.judge(t)
}

// TestACopyOfAnotherClusterIsKept: the cluster was created again instead of being recovered.
func TestACopyOfAnotherClusterIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, withoutSnapshots)
		time.Sleep(steady)
		for _, m := range s.members {
			m.stop()
		}
		s.members[1].disk = newSimDisk()
		var had [simShards]uint64
		for shard := range simShards {
			had[shard] = s.members[0].disk.number(shard)
			s.servers.Forget(shard, 0)
		}
		s.registry.restore(newFakeRegistry())
		s.create()
		s.members[0].start()
		time.Sleep(startup)
		s.members[1].start()
		time.Sleep(100 * testTerm)
		for shard := range simShards {
			if owner := s.owner(shard); owner != nil {
				t.Errorf("shard %d: %s owns it, although %s has a copy of it", shard, owner.name, s.members[0].name)
			}
			if n := s.members[0].disk.number(shard); n != had[shard] {
				t.Errorf("shard %d: the copy has %d records, and had %d", shard, n, had[shard])
			}
		}
		if reasons := strings.Join(s.members[0].node().NotReady(), "; "); !strings.Contains(reasons, "not of this cluster") {
			t.Errorf("it is not ready because of %q", reasons)
		}
	})
}

// cluster returns the identity of the cluster to which the files belong.
func (d *simDisk) cluster() string {
	d.mu.Lock()
	f := d.files["state.0"]
	d.mu.Unlock()
	return replicated.ClusterOf(f.At())
}
