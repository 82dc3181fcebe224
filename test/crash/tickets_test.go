package crash

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestKillsLeaveTicketsEqual kills the bridge at random times while detections, the tickets that
// follow them and the bridge's configuration change. At rest each detection has one ticket, each
// change is one comment at most, and the states are equal, except those that people have set since.
// TICKET_KILLS sets the number of kills, SEED the seed of their times.
func TestKillsLeaveTicketsEqual(t *testing.T) {
	t.Parallel()
	kills := setting(t, "TICKET_KILLS", 15)
	seed := uint64(setting(t, "SEED", int(time.Now().UnixNano()&0xffffff)))
	t.Logf("TICKET_KILLS=%d SEED=%d", kills, seed)
	s := newTicketScene(t, buildBridge(t), seed)
	stop := s.change(t)
	random := rand.New(rand.NewPCG(seed, 3))
	for n := range kills {
		s.configure(t, random)
		b := startBridge(t, s.program, s.config)
		if n%10 == 5 {
			s.progress(t, b)
		}
		time.Sleep(time.Duration(random.Int64N(int64(600 * time.Millisecond))))
		b.kill(t, false)
	}
	b := startBridge(t, s.program, s.config)
	s.progress(t, b)
	stop()
	s.calm()
	s.await(t, b)
	b.terminate(t)
	for _, fault := range s.faults(t) {
		t.Error(fault)
	}
	s.log(t)
}
