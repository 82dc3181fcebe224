package crash

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"ndrbridge/test/assert"
)

// senders records which member sent events to the webhook.
type senders struct {
	mu   sync.Mutex
	runs []sentRun
}

// sentRun are events that one member sent without another in between.
type sentRun struct {
	member      string
	events      int
	first, last time.Time
	before      time.Duration // since the last event of another member
}

// receive records an event that a member sent to the webhook.
func (s *senders) receive(t *testing.T, scene *clusterScene, m *clusterMember, body []byte) {
	s.mu.Lock() // the ledger records the events in the same order
	defer s.mu.Unlock()
	if e, ok := scene.site.receive(t, webhookSink, body); ok && e.Appliance != "" {
		s.add(m.name, time.Now())
	}
}

func (s *senders) add(member string, now time.Time) {
	before := now
	if n := len(s.runs); n > 0 {
		before = s.runs[n-1].last
	}
	if n := len(s.runs); n == 0 || s.runs[n-1].member != member {
		s.runs = append(s.runs, sentRun{member: member, first: now, before: now.Sub(before)})
	}
	run := &s.runs[len(s.runs)-1]
	run.events, run.last = run.events+1, now
}

// all returns the runs.
func (s *senders) all() []sentRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs)
}

// faults returns the events that a member sent behind those of another that had taken the log
// from it. takers are the members that took the log, in order: the senders must be some of them
// in the same order.
func (s *senders) faults(takers []string) (faults []string) {
	next := 0
	for _, run := range s.all() {
		from := next
		for next < len(takers) && takers[next] != run.member {
			next++
		}
		if next == len(takers) {
			return append(faults, fmt.Sprintf("%s sent %d events from %s to %s without having taken the log since another member sent; behind it the takers are %v",
				run.member, run.events, run.first.Format(clockTime), run.last.Format(clockTime), takers[from:]))
		}
	}
	return faults
}

func TestLateSendersAreDetected(t *testing.T) {
	for _, c := range []struct {
		name   string
		sent   []string
		takers []string
		fault  bool
	}{
		{"each sends after its take", []string{"a", "a", "b", "a"}, []string{"a", "b", "c", "a"}, false},
		{"one that took it twice", []string{"a", "b"}, []string{"a", "a", "b"}, false},
		{"one that sent nothing", []string{"c"}, []string{"a", "b", "c"}, false},
		{"an old owner after the new one", []string{"a", "b", "a"}, []string{"a", "b"}, true},
		{"one that never took it", []string{"a", "c"}, []string{"a", "b"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s senders
			for _, member := range c.sent {
				s.add(member, time.Now())
			}
			faults := s.faults(c.takers)
			assert.Equal(t, len(faults) > 0, c.fault, faults)
		})
	}
}
