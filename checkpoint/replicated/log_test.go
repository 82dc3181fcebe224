package replicated_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/assert"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// take takes a log in a test that expects no error.
func take(t *testing.T, s replicated.Stream, after uint64, o replicated.Options) *replicated.Log {
	t.Helper()
	l := require.Value(replicated.Take(t.Context(), s, after, o))(t)
	return l
}

// identity is that of the log in tests.
var identity = replicated.Identity{Cluster: "c0ffee", Generation: 1}

func options(ctx context.Context, owner string) replicated.Options {
	return replicated.Options{Context: ctx, Owner: owner, Identity: identity, Clock: replicatedtest.NewClock(1)}
}

func appendRecord(t *testing.T, l *replicated.Log, record string) uint64 {
	t.Helper()
	at := require.Value(l.Append([]byte(record)))(t)
	return at.Offset
}

// grow appends n records to a log and to the states that follow it.
func grow(t *testing.T, l *replicated.Log, n int, states ...*memory) {
	t.Helper()
	for range n {
		record := states[0].record(fmt.Sprint("of epoch ", l.Epoch()))
		at := require.Value(l.Append([]byte(record)))(t)
		for _, s := range states {
			require.NoError(t, s.Apply([][]byte{[]byte(record)}, at))
		}
	}
}

// TestTakeIgnoresAnEarlierAttempt: the lease is counted from before the take that
// is stored was sent.
func TestTakeIgnoresAnEarlierAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := replicatedtest.New(1, replicatedtest.Faults{})
		o := options(t.Context(), "a")
		take(t, servers.Stream("a", 1), 0, o)
		o.Attempt++
		_, err := replicated.Take(t.Context(), servers.Stream("a", 1), 0, o)
		assert.ErrorIs(t, err, checkpoint.ErrNotOwner, "the second attempt")
	})
}

func TestTake(t *testing.T) {
	for _, c := range []struct {
		name string
		// prepare returns the number of the message after which the log is taken.
		prepare func(t *testing.T, servers *replicatedtest.Servers) uint64
		epoch   uint64 // 0: the take fails
		want    error
	}{
		{"an empty log", func(*testing.T, *replicatedtest.Servers) uint64 { return 0 }, 1, nil},
		{"a log with an owner that is quiet", func(t *testing.T, s *replicatedtest.Servers) uint64 {
			l := take(t, s.Stream("a", 1), 0, options(t.Context(), "a"))
			return appendRecord(t, l, "x")
		}, 2, nil},
		{"a log whose owner appended since", func(t *testing.T, s *replicatedtest.Servers) uint64 {
			l := take(t, s.Stream("a", 1), 0, options(t.Context(), "a"))
			return appendRecord(t, l, "x") - 1
		}, 0, checkpoint.ErrNotOwner},
		{"a log that somebody else has just taken", func(t *testing.T, s *replicatedtest.Servers) uint64 {
			take(t, s.Stream("a", 1), 0, options(t.Context(), "a"))
			return 0
		}, 0, checkpoint.ErrNotOwner},
		{"a log that is shorter", func(*testing.T, *replicatedtest.Servers) uint64 { return 5 }, 0, replicated.ErrLogLost},
		{"a log whose messages are all purged", func(t *testing.T, s *replicatedtest.Servers) uint64 {
			l := take(t, s.Stream("a", 1), 0, options(t.Context(), "a"))
			last := appendRecord(t, l, "x")
			require.NoError(t, s.Stream("a", 1).Purge(t.Context(), last+1))
			return last
		}, 8, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := replicatedtest.New(1, replicatedtest.Faults{})
				after := c.prepare(t, servers)
				o := options(t.Context(), "b")
				if c.epoch == 8 {
					o.Epoch = 7
				}
				l, err := replicated.Take(t.Context(), servers.Stream("b", 1), after, o)
				require.ErrorIs(t, err, c.want)
				if err == nil && (l.Offset() != after+1 || l.Epoch() != c.epoch) {
					t.Errorf("offset %d, epoch %d; want %d, %d", l.Offset(), l.Epoch(), after+1, c.epoch)
				}
			})
		})
	}
}

func TestAppendFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(t *testing.T, servers *replicatedtest.Servers, last uint64)
		want  error
		text  string
	}{
		{"another owner took the log", func(t *testing.T, s *replicatedtest.Servers, last uint64) {
			o := options(context.Background(), "b")
			require.Value(replicated.Take(context.Background(), s.Stream("b", 1), last, o))(t)
		}, checkpoint.ErrNotOwner, "b.2.1.1/1"},
		{"the log lost its end", func(_ *testing.T, s *replicatedtest.Servers, last uint64) { s.Forget(1, last-1) }, replicated.ErrLogLost, "not"},
		{"the servers cannot be reached", func(_ *testing.T, s *replicatedtest.Servers, _ uint64) { s.Cut("a", true) }, context.DeadlineExceeded, "not known"},
		{"the servers do not answer", func(_ *testing.T, s *replicatedtest.Servers, _ uint64) {
			s.SetFaults(replicatedtest.Faults{LoseAnswers: 1, FailReads: 1})
		}, context.DeadlineExceeded, "no answer"},
		{"the stream has no leader", func(_ *testing.T, s *replicatedtest.Servers, _ uint64) { s.ChangeLeader(1, time.Hour) }, context.DeadlineExceeded, "no responders"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := replicatedtest.New(1, replicatedtest.Faults{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				l := take(t, servers.Stream("a", 1), 0, options(ctx, "a"))
				last := appendRecord(t, l, "x")
				c.fault(t, servers, last)
				_, err := l.Append([]byte("y"))
				require.ErrorIs(t, err, c.want)
				assert.True(t, c.want == replicated.ErrLogLost || strings.Contains(err.Error(), c.text), err, c.text, "in it")
				stored := len(servers.Messages(1))
				servers.Cut("a", false)
				servers.SetFaults(replicatedtest.Faults{})
				time.Sleep(time.Hour)
				_, again := l.Append([]byte("z"))
				assert.Equal(t, again, err, "the next record")
				require.ErrorIs(t, l.Release(t.Context()), err)
				n := len(servers.Messages(1))
				assert.Equal(t, n, stored, n-stored, "messages were stored after the")
			})
		})
	}
}

// TestAppendEndsIfTheMessageBeforeIsGone: nobody can find out any more whether the log lost its
// end since that message, so the append does not wait for ever.
func TestAppendEndsIfTheMessageBeforeIsGone(t *testing.T) {
	for name, late := range map[string]bool{"and the record is stored": false, "and a late message stands in its way": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := replicatedtest.New(1, replicatedtest.Faults{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				l := take(t, servers.Stream("a", 1), 0, options(ctx, "a"))
				last := appendRecord(t, l, "x")
				time.Sleep(10 * time.Second)
				if late {
					require.Value(publish(t, servers.Stream("b", 1), last, replicated.Message{ID: "b.0.1.1/1", Kind: replicated.KindRecord}))(t)
				}
				require.NoError(t, servers.Stream("a", 1).Purge(t.Context(), last+1))
				_, err := l.Append([]byte("y"))
				assert.True(t, err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "is gone; it is not known"), err)
			})
		})
	}
}

// TestLateMessages checks that what comes late from a fenced owner, or from nobody, does not
// count, and does not end the ownership of its successor.
func TestLateMessages(t *testing.T) {
	for _, id := range []string{"a.1.2.2/2", "a.1.2.1/2", "a.1.2.1/1", "", "b.9"} {
		t.Run(id, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := replicatedtest.New(1, replicatedtest.Faults{})
				take(t, servers.Stream("a", 1), 0, options(t.Context(), "a"))
				b := take(t, servers.Stream("b", 1), 1, options(t.Context(), "b"))
				require.Value(publish(t, servers.Stream("a", 1), 2, replicated.Message{ID: id, Kind: replicated.KindRecord, Data: []byte("late")}))(t)
				assert.Equal(t, appendRecord(t, b, "x"), 4, "offset")
				var messages []replicated.Message
				for _, m := range servers.Messages(1) {
					messages = append(messages, m.Message)
				}
				records, err := replicated.ReadAll(messages)
				assert.True(t, err == nil && len(records) == 3 && records[2] == (replicated.Read{Kind: replicated.KindRecord, Owner: "b", Offset: 4, Record: "x"}), "records", records, err)
			})
		})
	}
}

type renewals []time.Duration

func (r *renewals) Renew(begun time.Duration) { *r = append(*r, begun) }

// TestLease checks that a lease is renewed from the moment before a record's first copy was
// sent, whatever it took to store it, and by records that were stored alone.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := replicatedtest.New(1, replicatedtest.Faults{})
		var got renewals
		var resent int
		o := options(t.Context(), "a")
		o.Lease = &got
		o.Metrics.Resent = func(int, error) { resent++ }
		l := take(t, servers.Stream("a", 1), 0, o)
		time.Sleep(time.Second)
		servers.ChangeLeader(1, time.Minute)
		last := appendRecord(t, l, "")
		take(t, servers.Stream("b", 1), last, options(t.Context(), "b"))
		_, err := l.Append(nil)
		require.ErrorIs(t, err, checkpoint.ErrNotOwner)
		assert.True(t, len(got) == 2 && got[0] == 0 && got[1] == time.Second, "renewed from", got, "want 0s and 1s")
		assert.True(t, resent >= 10, resent, "resends")
	})
}
