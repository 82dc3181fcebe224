package crash

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// senders records which member sent the events of each appliance to the webhook.
type senders struct {
	mu   sync.Mutex
	runs map[string][]sentRun // by appliance
}

// sentRun are events of one appliance that one member sent without another in between.
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
		s.add(e.Appliance, m.name, time.Now())
	}
}

func (s *senders) add(appliance, member string, now time.Time) {
	if s.runs == nil {
		s.runs = make(map[string][]sentRun)
	}
	runs, before := s.runs[appliance], now
	if n := len(runs); n > 0 {
		before = runs[n-1].last
	}
	if n := len(runs); n == 0 || runs[n-1].member != member {
		runs = append(runs, sentRun{member: member, first: now, before: now.Sub(before)})
		s.runs[appliance] = runs
	}
	run := &runs[len(runs)-1]
	run.events, run.last = run.events+1, now
}

// of returns the runs of an appliance.
func (s *senders) of(appliance string) []sentRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sentRun(nil), s.runs[appliance]...)
}

// faults returns the events of an appliance that a member sent behind those of another that
// had taken the shard from it. takers are the members that took the shard, in order: the
// senders must be some of them in the same order.
func (s *senders) faults(appliance string, takers []string) (faults []string) {
	next := 0
	for _, run := range s.of(appliance) {
		from := next
		for next < len(takers) && takers[next] != run.member {
			next++
		}
		if next == len(takers) {
			return append(faults, fmt.Sprintf("%s: %s sent %d events from %s to %s without having taken the shard since another member sent; behind it the takers are %v",
				appliance, run.member, run.events, run.first.Format(clockTime), run.last.Format(clockTime), takers[from:]))
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
				s.add("hq", member, time.Now())
			}
			if faults := s.faults("hq", c.takers); (len(faults) > 0) != c.fault {
				t.Errorf("%q", faults)
			}
		})
	}
}
