package crash

import (
	"math/rand/v2"
	"time"
)

// incident is a disturbance during the run of a bridge.
type incident int

const (
	nothing incident = iota
	diskFull
	natsDown
	kafkaDown
	longLife // none, but the bridge runs longer than its timeouts
	incidents
)

// life is the plan of a bridge's run until it is killed.
type life struct {
	step     step // that it reaches first
	incident incident
	before   time.Duration // the incident begins
	during   time.Duration // 0: the incident outlasts the bridge
	after    time.Duration // from the incident until the kill
}

// planLives draws lives. Each incident occurs in about one of fifty, and in at least one.
// The first life, which creates the state, has none. Every second of the others ends at a step of
// follow-ups, in a long run every fourth.
func planLives(seed uint64, kills int) []life {
	random := rand.New(rand.NewPCG(seed, 0))
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(random.Int64N(int64(most-least)))
	}
	every := 2
	if kills >= manyKills {
		every = 4
	}
	lives, order := make([]life, kills), random.Perm(len(steps()))
	for n := range lives {
		// Some are killed while starting, most while working.
		lives[n] = life{after: between(0, 300*time.Millisecond)}
		if all := steps(); n%every == 1 {
			lives[n] = life{step: all[order[n/every%len(all)]], after: between(0, 5*time.Millisecond)}
		}
	}
	// Each position is drawn once.
	places := random.Perm(max(0, kills-1))
	for n := range min(len(places), int(incidents-1)*(1+kills/50)) {
		lives[1+places[n]] = eventful(incident(1+n%int(incidents-1)), between, random.IntN(2) == 0)
	}
	return lives
}

// eventful returns a life with an incident, which may outlast the bridge.
func eventful(what incident, between func(least, most time.Duration) time.Duration, ends bool) life {
	l := life{
		incident: what,
		before:   between(100*time.Millisecond, 300*time.Millisecond),
		after:    between(100*time.Millisecond, 400*time.Millisecond),
	}
	switch {
	case what == longLife:
		l.after = between(time.Second, 2*time.Second)
	case ends:
		l.during = between(100*time.Millisecond, 500*time.Millisecond)
	}
	return l
}
