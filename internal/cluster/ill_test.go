package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/test/assert"
)

// TestAnIllOwnerHandsOver: it reaches nothing, while a standby reaches all. If nobody does, the log
// is not passed on.
func TestAnIllOwnerHandsOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reached bool // by standbys that probe
		moves   bool
	}{
		"to a standby that reaches all":       {true, true},
		"to nobody, if nobody reaches a sink": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var ill atomic.Bool
				var moves atomic.Int64
				s := startCluster(t, 3, func(o Options) Options {
					own := o.Own
					o.Own = func(ctx context.Context, w Ownership) error {
						moves.Add(1)
						return own(ctx, w)
					}
					o.Ill = ill.Load
					o.Probe = func(context.Context) error {
						if c.reached {
							return nil
						}
						return errors.New("the network is down")
					}
					return o
				})
				owner, _ := s.roles(t)
				ill.Store(true)
				time.Sleep(3 * testTerm)
				ill.Store(false)
				time.Sleep(startup)
				next, _ := s.roles(t)
				assert.Equal(t, next != owner, c.moves, next.name, "owns the log after", owner.name, "was ill")
				if !c.moves {
					return
				}
				ill.Store(true) // everywhere, although probes succeed
				time.Sleep(relieveEvery - testTerm)
				if n := moves.Load(); n > 2+3 { // each member once more
					t.Errorf("the log was passed on %d times in %v", n, relieveEvery)
				}
				s.judge(t)
			})
		})
	}
}

// TestAProbeDoesNotDelayATakeover: the ill owner dies while a standby tries what it reaches.
func TestAProbeDoesNotDelayATakeover(t *testing.T) {
	bubble(t, func(t *testing.T) {
		probing := make(chan struct{}, 100)
		s := startCluster(t, 2, func(o Options) Options {
			o.Ill = func() bool { return true }
			o.Probe = func(ctx context.Context) error {
				probing <- struct{}{}
				<-ctx.Done() // nothing answers
				return ctx.Err()
			}
			return o
		})
		owner, standbys := s.roles(t)
		<-probing
		owner.crash()
		time.Sleep(2 * testTerm)
		wantState(t, standbys[0], stateOwning)
	})
}

// TestAMemberOfANewerVersionLeavesTheLogToOthers: as long as they could not follow it. Of the
// members, the first is of an older version.
func TestAMemberOfANewerVersionLeavesTheLogToOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 3, func(o Options) Options {
			peers := o.Peers
			o.Peers = func(ctx context.Context) ([]Report, error) {
				reports, err := peers(ctx)
				for i := range reports {
					if reports[i].Member == "m0" && o.Member != "m0" {
						reports[i].Layout--
					}
				}
				return reports, err
			}
			return o
		})
		older := s.members[0]
		for range 5 {
			if owner, _ := s.roles(t); owner != older {
				owner.crash()
				time.Sleep(startup)
				owner.start()
				time.Sleep(startup)
			}
			wantState(t, older, stateOwning)
			older.crash()
			time.Sleep(2 * startup)
			owner, _ := s.roles(t)
			assert.True(t, owner != older, "nobody took the log of the member that crashed")
			older.start()
			time.Sleep(startup)
		}
		s.judge(t)
	})
}
