package power_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/test/appliance/power"
)

// An appliance is down, then starts, then is on, and the time left only passes.
func TestAnApplianceComesBackWhenItIsDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		restart := time.Duration(rapid.IntRange(0, 9).Draw(t, "restart"))
		off := time.Duration(rapid.IntRange(0, 9).Draw(t, "off"))
		s := power.New(restart, off)
		begun := time.UnixMilli(1_700_000_000_000)
		ready := restart
		commands := map[string]func(){
			"restart":  func() { s.Restart(begun) },
			"start":    func() { s.Start(begun) },
			"shutdown": func() { s.Shutdown(begun); ready = off + restart - restart/2 },
		}
		command := rapid.SampledFrom([]string{"restart", "start", "shutdown"}).Draw(t, "command")
		commands[command]()
		forever := command == "shutdown" && off == 0
		last := power.Down
		for passed := time.Duration(0); passed < 30; passed++ {
			state, left := s.State(begun.Add(passed))
			switch {
			case forever:
				if state != power.Down || left != 0 {
					t.Fatalf("it is %v for %v, want down", state, left)
				}
				continue
			case passed >= ready:
				if state != power.On || left != 0 {
					t.Fatalf("it is %v for %v after %v, want on", state, left, passed)
				}
			case state == power.On || left != ready-passed:
				t.Fatalf("it is %v for %v after %v, want it back after %v", state, left, passed, ready)
			case state == power.Down && last == power.Starting:
				t.Fatal("it is down after it started")
			}
			last = state
		}
		s.PowerOn(begun.Add(30))
		if state, _ := s.State(begun.Add(30 + restart)); state != power.On {
			t.Fatalf("after it was powered on, it is %v", state)
		}
	})
}

func TestPowerOnDoesNotShortenARestart(t *testing.T) {
	const restart = 10 * time.Second
	s := power.New(restart, 0)
	begun := time.UnixMilli(1_700_000_000_000)
	s.Restart(begun)
	s.PowerOn(begun)
	if state, left := s.State(begun); state != power.Down || left != restart {
		t.Errorf("it is %v for %v, want down for %v", state, left, restart)
	}
}
