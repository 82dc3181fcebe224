package sinktest

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ndrbridge/test/leasetest"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// term is that of the leases of the suite, whose clock stands still.
const term = 6 * time.Second

// ends are the ways in which a lease ends.
var ends = map[string]func(*leasetest.Clock){
	"in time":                      func(c *leasetest.Clock) { c.Advance(term) },
	"while the process is stopped": func(c *leasetest.Clock) { c.Stop(term) }, // nothing has noticed
}

// withLease opens the sink again with a lease that was renewed just now.
func (s *session) withLease() *leasetest.Clock {
	s.close()
	var c *leasetest.Clock
	s.lease, c = leasetest.NewLease(term)
	s.open()
	return c
}

// withoutLease calls Send, as a runner does that is stopped between its check of the lease
// and the call.
func withoutLease(t *testing.T, s *session) {
	if s.target.Local {
		return
	}
	var sent []transform.Event
	events := Events(6*len(ends), 3, 200)
	for name, end := range ends {
		clock := s.withLease()
		s.send(events[:3])
		end(clock)
		if err := s.try(t.Context(), events[3:6]); err == nil {
			t.Fatalf("the lease ended %s, and Send returns no error", name)
		}
		s.holds(append(sent, events[:3]...))
		s.lease.Renew(clock.Now())
		s.recover(events[3:6])
		sent, events = append(sent, events[:6]...), events[6:]
		s.holds(sent)
	}
}

// leaseEnds lets a lease end while the target reads nothing.
func leaseEnds(t *testing.T, s *session) {
	if s.target.Local {
		return
	}
	for name, end := range ends {
		clock := s.withLease()
		events := bulky(t, name)
		s.send(events[:1])
		s.target.Stall()
		done := make(chan error, 1)
		go func() { done <- s.sink.Send(t.Context(), events[1:]) }()
		time.Sleep(200 * time.Millisecond) // the buffers are full; if not yet, the test shows less
		end(clock)
		s.target.Resume()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("the lease ended %s, and Send returns no error", name)
			}
		case <-time.After(promptly):
			t.Fatalf("the lease ended %s, and Send does not return", name)
		}
		time.Sleep(200 * time.Millisecond) // what was in the buffers arrives
		last := events[len(events)-1]
		if s.ids()[key(last.Source, last.ID)] {
			t.Errorf("the lease ended %s, and the last event arrived", name)
		}
		s.lease.Renew(clock.Now())
		s.recover(events[1:])
		ids := s.ids()
		for _, e := range events {
			if !ids[key(e.Source, e.ID)] {
				t.Errorf("event %s did not arrive after the lease was renewed", e.ID)
			}
		}
	}
}

// bulky returns events of two partition keys. Those of a key do not fit into the buffers of
// a connection, even compressed.
func bulky(t *testing.T, name string) []transform.Event {
	events := make([]transform.Event, 100)
	noise := rand.NewChaCha8([32]byte{})
	random := make([]byte, 90_000)
	for i := range events {
		_, _ = noise.Read(random)
		e, err := transform.New(transform.Attributes{
			ID: fmt.Sprintf("%s %d", name, i), Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created",
			Subject: fmt.Sprint(i % 2), PartitionKey: fmt.Sprint(i % 2), Appliance: "hq",
		}, fmt.Appendf(nil, "%q", base64.StdEncoding.EncodeToString(random)))
		require.NoError(t, err)
		events[i] = e
	}
	return events
}
