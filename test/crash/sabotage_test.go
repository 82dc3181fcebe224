package crash

import (
	"fmt"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/fault"
	"ndrbridge/test/require"
)

// TestSabotageIsDetected kills bridges with a fault and passes only if the broken guarantee is
// detected. The same bridge without a fault keeps every guarantee.
func TestSabotageIsDetected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fault string     // of the program faulty
		plan  fault.Plan // of connections to the Kafka broker
	}{
		{"no fault", "", fault.Plan{}},
		{"a cursor that moves before its events are sent", "early-cursor", fault.Plan{}},
		{"an event that is given up after one failure", "early-dead-letter", fault.Plan{Likely: 1, Kinds: []fault.Kind{fault.Reset}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const kills = 8
			s := newScene(t, buildFaulty(t, c.fault), 1, t.TempDir(), false)
			s.proxies[kafkaSink].Follow(c.plan)
			stopLife := s.live(t, standin.Rates{Appear: 50, Update: 50, AuditEntries: 12, Records: 25})
			for range kills {
				b := s.start(t)
				s.more(t, b, natsSink)
				b.kill(t, false)
				s.commit(t)
			}
			stopLife()
			s.calm()
			late := ""
			for range 5 { // a busy machine may pause for longer than quiet waits
				b := s.start(t)
				if c.fault == "" {
					s.await(t, b)
				}
				s.quiet()
				b.terminate(t)
				if late = s.late(t); late == "" {
					break
				}
			}
			require.Equal(t, late, "")
			faults := s.faults(t)
			expectFaults(t, faults, c.fault, "were committed and did not arrive")
		})
	}
}

// late describes a sink that has events yet to deliver; empty: none has. The bridge must have
// ended.
func (s *scene) late(t *testing.T) string {
	t.Helper()
	for sink, stats := range s.stats(t).Sinks {
		if stats.LagEvents > 0 {
			return fmt.Sprintf("%s has %d events yet to deliver, which are not lost", sink, stats.LagEvents)
		}
	}
	return ""
}

// TestLostCommandsAreDetected kills bridges that acknowledge commands before storing them,
// and passes only if the lost commands are detected. The same bridge without the fault loses
// none.
func TestLostCommandsAreDetected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		fault  string // of the program faulty
		intake string
	}{
		{"no fault, HTTP", "", httpIntake},
		{"no fault, NATS", "", natsIntake},
		{"HTTP", "early-acceptance", httpIntake},
		{"NATS", "early-acceptance", natsIntake},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newCommandScene(t, buildFaulty(t, c.fault), 1, c.intake)
			stop := s.drive(t)
			for range 2 {
				b := s.start(t)
				s.progress(t, b)
				b.kill(t, false)
			}
			b := s.start(t)
			stop()
			if c.fault == "" {
				s.await(t, b)
			}
			s.quiet(t)
			b.terminate(t) // others may depend on the lost ones and be rejected
			expectFaults(t, s.faults(), c.fault, "was acknowledged and never written")
		})
	}
}

// expectFaults fails unless one of the detected faults contains text, or there is none if the
// bridge ran without a fault.
func expectFaults(t *testing.T, detected []string, injected, text string) {
	t.Helper()
	switch all := strings.Join(detected, "\n"); {
	case injected == "" && all != "":
		t.Errorf("detected in a bridge without a fault: %s", all)
	case injected != "" && !strings.Contains(all, text):
		t.Errorf("it was not detected: %q", all)
	}
}
