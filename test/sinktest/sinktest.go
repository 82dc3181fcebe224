// Package sinktest is the conformance suite of sinks. It checks the contract of
// sinks.Sink, whatever the protocol.
package sinktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Target is the target of a sink, real or simulated, created for each test. Open and
// Received must be set, and Stall and Resume unless it is Local. The other fields are faults
// and bounds; if one is nil or zero, the target does not support it, and the checks that need
// it are skipped.
type Target struct {
	// Open returns a sink for the target, without contacting it. The lease is nil except
	// in the tests of leases.
	Open func(*lease.Lease) (sinks.Sink, error)
	// Received returns the events that the target holds. Events with the same partition
	// key are in the order of their arrival. They are decoded by a third-party decoder:
	// see Structured, Batch and Binary.
	Received func() ([]event.Event, error)

	// Down breaks connections and accepts no new ones: a transient failure.
	Down func()
	// Hang keeps connections but answers nothing and discards what is sent.
	Hang func()
	// Stall keeps connections, but reads nothing until Resume. They must be set, unless the
	// target is Local.
	Stall, Resume func()
	// Local is true for a target on the machine of the sink, which needs no lease.
	Local bool
	// Halt makes the target refuse the sink itself: its credentials, topic, stream or
	// address.
	Halt func()
	// Throttle makes the target ask for a wait, and returns that wait.
	Throttle func() time.Duration
	// Reject makes the target reject the event with this id.
	Reject func(id string)
	// Restore ends Down, Hang, Halt and Throttle.
	Restore func()

	// MaxBytes is the largest size of a structured event. Only one event of the suite
	// exceeds it, on purpose, which the sink must detect itself. 0: the sink knows no
	// bound.
	MaxBytes int
	// Secrets must not appear in any error.
	Secrets []string
}

// promptly bounds calls that must not hang. It does not measure speed.
const promptly = 30 * time.Second

// Run checks the sink in each of the modes. For every test, it calls fresh with the mode
// of the sink. The tests of faults run only in the first mode.
func Run(t *testing.T, modes []transform.Mode, fresh func(t *testing.T, mode transform.Mode) Target) {
	type check struct {
		name string
		run  func(t *testing.T, s *session)
	}
	run := func(t *testing.T, mode transform.Mode, checks []check) {
		for _, c := range checks {
			t.Run(c.name, func(t *testing.T) {
				s := &session{t: t, target: fresh(t, mode)}
				s.open()
				defer s.close()
				c.run(t, s)
			})
		}
	}
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			run(t, mode, []check{
				{"every attribute and every byte of data arrives", arrives},
				{"a large batch arrives", largeBatch},
				{"events of one partition key stay in order within and across batches", order},
			})
		})
	}
	run(t, modes[0], []check{
		{"nothing is sent if the context is already cancelled", cancelledBefore},
		{"a send that hangs returns when its context is cancelled and leaves nothing running", cancelledWhileHanging},
		{"a target that is down is a transient failure and the sink does not retry", isDown},
		{"a target that refuses the sink halts it and no event is lost", halted},
		{"a target that asks for a wait is reported as throttled with that wait", throttled},
		{"only the event that the target rejects is rejected", rejected},
		{"only the event that is too large is rejected", tooLarge},
		{"nothing arrives without a lease, and everything once there is one again", withoutLease},
		{"no more arrives of a send during which the lease ends, and the rest once there is one again", leaseEnds},
		{"closing twice is harmless, and so is closing before a send", closeTwice},
	})
}

// session is a sink with its target.
type session struct {
	t      *testing.T
	target Target
	sink   sinks.Sink
	lease  *lease.Lease
}

func (s *session) open() {
	s.t.Helper()
	sink, err := s.target.Open(s.lease)
	if err != nil {
		s.t.Fatalf("open: %v", err)
	}
	s.sink = sink
}

func (s *session) close() {
	if err := s.sink.Close(); err != nil {
		s.t.Errorf("close: %v", err)
	}
}

// try sends events and checks the properties of every error.
func (s *session) try(ctx context.Context, events []transform.Event) error {
	s.t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.sink.Send(ctx, events) }()
	var err error
	select {
	case err = <-done:
	case <-time.After(promptly):
		s.t.Fatal("Send does not return")
	}
	if err == nil {
		return nil
	}
	for _, secret := range s.target.Secrets {
		if strings.Contains(err.Error(), secret) {
			s.t.Errorf("the error shows a secret: %v", err)
		}
	}
	if each, ok := errors.AsType[failure.EventErrors](err); ok {
		if len(each) != len(events) {
			s.t.Fatalf("%d errors for %d events", len(each), len(events))
		}
		received := s.ids()
		failed := false
		for i, err := range each {
			failed = failed || err != nil
			if err == nil && !received[key(events[i].Source, events[i].ID)] {
				s.t.Errorf("event %s has no error but did not arrive", events[i].ID)
			}
		}
		if !failed {
			s.t.Error("EventErrors without a failed event")
		}
	}
	return err
}

// send sends events and fails the test on an error.
func (s *session) send(events []transform.Event) {
	s.t.Helper()
	if err := s.try(s.t.Context(), events); err != nil {
		s.t.Fatalf("send: %v", err)
	}
}

func (s *session) received() []event.Event {
	s.t.Helper()
	got, err := s.target.Received()
	if err != nil {
		s.t.Fatalf("read the target's events: %v", err)
	}
	return got
}

func (s *session) ids() map[string]bool {
	s.t.Helper()
	received := map[string]bool{}
	for _, e := range s.received() {
		received[key(e.Source(), e.ID())] = true
	}
	return received
}

func key(source, id string) string { return source + " " + id }

// holds fails the test unless the target holds exactly these events, unchanged, each
// once, and those of a partition key in their order.
func (s *session) holds(want []transform.Event) {
	s.t.Helper()
	got := s.received()
	if len(got) != len(want) {
		s.t.Errorf("the target holds %d events, not %d", len(got), len(want))
	}
	byKey := map[string][]event.Event{}
	for _, e := range got {
		k := fmt.Sprint(e.Extensions()["partitionkey"])
		byKey[k] = append(byKey[k], e)
	}
	for _, e := range want {
		queue := byKey[e.PartitionKey]
		if len(queue) == 0 {
			s.t.Fatalf("event %s did not arrive", e.ID)
		}
		byKey[e.PartitionKey] = queue[1:]
		if err := same(queue[0], e); err != nil {
			s.t.Fatalf("event %s of %s: %v", e.ID, e.Source, err)
		}
	}
}

// same returns an error if got differs from want.
func same(got event.Event, want transform.Event) error {
	if err := got.Validate(); err != nil {
		return fmt.Errorf("not a valid CloudEvent: %w", err)
	}
	attributes := map[string]string{
		"specversion": got.SpecVersion(), "id": got.ID(), "source": got.Source(), "type": got.Type(), "subject": got.Subject(),
	}
	for name, value := range got.Extensions() {
		attributes[name] = fmt.Sprint(value)
	}
	for name, value := range want.Headers() {
		switch name {
		case "time":
			if !got.Time().Equal(want.Time) {
				return fmt.Errorf("time is %v, not %v", got.Time(), want.Time)
			}
		case "recordedtime":
			if at, err := time.Parse(time.RFC3339, attributes[name]); err != nil || !at.Equal(want.RecordedTime) {
				return fmt.Errorf("recordedtime is %q, not %q", attributes[name], value)
			}
		default:
			if attributes[name] != value {
				return fmt.Errorf("%s is %q, not %q", name, attributes[name], value)
			}
		}
	}
	if got.DataContentType() != transform.ContentTypeData {
		return fmt.Errorf("datacontenttype is %q", got.DataContentType())
	}
	// A sink that writes lines may change whitespace between tokens.
	if !bytes.Equal(got.Data(), want.Data()) && !bytes.Equal(compact(got.Data()), compact(want.Data())) {
		return fmt.Errorf("data is %.200q, not %.200q", got.Data(), want.Data())
	}
	return nil
}

func compact(data []byte) []byte {
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return data
	}
	return b.Bytes()
}

func arrives(t *testing.T, s *session) {
	events := Awkward()
	s.send(events)
	s.holds(events)
	if parted, ok := s.sink.(sinks.Parted); ok {
		for _, e := range events {
			if parted.Part(e) == "" {
				t.Errorf("the part of the target is not known to which event %s went", e.ID)
			}
		}
	}
}

func largeBatch(t *testing.T, s *session) {
	events := Events(1000, 1000, 2000)
	s.send(events)
	s.holds(events)
}

func order(t *testing.T, s *session) {
	events := Events(120, 7, 200)
	for start, size := 0, 1; start < len(events); size++ {
		end := min(start+size, len(events))
		s.send(events[start:end])
		start = end
	}
	s.holds(events)
}

func cancelledBefore(t *testing.T, s *session) {
	events := Events(4, 2, 200)
	s.send(events[:1])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.try(ctx, events[1:3]); err == nil {
		t.Error("no error")
	}
	s.send(events[3:])
	s.holds([]transform.Event{events[0], events[3]})
}

func cancelledWhileHanging(t *testing.T, s *session) {
	if s.target.Hang == nil {
		return
	}
	events := Events(12, 3, 200)
	s.send(events[:3])
	s.target.Hang()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := s.try(ctx, events[3:9]); err == nil {
		t.Fatal("no error")
	}
	s.target.Restore()
	s.recover(events[9:])
	s.holds(append(events[:3:3], events[9:]...))
}

func isDown(t *testing.T, s *session) {
	if s.target.Down == nil {
		return
	}
	events := Events(12, 3, 200)
	s.send(events[:3])
	s.target.Down()
	s.fails(events[3:9], failure.Transient)
	s.target.Restore()
	s.recover(events[9:])
	s.holds(append(events[:3:3], events[9:]...))
	s.close()

	s.target.Down()
	s.open()
	s.fails(events[3:4], failure.Transient)
	s.target.Restore()
}

func halted(t *testing.T, s *session) {
	if s.target.Halt == nil {
		return
	}
	events := Events(9, 3, 200)
	s.target.Halt()
	s.fails(events[:6], failure.Halted)
	s.target.Restore()
	s.close()
	s.open() // as after every halt
	s.recover(events[6:])
	s.holds(events[6:])
}

func throttled(t *testing.T, s *session) {
	if s.target.Throttle == nil {
		return
	}
	events := Events(3, 3, 200)
	want := s.target.Throttle()
	err := s.fails(events, failure.Throttled)
	if _, wait := failure.ClassOf(err); wait != want {
		t.Errorf("the wait is %v, not %v", wait, want)
	}
	s.target.Restore()
	s.recover(events)
	s.holds(events)
}

// fails sends events, all of which must fail with the class want, because of the target, and
// returns one of the errors.
func (s *session) fails(events []transform.Event, want failure.Class) error {
	s.t.Helper()
	err := s.try(s.t.Context(), events)
	if err == nil {
		s.t.Fatalf("no error, want %s", want)
	}
	each, ok := errors.AsType[failure.EventErrors](err)
	if !ok {
		each = failure.EventErrors{err}
	}
	var first error
	for i, err := range each {
		class, _ := failure.ClassOf(err)
		switch {
		case err == nil:
			s.t.Errorf("event %d is reported as delivered", i)
		case errors.Is(err, failure.ErrNotTried):
		case class != want:
			s.t.Errorf("event %d: class %s, want %s: %v", i, class, want, err)
		case failure.ScopeOf(err) != failure.ScopeTarget && failure.ScopeOf(err) != failure.ScopePart:
			s.t.Errorf("event %d: scope %q, although no event is at fault: %v", i, failure.ScopeOf(err), err)
		case first == nil:
			first = err
		}
	}
	if first == nil {
		s.t.Fatalf("no event has class %s: %v", want, err)
	}
	return first
}

// recover retries until Send succeeds, as a runner does: a sink may need a few sends to
// notice that its target is back.
func (s *session) recover(events []transform.Event) {
	s.t.Helper()
	var err error
	for range 50 {
		if err = s.try(s.t.Context(), events); err == nil {
			return
		}
		// Do not send delivered events again: the suite expects each once.
		if each, ok := errors.AsType[failure.EventErrors](err); ok {
			for i := len(each) - 1; i >= 0; i-- {
				if each[i] == nil {
					events = append(events[:i:i], events[i+1:]...)
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.t.Fatalf("the target is back, but the sink still fails: %v", err)
}

func rejected(t *testing.T, s *session) {
	if s.target.Reject == nil {
		return
	}
	events := Events(8, 8, 200)
	s.target.Reject(events[3].ID)
	err := s.try(t.Context(), events)
	if err == nil {
		t.Fatal("no error")
	}
	each, ok := errors.AsType[failure.EventErrors](err)
	if !ok {
		// The sink does not know which event it is. A runner sends each alone in the
		// end.
		if class, _ := failure.ClassOf(err); class != failure.Rejected {
			t.Fatalf("class %s: %v", class, err)
		}
		each = make(failure.EventErrors, len(events))
		for i := range events {
			each[i] = s.try(t.Context(), events[i:i+1])
		}
	}
	for i, err := range each {
		if class, _ := failure.ClassOf(err); i == 3 && (err == nil || class != failure.Rejected) {
			t.Errorf("the rejected event: class %s: %v", class, err)
		}
		if i != 3 && err != nil {
			// Events that were not tried are sent again.
			if class, _ := failure.ClassOf(err); class != failure.Transient {
				t.Errorf("event %d: class %s: %v", i, class, err)
			}
			s.send(events[i : i+1])
		}
	}
	s.holds(append(events[:3:3], events[4:]...))
}

func tooLarge(t *testing.T, s *session) {
	if s.target.MaxBytes == 0 {
		return
	}
	events := append(Events(4, 4, 200), Events(1, 1, s.target.MaxBytes+1)...)
	events[2], events[4] = events[4], events[2]
	err := s.try(t.Context(), events)
	each, ok := errors.AsType[failure.EventErrors](err)
	if !ok {
		t.Fatalf("not EventErrors: %v", err)
	}
	for i, err := range each {
		if class, _ := failure.ClassOf(err); i == 2 && (err == nil || class != failure.Rejected || !failure.IsUnsent(err)) {
			t.Errorf("the large event: class %s, unsent %v: %v", class, failure.IsUnsent(err), err)
		}
		if i != 2 && err != nil {
			t.Errorf("event %d: %v", i, err)
		}
	}
	s.holds(append(events[:2:2], events[3:]...))
}

func closeTwice(t *testing.T, s *session) {
	s.close()
	_ = s.sink.Close()
	s.open()
}
