package bridge_test

import (
	"slices"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/ledger"
	"ndrbridge/test/loopback"
	"ndrbridge/transform"
)

// inbox is a webhook that stores the events it receives.
type inbox struct{ *loopback.Receiver }

func startInbox(t *testing.T) *inbox {
	t.Helper()
	return &inbox{loopback.Receive(t)}
}

// count counts the events of a type, or of all types.
func (i *inbox) count(kind string) int { return len(i.of(kind)) }

// of returns the events of a type, or all events if it is empty.
func (i *inbox) of(kind string) []transform.Event {
	return slices.DeleteFunc(i.Events(), func(e transform.Event) bool { return kind != "" && e.Type != kind })
}

// redelivered counts the events that are marked so.
func (i *inbox) redelivered() int {
	n := 0
	for _, e := range i.of("") {
		if e.Redelivered {
			n++
		}
	}
	return n
}

// refuseDuplicates fails the test if an event was delivered twice.
func (i *inbox) refuseDuplicates(t *testing.T) {
	t.Helper()
	seen := make(map[string]bool)
	for _, e := range i.of("") {
		if key := e.Source + " " + e.ID; seen[key] {
			t.Errorf("event %s was delivered twice", key)
		} else {
			seen[key] = true
		}
	}
}

// judge fails the test unless each version of the detections of the appliance hq was delivered once.
func (i *inbox) judge(t *testing.T, a *standin.Appliance) {
	t.Helper()
	verdict := i.book().Judge("hq", history(a))
	assert.True(t, len(verdict.Faults) == 0 && verdict.Duplicates <= 0, verdict)
}

// book returns the events in a ledger, with the appliance as the sink.
func (i *inbox) book() *ledger.Ledger {
	book := ledger.New()
	for _, e := range i.Events() {
		book.Receive(e.Appliance, e)
	}
	return book
}
