package crash

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// owners asks every member time and again which shards it owns.
type owners struct {
	members []*clusterMember

	mu       sync.Mutex
	runs     map[ownership][]ownedRun
	answered map[string]time.Time // by member: the last time
}

// ownership is a shard of a member.
type ownership struct {
	member string
	shard  int
}

// ownedRun is the time in which a member said without a break that it owned a shard: it did
// from the end of the first answer to the beginning of the last question.
type ownedRun struct{ from, to, last time.Time }

const (
	askOwners    = 100 * time.Millisecond // the interval of questions
	ownersAnswer = 5 * time.Second        // how long an answer may take, and holds
	// ownersBreak is shorter than a lease: nobody loses a shard and takes it again between two
	// answers.
	ownersBreak = time.Second
)

// watchOwners asks the members until the test ends.
func watchOwners(t *testing.T, members []*clusterMember) *owners {
	t.Helper()
	o := &owners{members: members, runs: make(map[ownership][]ownedRun), answered: make(map[string]time.Time)}
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	for _, m := range members {
		asking.Go(func() {
			for tick := time.NewTicker(askOwners); ctx.Err() == nil; <-tick.C {
				asked := time.Now()
				shards, err := ownedBy(ctx, m.admin)
				if err == nil {
					o.answer(m.name, asked, time.Now(), shards)
				}
			}
		})
	}
	t.Cleanup(func() { cancel(); asking.Wait() })
	return o
}

// answer records the shards that a member owned at some moment between two times.
func (o *owners) answer(member string, asked, answered time.Time, shards []int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answered[member] = answered
	for _, shard := range shards {
		key := ownership{member, shard}
		runs := o.runs[key]
		if n := len(runs); n > 0 && asked.Sub(runs[n-1].last) < ownersBreak {
			runs[n-1].to, runs[n-1].last = asked, answered
			continue
		}
		o.runs[key] = append(runs, ownedRun{from: answered, to: asked, last: answered})
	}
	for key, runs := range o.runs { // what it did not name has ended
		if n := len(runs); key.member == member && runs[n-1].last != answered {
			runs[n-1].last = time.Time{}
		}
	}
}

// works reports whether a member has answered since it was started.
func (o *owners) works(m *clusterMember) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return m.bridge != nil && o.answered[m.name].After(m.since)
}

// ownerless returns the shards of which no member that runs has said lately that it owns
// them.
func (o *owners) ownerless() (shards []int) {
	var owned []int
	for _, m := range o.members {
		owned = append(owned, o.owned(m)...)
	}
	for shard := range clusterShards {
		if !slices.Contains(owned, shard) {
			shards = append(shards, shard)
		}
	}
	return shards
}

// owned returns the shards that a member has lately said it owns; none if it does not run.
func (o *owners) owned(m *clusterMember) (shards []int) {
	if m.bridge == nil || m.paused {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for shard := range clusterShards {
		runs := o.runs[ownership{m.name, shard}]
		if n := len(runs); n > 0 && runs[n-1].to.After(m.since) && time.Since(runs[n-1].last) < ownersAnswer {
			shards = append(shards, shard)
		}
	}
	return shards
}

// faults returns the times at which two members owned one shard.
func (o *owners) faults() (faults []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, first := range o.members {
		for _, second := range o.members[i+1:] {
			for shard := range clusterShards {
				for _, a := range o.runs[ownership{first.name, shard}] {
					for _, b := range o.runs[ownership{second.name, shard}] {
						if a.from.Before(b.to) && b.from.Before(a.to) {
							faults = append(faults, fmt.Sprintf("%s and %s both owned shard %02d: %s to %s, %s to %s", first.name, second.name, shard,
								a.from.Format(clockTime), a.to.Format(clockTime), b.from.Format(clockTime), b.to.Format(clockTime)))
						}
					}
				}
			}
		}
	}
	return faults
}

// clockTime formats times as in the logs of the bridges.
const clockTime = "15:04:05.000"

// ownedBy asks a member for the shards that it owns and has a lease for.
func ownedBy(ctx context.Context, address string) (shards []int, err error) {
	samples, err := metricsOf(ctx, address)
	if err != nil {
		return nil, err
	}
	for shard := range clusterShards {
		label := fmt.Sprintf(`{shard="%02d"}`, shard)
		if samples["ndrbridge_shard_owned"+label] > 0 && samples["ndrbridge_shard_lease_seconds"+label] > 0 {
			shards = append(shards, shard)
		}
	}
	return shards, nil
}

// metricsOf returns the values of a bridge's metrics about shards by name and labels.
func metricsOf(ctx context.Context, address string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, ownersAnswer)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	samples := make(map[string]float64)
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if !strings.HasPrefix(name, "ndrbridge_shard_") {
			continue
		}
		if samples[name], err = strconv.ParseFloat(value, 64); err != nil {
			return nil, err
		}
	}
	return samples, lines.Err()
}

func TestTwoOwnersAreDetected(t *testing.T) {
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct {
		name  string
		ask   func(o *owners)
		fault bool
	}{
		{"one after the other", func(o *owners) {
			o.answer("a", at(0), at(1), []int{1})
			o.answer("a", at(100), at(101), []int{1})
			o.answer("b", at(200), at(201), []int{1})
			o.answer("b", at(300), at(301), []int{1})
			o.answer("a", at(400), at(401), nil)
		}, false},
		{"two shards", func(o *owners) {
			o.answer("a", at(0), at(1), []int{1})
			o.answer("b", at(1), at(2), []int{2})
			o.answer("a", at(100), at(101), []int{1})
			o.answer("b", at(101), at(102), []int{2})
		}, false},
		{"at once", func(o *owners) {
			o.answer("a", at(0), at(1), []int{1})
			o.answer("b", at(50), at(51), []int{1})
			o.answer("a", at(200), at(201), []int{1})
			o.answer("b", at(250), at(251), []int{1})
		}, true},
		{"a late answer of one that has lost it meanwhile", func(o *owners) {
			o.answer("a", at(0), at(1), []int{1})
			o.answer("b", at(500), at(501), []int{1})
			o.answer("b", at(600), at(601), []int{1})
			o.answer("a", at(100), at(900), nil)
		}, false},
		{"a break", func(o *owners) {
			o.answer("a", at(0), at(1), []int{1})
			o.answer("a", at(100), at(101), nil)
			o.answer("b", at(200), at(201), []int{1})
			o.answer("b", at(300), at(301), nil)
			o.answer("a", at(400), at(401), []int{1})
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &owners{members: []*clusterMember{{name: "a"}, {name: "b"}}, runs: make(map[ownership][]ownedRun), answered: make(map[string]time.Time)}
			c.ask(o)
			if faults := o.faults(); (len(faults) > 0) != c.fault {
				t.Errorf("%q", faults)
			}
		})
	}
}
