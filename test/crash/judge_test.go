package crash

import (
	"fmt"
	"strings"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/fault"
	"ndrbridge/test/ledger"
	"ndrbridge/test/require"
)

// faults returns the broken guarantees at all sinks. The last bridge must have ended.
func (s *scene) faults(t *testing.T) (faults []string) {
	t.Helper()
	s.commit(t)
	s.readFile(t)
	faults = s.verdicts()
	if s.followUps {
		for _, sensor := range s.sensors {
			for _, fault := range sensor.followUpFaults() {
				faults = append(faults, fmt.Sprintf("follow-ups of %s: %s", sensor.name, fault))
			}
		}
	}
	return faults
}

// verdicts returns the broken guarantees at all sinks by the ledgers.
func (s *site) verdicts() (faults []string) {
	for _, sensor := range s.sensors {
		shown, book := sensor.shown(), sensor.book
		for _, sink := range s.sinks {
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

// judge reports every broken guarantee as an error of the test. The last bridge must have
// ended.
func (s *scene) judge(t *testing.T, kills int) {
	t.Helper()
	for _, fault := range s.faults(t) {
		t.Error(fault)
	}
	for _, sink := range s.sinks {
		met, kinds := 0, "none"
		if p := s.proxies[sink]; p != nil {
			met, kinds = total(p.Injected()), faultCounts(p)
		}
		causes := kills + met + s.restarts[sink] + 1 // Calm resets connections, too
		repeated := s.repeatedAt(sink)
		t.Logf("%s: %d events, %d repeated, %d restarts, %d faults: %s", sink, s.received(sink), repeated, s.restarts[sink], met, kinds)
		explained := causes * repeats
		assert.True(t, repeated <= explained, sink, repeated, "events were repeated; the faults explain", explained)
	}
	for _, sensor := range s.sensors {
		t.Logf("%s: faults: %s", sensor.name, faultCounts(sensor.proxy))
	}
	t.Logf("%d events committed; %d lives met a full disk", s.committed(), s.full)
	s.noDeadLetters(t)
	for _, sensor := range s.sensors {
		counts := sensor.follow.arrived.counts
		t.Logf("%s: follow-ups: %v", sensor.name, counts)
		for _, kind := range followUpStreams {
			assert.True(t, counts[kind] > 0 || !sensor.follow.hasContact(kind), sensor.name, "has no", kind)
		}
	}
	s.judgeSteps(t, kills)
}

// noDeadLetters fails if there are dead letters: every event can be delivered. Only a search for
// evidence may keep failing while others succeed.
func (s *scene) noDeadLetters(t *testing.T) {
	t.Helper()
	for owner, dead := range s.stats(t).DeadLetters {
		if s.followUps && strings.HasSuffix(fmt.Sprint(owner), poller.StreamEvidence) {
			t.Logf("%s has %d dead letters", owner, dead.Count) // the searches kept failing
			continue
		}
		assert.True(t, dead.Count <= 0, owner, "has", dead.Count, "dead letters")
	}
}

// stats returns the statistics of the state. The bridge must have ended.
func (s *scene) stats(t *testing.T) checkpoint.Stats {
	t.Helper()
	store, err := checkpoint.Open(s.state, checkpoint.Options{ReadOnly: true})
	require.NoError(t, err)
	defer store.Close()
	stats, err := store.Stats(t.Context())
	require.NoError(t, err)
	return stats
}

// faultCounts returns the number of injected faults by kind, for the log.
func faultCounts(p *fault.Proxy) string {
	var kinds []string
	injected := p.Injected()
	for _, kind := range fault.Kinds() {
		kinds = append(kinds, fmt.Sprintf("%d %s", injected[kind], kind))
	}
	return strings.Join(kinds, ", ")
}
