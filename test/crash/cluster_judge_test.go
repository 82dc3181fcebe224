package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// takeoverLimit is the longest time from the end of an owner to the take by the next one.
const takeoverLimit = 10 * time.Second

// electionLimit is added to it if the owner's NATS server may end with it: the others elect another
// leader of the log, after 4 s to 9 s without one.
const electionLimit = 9 * time.Second

// arrive waits until everything has arrived: every acknowledged command at its appliance, and what
// the appliances returned at every sink. No fault may be open.
func (s *clusterScene) arrive(t *testing.T, commands *clusterCommands) {
	t.Helper()
	s.awaitHealthy(t)
	// What the commands change arrives as well.
	if late := commands.await(); late != nil {
		t.Errorf("commands were not written; the bridges wrote\n%s", s.outputs())
	}
	if late := s.awaitAt(clusterSinks...); late != "" {
		t.Errorf("%s\n%s", late, s.outputs())
	}
}

// end stops the bridges in order, one after the other. The last one owns the log at its end: what
// its file holds was committed.
func (s *clusterScene) end(t *testing.T) {
	t.Helper()
	last := s.members[len(s.members)-1]
	if s.embedded != nil {
		last = s.endEmbedded(t)
	} else {
		for _, m := range s.members {
			if m.stop(t); m != last {
				s.awaitHealthy(t)
			}
		}
		s.readLog(t)
	}
	state := filepath.Join(last.folder, "state.db")
	store := openState(t, state)
	defer store.Close()
	s.commitFrom(t, store, 0)
	store, err := checkpoint.Open(state, checkpoint.Options{ReadOnly: true})
	require.NoError(t, err)
	defer store.Close()
	first, err := store.Read(t.Context(), 0, checkpoint.Batch{MaxEvents: 1})
	assert.True(t, err == nil && len(first) != 0 && first[0].Seq == 1, "the journal does not begin with its first event", first, err)
	stats, err := store.Stats(t.Context())
	require.NoError(t, err)
	for owner, dead := range stats.DeadLetters {
		assert.True(t, dead.Count <= 0, owner, "has", dead.Count, "dead letters")
	}
}

// judgesTiming reports whether a test may fail because something took too long: only if it
// has the machine to itself, in make torture-cluster.
func judgesTiming() bool { return os.Getenv("CLUSTER_FAULTS") != "" }

// judge reports every broken guarantee as an error of the test. The cluster must have ended.
func (s *clusterScene) judge(t *testing.T, commands *clusterCommands) {
	t.Helper()
	for _, fault := range slices.Concat(s.faults(), commands.faults()) {
		t.Error(fault)
	}
	for _, late := range s.takeovers(t) {
		if judgesTiming() {
			t.Error(late)
		} else {
			t.Log(late)
		}
	}
	t.Logf("%d events committed, %d takes, %d messages in the log", s.committed(), len(s.log.takes), s.log.messages)
	for n, sink := range clusterSinks {
		repeated, explained := s.repeatedAt(sink), s.explained(n)
		t.Logf("%s: %d events, %d repeated of at most %d", sink, s.received(sink), repeated, explained)
		assert.True(t, repeated <= explained, sink, repeated, "events were repeated; the faults explain", explained)
	}
	for sensor, tickets := range commands.tickets {
		n := 0
		for ticket := range tickets {
			n += len(commands.book.of(ticket))
		}
		t.Logf("%s: %d commands acknowledged, %d requests to write", sensor.name, n, len(sensor.appliance.Patches()))
	}
}

// faults returns the guarantees that the sinks, the log and the owners show to be broken.
func (s *clusterScene) faults() (faults []string) {
	faults = append(s.verdicts(), s.owners.faults()...)
	faults = append(faults, s.log.intruders[:min(len(s.log.intruders), 20)]...)
	return append(faults, s.senders.faults(s.log.takers())...)
}

// explained returns the number of events that the faults may have repeated at a sink, which receives
// one batch at a time. It receives it again if the cursor behind it was not appended to the log:
// after a take, the batch in flight and the one before, whose cursor may have been refused. A lost
// connection repeats the batch in flight, and so does a lease that ended because NATS did not answer,
// though nobody else took the log: with embedded servers, every fault of members can lead to that.
func (s *clusterScene) explained(sink int) int {
	batches := 2 * len(s.log.takes)
	for _, past := range s.past {
		switch {
		case past.fault == cutSink && past.peer == sink, past.fault == cutServer, past.fault == isolate, past.fault.ofServers():
			batches++
		case s.embedded != nil && past.fault.ofMembers():
			batches++
		}
	}
	return batches * clusterBatch
}

// takeovers returns the faults after which the log had no owner for too long. It judges those with
// no other at the same time which lasted long enough, and logs by kind of fault how long it took
// until the log was taken, and until the next owner appended its first record; the same of all owners
// that were killed, whatever else happened.
func (s *clusterScene) takeovers(t *testing.T) (faults []string) {
	t.Helper()
	var taken, worked [clusterFaults]durations
	var killed durations
	for n, past := range s.past {
		until := past.at.Add(past.lasts) // when the owner could go on
		ends := false                    // the fault ends the ownership at once, and for good
		switch past.fault {
		case killBridge, stopBridge, deleteFolder, operate, restartAll:
			until, ends = past.at.Add(time.Hour), true
		case handOver:
			until = past.at.Add(takeoverLimit)
		case pauseBridge, isolate, fillDisk:
		default:
			continue
		}
		if !past.owned {
			continue
		}
		limit := past.at.Add(takeoverLimit)
		if s.embedded != nil {
			limit = limit.Add(electionLimit)
		}
		if past.fault == restartAll {
			limit = limit.Add(past.lasts) // nobody runs until then
		}
		i := slices.IndexFunc(s.log.takes, func(t take) bool {
			return t.at.After(past.at) && (ends || t.member() != past.victim)
		})
		switch past.fault {
		case killBridge, deleteFolder, operate:
			if i >= 0 && !s.log.takes[i].works.IsZero() {
				killed = append(killed, s.log.takes[i].works.Sub(past.at))
			}
		}
		if !past.alone {
			continue
		}
		if i >= 0 && s.log.takes[i].at.Before(until) {
			taken[past.fault] = append(taken[past.fault], s.log.takes[i].at.Sub(past.at))
			if works := s.log.takes[i].works; !works.IsZero() {
				worked[past.fault] = append(worked[past.fault], works.Sub(past.at))
			}
		}
		if limit.Before(until) && (i < 0 || s.log.takes[i].at.After(limit)) {
			faults = append(faults, fmt.Sprintf("fault %d, %s %s at %s: nobody took the log within %v", n, past.fault, past.victim,
				past.at.Format(clockTime), limit.Sub(past.at)))
		}
	}
	for kind := range clusterFaults {
		if len(taken[kind]) > 0 {
			t.Logf("%s: %d takeovers; the take %v; the first record %v", kind, len(taken[kind]), taken[kind], worked[kind])
		}
	}
	t.Logf("%d owners were killed, also amid other faults; the first record %v", len(killed), killed)
	return faults
}

// durations are of one kind.
type durations []time.Duration

// String returns the distribution.
func (d durations) String() string {
	if len(d) == 0 {
		return "never"
	}
	sorted := slices.Sorted(slices.Values(d))
	at := func(percent int) time.Duration {
		return sorted[((len(sorted)-1)*percent+99)/100].Round(time.Millisecond)
	}
	return fmt.Sprintf("after %v to %v, median %v, 90 %% within %v", at(0), at(100), at(50), at(90))
}

func TestLateTakeoversAreDetected(t *testing.T) {
	begin := time.Now()
	for _, c := range []struct {
		name  string
		fault clusterFault
		lasts time.Duration
		among bool          // other faults
		taken time.Duration // after it began; 0: never
		late  bool
	}{
		{"a dead owner is replaced in time", killBridge, time.Second, false, 3 * time.Second, false},
		{"a dead owner is replaced late", killBridge, time.Second, false, 11 * time.Second, true},
		{"a dead owner is never replaced", killBridge, time.Second, false, 0, true},
		{"an owner that stops is never replaced", stopBridge, time.Second, false, 0, true},
		{"a short pause ends before anybody takes the log", pauseBridge, 3 * time.Second, false, 0, false},
		{"nobody takes the log during a long pause", pauseBridge, 12 * time.Second, false, 0, true},
		{"a long cut ends an ownership in time", isolate, 12 * time.Second, false, 9 * time.Second, false},
		{"other faults delay a takeover", killBridge, time.Second, true, 30 * time.Second, false},
		{"all are replaced late", restartAll, time.Second, false, 12 * time.Second, true},
		{"a cut sink ends no ownership", cutSink, 12 * time.Second, false, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := clusterLog{takes: []take{{owner: "a.1", at: begin.Add(-time.Minute)}}}
			if c.taken > 0 {
				log.takes = append(log.takes, take{owner: "b.1", at: begin.Add(c.taken)})
			}
			s := &clusterScene{happened: happened{log: log, past: []pastFault{{
				clusterStep: clusterStep{fault: c.fault, lasts: c.lasts, alone: !c.among}, at: begin, victim: "a", owned: true,
			}}}}
			faults := s.takeovers(t)
			assert.Equal(t, len(faults) > 0, c.late, faults)
		})
	}
}
