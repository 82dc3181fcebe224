package replicated_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/assert"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// TestFollowerOfAnotherHistory lets a log lose its end, which a replica has, and another owner
// only renew its lease until the log is longer than before.
func TestFollowerOfAnotherHistory(t *testing.T) {
	for _, c := range []struct {
		name     string
		lost     uint64 // the last message that is left; the replica has 11
		follows  bool   // while it happens
		takes    int    // how many owners there are
		renewals int    // of each
		want     error  // nil: the replica follows
	}{
		{"that was closed meanwhile", 6, false, 1, 10, replicated.ErrLogLost},
		{"that was closed meanwhile, and the log ends where the replica does", 6, false, 1, 4, replicated.ErrLogLost},
		{"that followed meanwhile", 6, true, 1, 10, replicated.ErrLogLost},
		{"whose take is where the replica goes on", 10, true, 2, 0, replicated.ErrLogLost},
		{"that has nothing of what was lost", 11, false, 1, 10, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := replicatedtest.New(1, replicatedtest.Faults{})
				s, state := servers.Stream("b", 1), &memory{}
				grow(t, take(t, s, 0, options(t.Context(), "a")), 10, state)
				ended := make(chan error, 1)
				ctx, cancel := context.WithCancel(t.Context())
				run := func() {
					o := replicated.FollowerOptions{Clock: replicatedtest.NewClock(1)}
					ended <- replicated.NewFollower(s, state, o).Run(ctx)
				}
				if c.follows {
					go run()
					time.Sleep(3 * time.Second)
				}
				servers.Forget(1, c.lost)
				last := c.lost
				for n := range c.takes {
					l := take(t, s, last, options(t.Context(), fmt.Sprint("c", n)))
					for range c.renewals {
						appendRecord(t, l, "")
					}
					last = l.Offset()
				}
				if !c.follows {
					go run()
				}
				time.Sleep(time.Minute)
				cancel()
				want := c.want
				if want == nil {
					want = context.Canceled
				}
				require.ErrorIs(t, <-ended, want)
			})
		})
	}
}

// TestFollowerThatCannotReadItsMessage: until it could, it does not say that the log is quiet.
func TestFollowerThatCannotReadItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := replicatedtest.New(1, replicatedtest.Faults{FailReads: 1})
		s, state := servers.Stream("b", 1), &memory{}
		grow(t, take(t, s, 0, options(t.Context(), "a")), 10, state)
		f, stop := follow(t, s, state)
		time.Sleep(55 * time.Second)
		st := f.Status()
		assert.True(t, st.Quiet == 0 && st.Last == 0, "status", st, "before the log could be read")
		servers.SetFaults(replicatedtest.Faults{})
		time.Sleep(3 * time.Second) // soon: the log may be without an owner
		st = f.Status()
		assert.True(t, st.Quiet != 0 && st.Owner == "a" && st.Trail == "a.1.11.1/1 c0ffee 1", "status", st, "after the log could be read")
		require.ErrorIs(t, stop(), context.Canceled)
	})
}
