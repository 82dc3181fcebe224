package crash

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestKillsLoseNoCommand kills the bridge at random times while ticket commands are posted,
// published and produced, and compares the acknowledged commands with what was written to
// the appliance. COMMAND_KILLS sets the number of kills, SEED the seed of their times.
func TestKillsLoseNoCommand(t *testing.T) {
	t.Parallel()
	kills := setting(t, "COMMAND_KILLS", 12)
	seed := uint64(setting(t, "SEED", int(time.Now().UnixNano()&0xffffff)))
	t.Logf("COMMAND_KILLS=%d SEED=%d", kills, seed)
	s := newCommandScene(t, buildBridge(t), seed, everyIntake...)
	stop := s.drive(t)
	random := rand.New(rand.NewPCG(seed, 2))
	for n := range kills {
		b := s.start(t)
		// A broker accepts a new member after it has removed the dead one, so now and then
		// a bridge runs until each intake has received something.
		if n%10 == 5 {
			s.progress(t, b)
		}
		time.Sleep(time.Duration(random.Int64N(int64(500 * time.Millisecond))))
		b.kill(t, false)
	}
	b := s.start(t)
	s.progress(t, b)
	stop()
	s.await(t, b)
	b.terminate(t)
	for _, fault := range s.faults() {
		t.Error(fault)
	}
	s.nothingWaits(t)
	written := s.written()
	for _, intake := range everyIntake {
		t.Logf("%s: %d commands acknowledged, %d writes", intake, s.book.count(intake), written[intake])
	}
}
