package crash

import (
	"syscall"
	"testing"
	"time"

	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/fault"
)

// maxEvents is the maximum number of events in a batch. After a kill the next bridge repeats
// at most two batches: the one in flight, and the one whose cursor was not written yet. So
// does each fault of a connection to a sink.
const (
	maxEvents = 50
	repeats   = 2 * maxEvents
)

// stepPatience is how long a bridge may take to reach the step at which it is killed.
const stepPatience = 5 * time.Second

// kill runs a bridge and kills it.
func (s *scene) kill(t *testing.T, n int, l life) {
	t.Helper()
	reached := s.steps.await(l.step)
	b := s.start(t)
	if l.step.stream != "" {
		select {
		case <-reached:
		case <-time.After(stepPatience): // the step is rare, as when there is nothing to do
		}
	}
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
	s.skipped = s.skipped || b.output.has(poller.StreamEvidence) && b.output.has("events left the journal")
	s.commit(t)

	// The webhook's events are recorded before they are acknowledged, so repeated ones are
	// known at once.
	repeated, injected := s.repeatedAt(webhookSink), total(s.proxies[webhookSink].Injected())
	most := (1 + injected - s.injected) * repeats
	assert.True(t, repeated-s.repeated <= most, "kill", n, repeated-s.repeated, "events were repeated; the faults explain", most)
	s.repeated, s.injected = repeated, injected
	if n%100 == 99 {
		t.Logf("%d kills, %d versions of detections, %d events at the webhook", n+1, len(s.sensors[0].appliance.History()), s.received(webhookSink))
	}
}

// happen starts an incident and returns a function that ends it.
func (s *scene) happen(t *testing.T, what incident, b *bridge) (fix func()) {
	t.Helper()
	switch what {
	case diskFull:
		return b.limitFiles(t, s.state, 2)
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
