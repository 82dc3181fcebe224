package replicated_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/assert"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// TestRewrittenLog lets a log lose its end while its owner pauses, and another owner write to
// it: however long it has become, the old owner's record is refused, or the end is seen to be
// lost.
func TestRewrittenLog(t *testing.T) {
	for records := range 8 {
		t.Run(fmt.Sprint(records, " records of another owner"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := replicatedtest.New(1, replicatedtest.Faults{})
				a := take(t, servers.Stream("a", 1), 0, options(t.Context(), "a"))
				for range 10 {
					appendRecord(t, a, "x")
				}
				time.Sleep(10 * time.Second)
				servers.Forget(1, 6)
				c := take(t, servers.Stream("c", 1), 6, options(t.Context(), "c"))
				for range records {
					appendRecord(t, c, "y")
				}
				want := checkpoint.ErrNotOwner
				if c.Offset() < a.Offset() {
					want = replicated.ErrLogLost
				}
				_, err := a.Append([]byte("x"))
				require.ErrorIs(t, err, want)
				appendRecord(t, c, "z")
				assert.Equal(t, require.Value(recordsOfC(t, servers))(t), records+1, "records of the new owner count")
			})
		})
	}
}

// recordsOfC returns how many records of owner c a log has.
func recordsOfC(t *testing.T, servers *replicatedtest.Servers) (n int, err error) {
	t.Helper()
	var messages []replicated.Message
	for _, m := range servers.Messages(1) {
		messages = append(messages, m.Message)
	}
	records, err := replicated.ReadAll(messages)
	for _, r := range records {
		if r.Owner == "c" && r.Kind == replicated.KindRecord {
			n++
		}
	}
	return n, err
}

// TestTakeOfARewrittenLog refuses to take a log whose last message is not the one that the
// member's state has.
func TestTakeOfARewrittenLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := replicatedtest.New(1, replicatedtest.Faults{})
		a := take(t, servers.Stream("a", 1), 0, options(t.Context(), "a"))
		appendRecord(t, a, "x")
		r := &memory{offset: a.Offset(), trail: "a.1.2.1/1 c0ffee 1"}
		f, stop := follow(t, servers.Stream("b", 1), r)
		last := appendRecord(t, a, "1:x")
		synctest.Wait()
		st := f.Status()
		_ = stop()
		require.Equal(t, st.Seen, last, "status", st)
		require.Equal(t, st.Trail, "a.1.3.1/1 c0ffee 1", "status", st)
		servers.Forget(1, last-1)
		take(t, servers.Stream("c", 1), last-1, options(t.Context(), "c"))
		o := options(t.Context(), "b")
		o.Trail = st.Trail
		_, err := replicated.Take(t.Context(), servers.Stream("b", 1), st.Seen, o)
		require.ErrorIs(t, err, replicated.ErrLogLost)
	})
}
