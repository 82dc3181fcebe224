package crash

import (
	"fmt"
	"testing"
	"time"

	"ndrbridge/test/ledger"
)

// more waits until a sink has received more events than before.
func (s *scene) more(t *testing.T, b *bridge, sink string) {
	t.Helper()
	const enough = 100
	least := s.received(sink) + enough
	for deadline := time.Now().Add(patience); s.received(sink) < least; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: delivery does not continue\n%s", sink, b.output.end())
		}
	}
}

// quiet waits until no event has arrived for a while.
func (s *site) quiet() {
	const while = 2 * time.Second
	received, since := -1, time.Now()
	for time.Since(since) < while {
		now := 0
		for _, sink := range s.sinks {
			now += s.received(sink)
		}
		if now != received {
			received, since = now, time.Now()
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// missing returns the number of objects that have yet to reach a sink, and one of them.
func (s *site) missing(sink string) (n int, example string) {
	for _, sensor := range s.sensors {
		shown := sensor.shown() // again each time: a repeated ticket command makes another version
		if missing, version := sensor.book.Missing(sink, shown.detections); missing > 0 {
			n, example = n+missing, fmt.Sprintf("detection %d-%d of %s", version.ID, version.ModTime, sensor.name)
		}
		for source, objects := range map[string][]ledger.Object{sensor.auditSource(): shown.audit, sensor.recordSource(): shown.record} {
			if missing, object := sensor.book.MissingObjects(sink, source, objects); missing > 0 {
				n, example = n+missing, source+" "+object.String()
			}
		}
		if missing, event := sensor.book.MissingCommitted(sink); missing > 0 {
			n, example = n+missing, event
		}
	}
	return n, example
}

// await waits until everything has reached each sink that can be observed. If there is no
// progress, it fails and reports where the missing objects are. The simulations of the
// appliances must have ended.
func (s *scene) await(t *testing.T, b *bridge) {
	t.Helper()
	if late := s.awaitAt(webhookSink, natsSink, mirrorSink, kafkaSink); late != "" {
		b.kill(t, false)
		for _, fault := range s.faults(t) {
			t.Error(fault)
		}
		t.Fatalf("%s; the last bridge wrote:\n%s", late, b.output.end())
	}
	if s.followUps {
		s.awaitFollowUps(t, b)
		s.awaitOpen(t, b)
	}
}

// awaitAt waits until everything has reached some sinks. If there is no progress, it describes
// what is missing.
func (s *site) awaitAt(sinks ...string) (late string) {
	for _, sink := range sinks {
		least, progress := -1, time.Now()
		for {
			looked := time.Now()
			missing, example := s.missing(sink)
			if missing == 0 {
				break
			}
			if least < 0 || missing < least {
				least, progress = missing, time.Now()
			}
			if time.Since(progress) > patience {
				return fmt.Sprintf("%s: %d objects did not arrive, %s is one", sink, missing, example)
			}
			// Evaluating a long run takes processor time, which the bridge needs as well.
			time.Sleep(max(50*time.Millisecond, 10*time.Since(looked)))
		}
	}
	return ""
}
