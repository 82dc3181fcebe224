// Package crash tests that the bridge keeps its guarantees when it is killed and its peers
// fail. The bridge runs in a process of its own; the appliance, the receivers and the
// evaluation run in the test's process.
package crash

import (
	"os"
	"strconv"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/require"
)

// TestKillsLoseNothing kills the bridge at random times while detections appear, change and
// tie, the audit log grows and records are stored, connections fail, brokers restart and
// the disk fills up. It compares what each sink received with what the appliance returned
// and the bridge committed. The environment sets the number of kills (KILLS), the percentage
// of connections with a fault (FAULTS), and the seed (SEED).
func TestKillsLoseNothing(t *testing.T) {
	t.Parallel()
	kills, faults := setting(t, "KILLS", 30), setting(t, "FAULTS", 30)
	seed := uint64(setting(t, "SEED", int(time.Now().UnixNano()&0xffffff)))
	t.Logf("KILLS=%d FAULTS=%d SEED=%d", kills, faults, seed)
	s := newScene(t, buildBridge(t), seed, t.TempDir(), true)
	s.disturb(faults)
	rates := standin.Rates{
		Appear: 75, Update: 100, Close: 25, Edit: 10, Late: 3, Future: 0.2, Tie: 0.5, Neighbours: 0.2,
		TieSize: 120, NeighbourSize: 70, LateBy: 20 * time.Minute, FutureBy: 3 * time.Second,
		AuditEntries: 25, Records: 50, RecordsLate: 3, RecordsTie: 0.2,
		RecordTieSize: 120, RecordLateBy: time.Second,
	}
	others := quieter(rates)
	if kills < manyKills { // other tests run beside
		rates = others
	}
	stopLife := s.liveAt(t, rates, others)
	stopFollowUps := s.changeFollowUps(t)
	begun := time.Now()
	for n, life := range planLives(seed, kills) {
		s.kill(t, n, life)
	}
	t.Logf("%d kills took %v", kills, time.Since(begun))
	s.requireEvidence()
	b := s.start(t)
	time.Sleep(outlived(kills))
	stopLife()
	stopFollowUps()
	s.calm()
	s.await(t, b)
	s.quiet()
	t.Logf("everything arrived after %v", time.Since(begun))
	b.terminate(t)
	s.judge(t, kills)
}

// manyKills are those of a long run.
const manyKills = 200

// outlived returns how long the last bridge runs with faults: in a long run, longer than
// each of its timeouts.
func outlived(kills int) time.Duration {
	if kills < manyKills {
		return 2 * time.Second
	}
	return 35 * time.Second
}

func setting(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name, text, "is not a number")
	return n
}
