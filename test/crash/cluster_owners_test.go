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

	"ndrbridge/test/assert"
)

// owners asks every member time and again whether it owns the log.
type owners struct {
	members []*clusterMember

	mu       sync.Mutex
	runs     map[string][]ownedRun // by member
	answered map[string]time.Time  // by member: the last time
}

// ownedRun is the time in which a member said without a break that it owned the log: it did
// from the end of the first answer to the beginning of the last question.
type ownedRun struct{ from, to, last time.Time }

const (
	askOwners    = 100 * time.Millisecond // the interval of questions
	ownersAnswer = 5 * time.Second        // how long an answer may take, and holds
	// ownersBreak is shorter than a lease: nobody loses the log and takes it again between two
	// answers.
	ownersBreak = time.Second
)

// watchOwners asks the members until the test ends.
func watchOwners(t *testing.T, members []*clusterMember) *owners {
	t.Helper()
	o := &owners{members: members, runs: make(map[string][]ownedRun), answered: make(map[string]time.Time)}
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	for _, m := range members {
		asking.Go(func() {
			for tick := time.NewTicker(askOwners); ctx.Err() == nil; <-tick.C {
				asked := time.Now()
				if owns, err := owns(ctx, m.admin); err == nil {
					o.answer(m.name, asked, time.Now(), owns)
				}
			}
		})
	}
	t.Cleanup(func() { cancel(); asking.Wait() })
	return o
}

// answer records whether a member owned the log at some moment between two times.
func (o *owners) answer(member string, asked, answered time.Time, owns bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answered[member] = answered
	runs := o.runs[member]
	switch n := len(runs); {
	case !owns && n > 0:
		runs[n-1].last = time.Time{} // it has ended
	case owns && n > 0 && asked.Sub(runs[n-1].last) < ownersBreak:
		runs[n-1].to, runs[n-1].last = asked, answered
	case owns:
		o.runs[member] = append(runs, ownedRun{from: answered, to: asked, last: answered})
	}
}

// works reports whether a member has answered since it was started.
func (o *owners) works(m *clusterMember) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return m.bridge != nil && o.answered[m.name].After(m.since)
}

// owner returns the number of the member that has lately said that it owns the log; -1: none.
func (o *owners) owner() int { return slices.IndexFunc(o.members, o.owned) }

// owned reports whether a member has lately said that it owns the log; it does not if it does not
// run.
func (o *owners) owned(m *clusterMember) bool {
	if m.bridge == nil || m.paused {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	runs := o.runs[m.name]
	n := len(runs)
	return n > 0 && runs[n-1].to.After(m.since) && time.Since(runs[n-1].last) < ownersAnswer
}

// faults returns the times at which two members owned the log.
func (o *owners) faults() (faults []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, first := range o.members {
		for _, second := range o.members[i+1:] {
			for _, a := range o.runs[first.name] {
				for _, b := range o.runs[second.name] {
					if a.from.Before(b.to) && b.from.Before(a.to) {
						faults = append(faults, fmt.Sprintf("%s and %s both owned the log: %s to %s, %s to %s", first.name, second.name,
							a.from.Format(clockTime), a.to.Format(clockTime), b.from.Format(clockTime), b.to.Format(clockTime)))
					}
				}
			}
		}
	}
	return faults
}

// clockTime formats times as in the logs of the bridges.
const clockTime = "15:04:05.000"

// owns asks a member whether it owns the log and has a lease.
func owns(ctx context.Context, address string) (bool, error) {
	samples, err := metricsOf(ctx, address)
	return samples["ndrbridge_cluster_owner"] > 0, err
}

// metricsOf returns the values of a bridge's metrics about its cluster by name and labels.
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
		if !strings.HasPrefix(name, "ndrbridge_cluster_") {
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
			o.answer("a", at(0), at(1), true)
			o.answer("a", at(100), at(101), true)
			o.answer("b", at(200), at(201), true)
			o.answer("b", at(300), at(301), true)
			o.answer("a", at(400), at(401), false)
		}, false},
		{"at once", func(o *owners) {
			o.answer("a", at(0), at(1), true)
			o.answer("b", at(50), at(51), true)
			o.answer("a", at(200), at(201), true)
			o.answer("b", at(250), at(251), true)
		}, true},
		{"a late answer of one that has lost it meanwhile", func(o *owners) {
			o.answer("a", at(0), at(1), true)
			o.answer("b", at(500), at(501), true)
			o.answer("b", at(600), at(601), true)
			o.answer("a", at(100), at(900), false)
		}, false},
		{"a break", func(o *owners) {
			o.answer("a", at(0), at(1), true)
			o.answer("a", at(100), at(101), false)
			o.answer("b", at(200), at(201), true)
			o.answer("b", at(300), at(301), false)
			o.answer("a", at(400), at(401), true)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &owners{members: []*clusterMember{{name: "a"}, {name: "b"}}, runs: make(map[string][]ownedRun), answered: make(map[string]time.Time)}
			c.ask(o)
			faults := o.faults()
			assert.Equal(t, len(faults) > 0, c.fault, faults)
		})
	}
}
