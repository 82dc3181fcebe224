package cluster

import (
	"testing"
	"time"
)

// TestAClusterThatCrashedAsAWholeIsOwnedAgainAboutALeaseLater: all members find the registry
// entries of their crashed predecessors.
func TestAClusterThatCrashedAsAWholeIsOwnedAgainAboutALeaseLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 3, nil)
		time.Sleep(steady)
		for _, m := range s.members {
			m.crash()
		}
		for _, m := range s.members {
			m.start()
		}
		began := time.Now()
		for s.ownedNow() < simShards && time.Since(began) < 20*testTerm {
			time.Sleep(testTerm / 60)
		}
		if took := time.Since(began); took > 2*testTerm {
			t.Errorf("every shard has an owner only after %v, with leases of %v", took, testTerm)
		}
	})
}

// ownedNow returns how many shards a running member owns.
func (s *simulation) ownedNow() (n int) {
	for shard := range simShards {
		if s.owner(shard) != nil {
			n++
		}
	}
	return n
}
