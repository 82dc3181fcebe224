package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/test/require"
)

// takeoverLimit is the longest time from the end of an owner to the take by the next one.
const takeoverLimit = 10 * time.Second

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

// end stops the bridges in order, one after the other. The last one owns every shard at its
// end: what its files hold was committed.
func (s *clusterScene) end(t *testing.T) {
	t.Helper()
	for n, m := range s.members {
		if m.stop(t); n < len(s.members)-1 {
			s.awaitHealthy(t)
		}
	}
	last := s.members[len(s.members)-1]
	for shard := range clusterShards {
		state := filepath.Join(last.folder, "state.db."+configs.ShardName(shard))
		s.commitFrom(t, state, 0)
		store, err := checkpoint.Open(state, checkpoint.Options{ReadOnly: true})
		require.NoError(t, err)
		first, err := store.Read(t.Context(), 0, checkpoint.Batch{MaxEvents: 1})
		if err != nil || len(first) == 0 || first[0].Seq != 1 {
			t.Errorf("the journal of shard %02d does not begin with its first event: %v, %v", shard, first, err)
		}
		stats, err := store.Stats(t.Context())
		require.NoError(t, err)
		for owner, dead := range stats.DeadLetters {
			if dead.Count > 0 {
				t.Errorf("shard %02d: %s has %d dead letters", shard, owner, dead.Count)
			}
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// judgesTiming reports whether a test may fail because something took too long: only if it
// has the machine to itself, in make torture-cluster.
func judgesTiming() bool { return os.Getenv("CLUSTER_FAULTS") != "" }

// judge reports every broken guarantee as an error of the test. Every bridge must have ended.
func (s *clusterScene) judge(t *testing.T, commands *clusterCommands) {
	t.Helper()
	s.readLogs(t)
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
	takes, messages := 0, 0
	for _, l := range s.logs {
		takes, messages = takes+len(l.takes), messages+l.messages
	}
	t.Logf("%d events committed, %d takes, %d messages in the logs", s.committed(), takes, messages)
	for n, sink := range clusterSinks {
		repeated, explained := s.repeatedAt(sink), s.explained(n)
		t.Logf("%s: %d events, %d repeated of at most %d", sink, s.received(sink), repeated, explained)
		if repeated > explained {
			t.Errorf("%s: %d events were repeated; the faults explain %d", sink, repeated, explained)
		}
	}
	for sensor, tickets := range commands.tickets {
		n := 0
		for ticket := range tickets {
			n += len(commands.book.of(ticket))
		}
		t.Logf("%s: %d commands acknowledged, %d requests to write", sensor.name, n, len(sensor.appliance.Patches()))
	}
}

// faults returns the guarantees that the sinks, the logs and the owners show to be broken.
func (s *clusterScene) faults() (faults []string) {
	faults = append(s.verdicts(), s.owners.faults()...)
	for _, l := range s.logs {
		faults = append(faults, l.intruders[:min(len(l.intruders), 20)]...)
	}
	for _, sensor := range s.sensors {
		takers := s.logs[configs.ShardOf(sensor.name, clusterShards)].takers()
		faults = append(faults, s.senders.faults(sensor.name, takers)...)
	}
	return faults
}

// explained returns the number of events that the faults may have repeated at a sink. A
// sink receives one batch of a shard at a time. It receives it again if the cursor behind
// it was not appended to the log: after a take, the batch in flight and the one before,
// whose cursor may have been refused. A lost connection repeats the batch in flight of each
// shard, and so does a lease that ended because NATS did not answer, though nobody else
// took the shard.
func (s *clusterScene) explained(sink int) int {
	batches := 0
	for _, l := range s.logs {
		batches += 2 * len(l.takes)
	}
	cuts := 0
	for _, past := range s.past {
		switch past.fault {
		case cutSink:
			if past.peer == sink {
				cuts++
			}
		case killServer, cutRoute, cutServer, isolate:
			cuts++
		}
	}
	return (batches + cuts*clusterShards) * clusterBatch
}

// takeovers returns the faults after which a shard had no owner for too long. It judges
// those with no other at the same time which lasted long enough, and logs how long shards
// were taken over by kind of fault.
func (s *clusterScene) takeovers(t *testing.T) (faults []string) {
	t.Helper()
	took := make(map[clusterFault][]time.Duration)
	for n, past := range s.past {
		if !past.alone {
			continue
		}
		until := past.at.Add(past.lasts) // when the owner could go on
		switch past.fault {
		case killBridge, stopBridge:
			until = past.at.Add(time.Hour)
		case pauseBridge, isolate:
		default:
			continue
		}
		for _, shard := range past.owned {
			i := slices.IndexFunc(s.logs[shard].takes, func(t take) bool {
				return t.at.After(past.at) && (t.member() != past.victim || past.fault == killBridge || past.fault == stopBridge)
			})
			if i >= 0 && s.logs[shard].takes[i].at.Before(until) {
				took[past.fault] = append(took[past.fault], s.logs[shard].takes[i].at.Sub(past.at))
			}
			limit := past.at.Add(takeoverLimit)
			if limit.Before(until) && (i < 0 || s.logs[shard].takes[i].at.After(limit)) {
				faults = append(faults, fmt.Sprintf("fault %d, %s %s at %s: nobody took shard %02d within %v", n, past.fault, past.victim,
					past.at.Format(clockTime), shard, takeoverLimit))
			}
		}
	}
	for kind := range clusterFaults {
		if all := took[kind]; len(all) > 0 {
			slices.Sort(all)
			t.Logf("%s: %d shards taken over after %v to %v, median %v", kind, len(all), all[0].Round(time.Millisecond),
				all[len(all)-1].Round(time.Millisecond), all[len(all)/2].Round(time.Millisecond))
		}
	}
	return faults
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
		{"a short pause ends before anybody takes the shard", pauseBridge, 3 * time.Second, false, 0, false},
		{"nobody takes the shard during a long pause", pauseBridge, 12 * time.Second, false, 0, true},
		{"a long cut ends an ownership in time", isolate, 12 * time.Second, false, 9 * time.Second, false},
		{"other faults delay a takeover", killBridge, time.Second, true, 30 * time.Second, false},
		{"a cut sink ends no ownership", cutSink, 12 * time.Second, false, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := &shardLog{takes: []take{{"a.1", begin.Add(-time.Minute)}}}
			if c.taken > 0 {
				log.takes = append(log.takes, take{"b.1", begin.Add(c.taken)})
			}
			s := &clusterScene{happened: happened{logs: []*shardLog{log}, past: []pastFault{{
				clusterStep: clusterStep{fault: c.fault, lasts: c.lasts, alone: !c.among}, at: begin, victim: "a", owned: []int{0},
			}}}}
			if faults := s.takeovers(t); (len(faults) > 0) != c.late {
				t.Errorf("%q", faults)
			}
		})
	}
}
