package crash

import (
	"fmt"
	"strings"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/test/fault"
	"ndrbridge/test/ledger"
)

// faults are what the judge finds at all the sinks, once the last bridge has
// ended.
func (s *scene) faults(t *testing.T) (faults []string) {
	t.Helper()
	s.commit(t)
	s.readFile(t)
	for _, sensor := range s.sensors {
		shown, book := sensor.shown(), sensor.book
		for _, sink := range everySink {
			for matter, verdict := range map[string]ledger.Verdict{
				"detections": book.Judge(sink, shown.detections),
				"audit":      book.JudgeObjects(sink, sensor.auditSource(), shown.audit),
				"records":    book.JudgeObjects(sink, sensor.recordSource(), shown.record),
				"committed":  book.JudgeCommitted(sink),
			} {
				for _, fault := range verdict.Faults {
					faults = append(faults, fmt.Sprintf("%s, %s of %s: %s", sink, matter, sensor.name, fault))
				}
			}
		}
	}
	return faults
}

// judge fails for everything that is wrong once the last bridge has ended.
func (s *scene) judge(t *testing.T, kills int) {
	t.Helper()
	for _, fault := range s.faults(t) {
		t.Error(fault)
	}
	for _, sink := range everySink {
		met, ways := 0, "none"
		if p := s.proxies[sink]; p != nil {
			met, ways = total(p.Struck()), struckWays(p)
		}
		causes := kills + met + s.restarts[sink] + 1 // the calm, which resets
		repeated := s.repeatedAt(sink)
		t.Logf("%s: %d events, %d repeated, %d restarts, %d faults: %s", sink, s.received(sink), repeated, s.restarts[sink], met, ways)
		if explained := causes * repeats; repeated > explained {
			t.Errorf("%s: %d events were repeated; what happened explains %d", sink, repeated, explained)
		}
	}
	for _, sensor := range s.sensors {
		t.Logf("%s: faults: %s", sensor.name, struckWays(sensor.proxy))
	}
	t.Logf("%d events committed; %d lives met a full disk", s.committed(), s.full)
	s.noDeadLetters(t)
}

// noDeadLetters fails where something was given up that could have arrived.
func (s *scene) noDeadLetters(t *testing.T) {
	t.Helper()
	for owner, dead := range s.stats(t).DeadLetters {
		if dead.Count > 0 {
			t.Errorf("%s has %d dead letters", owner, dead.Count)
		}
	}
}

// stats are those of the state of a bridge that has ended.
func (s *scene) stats(t *testing.T) checkpoint.Stats {
	t.Helper()
	store, err := checkpoint.Open(s.state, checkpoint.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	stats, err := store.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

// struckWays counts faults by kind, for the report.
func struckWays(p *fault.Proxy) string {
	var ways []string
	struck := p.Struck()
	for _, kind := range fault.Kinds() {
		ways = append(ways, fmt.Sprintf("%d %s", struck[kind], kind))
	}
	return strings.Join(ways, ", ")
}
