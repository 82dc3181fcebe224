package crash

import (
	"syscall"
	"testing"
	"time"

	"ndrbridge/test/fault"
)

// maxEvents is how many events a batch may have. A kill makes the next bridge
// repeat two at most: the one in flight, and the one whose cursor was not
// written yet. So may each fault on the way to a sink.
const (
	maxEvents = 50
	repeats   = 2 * maxEvents
)

// kill lets a bridge live, and kills it.
func (s *scene) kill(t *testing.T, n int, l life) {
	t.Helper()
	b := s.start(t)
	time.Sleep(l.before)
	fix := s.happen(t, l.incident, b)
	if l.during > 0 {
		time.Sleep(l.during)
		fix()
		fix = func() {}
	}
	time.Sleep(l.after)
	b.kill(t, l.incident == diskFull)
	fix()
	if b.output.has(syscall.EFBIG.Error()) {
		s.full++
	}
	s.commit(t)

	// The webhook's events are in the book before they are acknowledged, so it
	// shows at once what was repeated.
	repeated, struck := s.repeatedAt(webhookSink), total(s.proxies[webhookSink].Struck())
	if most := (1 + struck - s.struck) * repeats; repeated-s.repeated > most {
		t.Errorf("kill %d: %d events were repeated; what happened explains %d", n, repeated-s.repeated, most)
	}
	s.repeated, s.struck = repeated, struck
	if n%100 == 99 {
		t.Logf("%d kills, %d versions of detections, %d events at the webhook", n+1, len(s.sensors[0].appliance.History()), s.received(webhookSink))
	}
}

// happen lets an incident happen, and returns what ends it.
func (s *scene) happen(t *testing.T, what incident, b *bridge) (fix func()) {
	t.Helper()
	switch what {
	case diskFull:
		return b.limitFiles(t, s.state)
	case natsDown:
		s.restarts[natsSink]++
		s.restarts[mirrorSink]++
		s.nats.stop()
		return func() { s.nats.start(t) }
	case kafkaDown:
		s.restarts[kafkaSink]++
		s.kafka.stop()
		return func() { s.kafka.start(t) }
	}
	return func() {}
}

func total(counts map[fault.Kind]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}
