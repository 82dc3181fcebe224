package crash

import (
	"fmt"
	"testing"
	"time"

	"ndrbridge/test/ledger"
)

// more waits until a bridge has delivered more than there was.
func (s *scene) more(t *testing.T, b *bridge, sink string) {
	t.Helper()
	const enough = 100
	least := s.book.Received(sink) + enough
	for deadline := time.Now().Add(time.Minute); s.book.Received(sink) < least; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it does not go on\n%s", sink, b.output.end())
		}
	}
}

// quiet waits until nothing has arrived for a while.
func (s *scene) quiet() {
	const while = 2 * time.Second
	received, since := -1, time.Now()
	for time.Since(since) < while {
		now := 0
		for _, sink := range everySink {
			now += s.book.Received(sink)
		}
		if now != received {
			received, since = now, time.Now()
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// missing says how much has yet to reach a sink, and names some of it.
func (s *scene) missing(sink string, shown shown) (n int, example string) {
	n, version := s.book.Missing(sink, shown.detections)
	example = fmt.Sprintf("detection %d-%d", version.ID, version.ModTime)
	for source, objects := range map[string][]ledger.Object{auditSource: shown.audit, recordSource: shown.record} {
		if missing, object := s.book.MissingObjects(sink, source, objects); missing > 0 {
			n, example = n+missing, source+" "+object.ID
		}
	}
	if missing, event := s.book.MissingCommitted(sink); missing > 0 {
		n, example = n+missing, event
	}
	return n, example
}

// await waits until everything has reached each sink that can be watched. Where
// nothing comes any more for a minute, it says where what is missing got lost,
// and fails. The life of the appliance must be over.
func (s *scene) await(t *testing.T, b *bridge) {
	t.Helper()
	shown := s.shown()
	for _, sink := range []string{webhookSink, natsSink, kafkaSink} {
		least, progress := -1, time.Now()
		for {
			looked := time.Now()
			missing, example := s.missing(sink, shown)
			if missing == 0 {
				break
			}
			if least < 0 || missing < least {
				least, progress = missing, time.Now()
			}
			if time.Since(progress) > time.Minute {
				b.kill(t, false)
				for _, fault := range s.faults(t) {
					t.Error(fault)
				}
				t.Fatalf("%s: %d objects did not arrive, %s is one; the last bridge wrote:\n%s", sink, missing, example, b.output.end())
			}
			// To look at a long run takes a while, and the bridge needs that, too.
			time.Sleep(max(50*time.Millisecond, 10*time.Since(looked)))
		}
	}
}
