package replicated_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

var errCrashed = errors.New("the process has crashed")

// process is what does something with the servers until it crashes in front of its last
// operation, or behind it but before it has the answer.
type process struct {
	left   int  // operations
	behind bool // the last one is done
	end    context.CancelFunc
}

// do does one operation.
func (p *process) do(f func() error) error {
	p.left--
	switch {
	case p.left > 0:
		return f()
	case p.left == 0 && p.behind:
		_ = f()
	}
	p.end()
	return errCrashed
}

type crashingStream struct {
	replicated.Stream
	p *process
}

func (s crashingStream) Publish(after uint64, m replicated.Message, answer func(uint64, error)) error {
	crashed := false
	return s.p.do(func() error {
		return s.Stream.Publish(after, m, func(seq uint64, err error) {
			if crashed = crashed || s.p.left <= 0; !crashed {
				answer(seq, err)
			}
		})
	})
}

func (s crashingStream) Purge(ctx context.Context, before uint64) error {
	return s.p.do(func() error { return s.Stream.Purge(ctx, before) })
}

type crashingSnapshots struct {
	replicated.Snapshots
	p *process
}

func (s crashingSnapshots) SetPointer(ctx context.Context, p replicated.Pointer, revision uint64) error {
	return s.p.do(func() error { return s.Snapshots.SetPointer(ctx, p, revision) })
}

func (s crashingSnapshots) Write(ctx context.Context, object string, index int, chunk []byte) error {
	return s.p.do(func() error { return s.Snapshots.Write(context.WithoutCancel(ctx), object, index, chunk) })
}

func (s crashingSnapshots) Remove(ctx context.Context, object string) error {
	return s.p.do(func() error { return s.Snapshots.Remove(ctx, object) })
}

// peer is a member that follows a log. It stops if the log lacks records of it, unless a
// recovery replaces them.
type peer struct {
	name  string
	file  *memory // nil: none
	stops bool
}

// follow follows the log until it has everything or stops, or returns an error after many
// failures.
func (p *peer) follow(t *testing.T, servers *replicatedtest.Servers) error {
	ctx := t.Context()
	s, snapshots := servers.Stream(p.name, 0), servers.Snapshots(p.name, 0)
	p.stops = false
	var err error
	for range 10 {
		if p.file == nil {
			_, err = replicated.Restore(ctx, s, snapshots, func() (replicated.Replica, error) {
				p.file = &memory{}
				return p.file, nil
			})
			if errors.Is(err, replicated.ErrNoSnapshot) {
				p.file = &memory{}
			} else if err != nil {
				t.Fatal(err)
			}
		}
		bounded, stop := context.WithTimeout(ctx, time.Minute)
		err = replicated.NewFollower(s, p.file, replicated.FollowerOptions{
			Clock: replicatedtest.NewClock(1), Snapshots: snapshots,
			Snapshot: replicated.SnapshotterOptions{Messages: 1 << 20, Bytes: 1 << 40, Wall: func() time.Time { return noon }},
		}).Run(bounded)
		stop()
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return nil
		case errors.Is(err, replicated.ErrDiverged):
			p.file = nil
		case errors.Is(err, replicated.ErrLogLost):
			pointer, _, failed := snapshots.Pointer(ctx)
			if failed != nil {
				t.Fatal(failed)
			}
			if !replicated.Superseded(p.file.At(), pointer.Last) {
				p.stops = true
				return nil
			}
			p.file = nil
		}
	}
	return fmt.Errorf("%s cannot follow the log: %w", p.name, err)
}

// crash is a recovery that crashes.
type crash struct {
	owner      string // who recovers; a was the owner before
	operations int
	behind     bool
	snapshot   bool     // there was one before the log lost its end
	back       []string // who comes then, in this order
}

// TestRecoverCrashes lets Recover crash, and members come back in any order: if it took the log,
// they come to one history, which has all that the crashed one had, by themselves or when the
// operator repeats the command. Otherwise members that have more than the log keep it.
func TestRecoverCrashes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		peers := rapid.Permutation([]string{"the crashed one", "the same copy", "a part of what is lost", "a shorter copy", "no copy"}).Draw(rt, "back")
		c := crash{
			owner:      rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "owner"),
			operations: rapid.IntRange(1, 8).Draw(rt, "operations"), behind: rapid.Bool().Draw(rt, "behind"),
			snapshot: rapid.Bool().Draw(rt, "snapshot"), back: peers[:rapid.IntRange(1, 5).Draw(rt, "n")],
		}
		wrong := ""
		synctest.Test(t, func(t *testing.T) { wrong = c.run(t) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

func (c crash) run(t *testing.T) (wrong string) {
	servers := replicatedtest.New(1, replicatedtest.Faults{})
	s, snapshots := servers.Stream("a", 0), servers.Snapshots("a", 0)
	state, same, part, shorter := &memory{}, &memory{}, &memory{}, &memory{}
	l := take(t, s, 0, options(t.Context(), "a"))
	grow(t, l, 3, state, same, part, shorter)
	if c.snapshot {
		if _, err := replicated.WriteSnapshot(t.Context(), s, snapshots, shorter, noon); err != nil {
			t.Fatal(err)
		}
	}
	grow(t, l, 5, state, same, part)
	grow(t, l, 2, state, same)
	const left = 5 // records
	servers.Forget(0, left+1)

	ctx, end := context.WithCancel(t.Context())
	defer end()
	p := &process{left: c.operations, behind: c.behind, end: end}
	o := recoverOptions(t, s, c.owner)
	o.Context = ctx
	err := replicated.Recover(ctx, crashingStream{s, p}, crashingSnapshots{snapshots, p}, state, o)
	if err == nil && p.left < 0 {
		t.Error("no error of a process that crashed")
	}
	time.Sleep(time.Minute)
	has := left
	for _, m := range servers.Messages(0) {
		if m.Kind == replicated.KindTake && m.Seq > 1 {
			has = 10
		}
	}
	var members []*peer
	var had []int // records
	for _, name := range c.back {
		m := &peer{name: fmt.Sprint("c", len(members))}
		switch name {
		case "the crashed one":
			m.file = state
		case "the same copy":
			m.file = same
		case "a part of what is lost":
			m.file = part
		case "a shorter copy":
			m.file = shorter
		}
		members, had = append(members, m), append(had, 0)
		if m.file != nil {
			had[len(had)-1] = len(m.file.state())
		}
	}
	for round := range 2 {
		for _, m := range members {
			if err := m.follow(t, servers); err != nil {
				return err.Error()
			}
		}
		if round == 0 && has == 10 && slices.ContainsFunc(members, func(m *peer) bool { return m.stops }) {
			require.NoError(t, replicated.Recover(t.Context(), s, snapshots, state, recoverOptions(t, s, "d")))
		}
	}
	for i, m := range members {
		want := max(has, had[i])
		if n := len(m.file.state()); n != want || !slices.Equal(m.file.state(), same.state()[:n]) || m.stops != (want > has) {
			return fmt.Sprintf("%s has %d records, want %d of the log's %d; it stops: %v", c.back[i], n, want, has, m.stops)
		}
	}
	return ""
}

// unpurged is a stream that keeps all messages, as after a purge that failed.
type unpurged struct{ replicated.Stream }

func (unpurged) Purge(context.Context, uint64) error { return nil }

// TestFollowerFindsARecoveryOfLongAgo: the snapshot of the recovery is gone, but later ones are
// there.
func TestFollowerFindsARecoveryOfLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := replicatedtest.New(1, replicatedtest.Faults{})
		s, snapshots := unpurged{servers.Stream("b", 0)}, servers.Snapshots("b", 0)
		state, behind := &memory{}, &memory{}
		l := take(t, s, 0, options(t.Context(), "a"))
		grow(t, l, 3, state, behind)
		grow(t, l, 7, state)
		servers.Forget(0, 6)
		require.NoError(t, replicated.Recover(t.Context(), s, snapshots, state, recoverOptions(t, s, "b")))
		now, snapshot := restored(t, s, snapshots)
		l = take(t, s, snapshot.Offset+1, options(t.Context(), "c"))
		for range 2 {
			grow(t, l, 1, now)
			if _, err := replicated.WriteSnapshot(t.Context(), s, snapshots, now, noon); err != nil {
				t.Fatal(err)
			}
		}
		err := replicated.NewFollower(s, behind, replicated.FollowerOptions{Clock: replicatedtest.NewClock(1), Snapshots: snapshots}).Run(t.Context())
		require.ErrorIs(t, err, replicated.ErrDiverged)
		if errors.Is(err, replicated.ErrPurged) {
			t.Errorf("the recovery was not read: %v", err)
		}
	})
}
