// Package power implements whether the stand-in appliance is reachable: it restarts, is shut
// down and is powered on.
//
//	       Restart              Shutdown
//	on ───────────────► down ◄───────────── on
//	                     │ half of the restart time; after a shutdown, the time off or PowerOn
//	                     ▼
//	on ◄──────────── starting
//	  half of the restart time
//
// The state follows from the time alone, so that nothing has to run in the background.
package power

import (
	"sync"
	"time"
)

// State is whether an appliance is reachable.
type State int

// The states of an appliance.
const (
	On       State = iota // requests are served
	Down                  // connections are reset
	Starting              // requests are refused with 503
)

// Switch is the power of an appliance, which is on at first. It is safe for concurrent use.
type Switch struct {
	restart time.Duration // from the command until requests are served
	off     time.Duration // from a shutdown until it is powered on; 0: forever

	mu       sync.Mutex
	switched bool // whether start and ready apply
	start    time.Time
	ready    time.Time
	shut     bool // whether it is down because it was shut down
	booted   time.Time
}

// New returns a switch. A restart takes the duration restart; 0: it is instant. An appliance
// that is shut down is powered on after the duration off; 0: only by PowerOn.
func New(restart, off time.Duration) *Switch { return &Switch{restart: restart, off: off} }

// Restart restarts an appliance at a time.
func (s *Switch) Restart(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(at.Add(s.restart/2), at.Add(s.restart), false)
}

// Start makes an appliance refuse requests as while it starts, for the time of a restart.
func (s *Switch) Start(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	booted := s.booted
	s.set(at, at.Add(s.restart), false)
	s.booted = booted // the system goes on
}

// Shutdown turns an appliance off at a time.
func (s *Switch) Shutdown(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	start := at.Add(s.off)
	s.set(start, start.Add(s.restart-s.restart/2), true)
}

// PowerOn turns an appliance on that is shut down. Otherwise it does nothing.
func (s *Switch) PowerOn(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, _ := s.state(at); state == Down && s.shut {
		s.set(at, at.Add(s.restart-s.restart/2), false)
	}
}

// Booted returns when an appliance that is on last began to start; zero: it never was off.
func (s *Switch) Booted() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.booted
}

// State returns the state at a time, and how long it takes at most until requests are served
// again; 0: they are, or nothing but PowerOn brings that about.
func (s *Switch) State(at time.Time) (State, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state(at)
}

// state is State. The switch must be locked.
func (s *Switch) state(at time.Time) (State, time.Duration) {
	switch {
	case !s.switched:
		return On, 0
	case s.shut && s.off == 0:
		return Down, 0
	case at.Before(s.start):
		return Down, s.ready.Sub(at)
	case at.Before(s.ready):
		return Starting, s.ready.Sub(at)
	}
	s.switched = false // even if the clock is put back
	return On, 0
}

// set makes an appliance start at a time, and ready at another. The switch must be locked.
func (s *Switch) set(start, ready time.Time, shut bool) {
	s.switched, s.start, s.ready, s.shut, s.booted = true, start, ready, shut, start
}
