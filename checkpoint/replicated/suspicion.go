package replicated

import "time"

// suspicion is an observation about the end of a log that a leader of the past makes too:
// it counts only if it lasts.
type suspicion struct {
	times int
	since time.Duration
}

// suspicionTimes is how often an observation has to be made.
const suspicionTimes = 3

// lostAfter is how long it has to be made: longer than a server that has lost its majority
// goes on as a leader.
const lostAfter = 15 * time.Second

// lasts notes whether the observation was made, and reports whether it was made each time
// for long enough.
func (s *suspicion) lasts(observed bool, now time.Duration) bool {
	if !observed {
		*s = suspicion{}
		return false
	}
	if s.times == 0 {
		s.since = now
	}
	s.times++
	return s.times >= suspicionTimes && now-s.since >= lostAfter
}
