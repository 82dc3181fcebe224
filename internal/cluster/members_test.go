package cluster

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/internal/lease"
	"ndrbridge/test/require"
)

const testTerm = 6 * time.Second

// testMember is a member that only publishes and reads entries.
type testMember struct {
	*members
	stop func() error // ends run and returns its error
	done chan struct{}
	err  error // of run, once done is closed
}

func startMember(t *testing.T, r Registry, id, instance string, rate float64) *testMember {
	t.Helper()
	return startMemberWith(t, r, id, instance, rate, testTerm)
}

// startMemberWith is startMember with a term of its own.
func startMemberWith(t *testing.T, r Registry, id, instance string, rate float64, term time.Duration) *testMember {
	t.Helper()
	entry := member{ID: id, Instance: instance, Version: "1.2.3", TermMS: term.Milliseconds()}
	m := &testMember{done: make(chan struct{})}
	m.members = newMembers(r, newScaledClock(rate), term, 2, slog.New(slog.DiscardHandler), func() member { return entry })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(m.done)
		m.err = m.run(ctx)
	}()
	m.stop = func() error { cancel(); <-m.done; return m.err }
	t.Cleanup(func() { m.stop() })
	return m
}

// names returns the live members that m sees.
func (m *testMember) names() string {
	v := m.current()
	var names []string
	for _, s := range v.members {
		names = append(names, s.ID+"/"+s.Instance)
	}
	return strings.Join(names, " ")
}

func wantNames(t *testing.T, m *testMember, want string) {
	t.Helper()
	if got := m.names(); got != want {
		t.Errorf("%s sees %q, want %q", m.self().ID, got, want)
	}
}

func TestMembersSeeEachOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newFakeRegistry()
		a, b := startMember(t, r, "a", "1", 1), startMember(t, r, "b", "1", 0.9)
		time.Sleep(testTerm)
		wantNames(t, a, "a/1 b/1")
		wantNames(t, b, "a/1 b/1")

		a.stop()
		time.Sleep(testTerm)
		wantNames(t, b, "a/1 b/1") // may live
		time.Sleep(testTerm)
		wantNames(t, b, "b/1")

		b.stop()
		c := startMember(t, r, "c", "1", 1)
		require.NoError(t, b.leave(t.Context()))
		time.Sleep(testTerm)
		wantNames(t, c, "a/1 c/1") // a's entry is new to c
		time.Sleep(testTerm)
		wantNames(t, c, "c/1")
	})
}

// TestMemberWithALongerTermIsNotTakenForGone: it writes its entry less often than the others
// expect of each other.
func TestMemberWithALongerTermIsNotTakenForGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const longer = 6 * testTerm
		r := newFakeRegistry()
		a, b := startMember(t, r, "a", "1", 1), startMemberWith(t, r, "b", "1", 1, longer)
		time.Sleep(longer)
		for range 2 * longer / time.Second {
			wantNames(t, a, "a/1 b/1")
			time.Sleep(time.Second)
		}
		b.stop()
		time.Sleep(longer / 2)
		second := startMember(t, r, "b", "2", 1) // its name is not free either
		time.Sleep(longer / 4)
		wantNames(t, a, "a/1 b/1")
		time.Sleep(2 * longer)
		wantNames(t, a, "a/1 b/2")
		if err := second.stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestTermOfAnEntryIsBounded(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]time.Duration{
		0: lease.Gone(testTerm), -1: lease.Gone(testTerm), -9_300_000_000_000: lease.Gone(testTerm),
		10_000: lease.Gone(10 * time.Second), math.MaxInt64: lease.Gone(time.Hour),
	} {
		if got := (member{TermMS: ms}).gone(testTerm); got != want {
			t.Errorf("an entry with a term of %d ms is gone after %v, want %v", ms, got, want)
		}
	}
}

func TestSecondMemberOfANameIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newFakeRegistry()
		first := startMember(t, r, "a", "1", 1)
		time.Sleep(testTerm)
		second := startMember(t, r, "a", "2", 1)
		time.Sleep(2 * testTerm)
		<-second.done
		if !errors.Is(second.err, errName) || !strings.Contains(second.err.Error(), "cluster.member") {
			t.Errorf("second: %v", second.err)
		}
		if err := first.stop(); err != nil {
			t.Errorf("first: %v", err)
		}
	})
}

func TestOfTwoThatWaitForANameOneGetsIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newFakeRegistry()
		startMember(t, r, "a", "1", 1).stop()
		second, third := startMember(t, r, "a", "2", 1), startMember(t, r, "a", "3", 1)
		time.Sleep(testTerm)
		if second.current().claimed || third.current().claimed {
			t.Error("a name is claimed that may be in use")
		}
		time.Sleep(2 * testTerm)
		if e2, e3 := second.stop(), third.stop(); errors.Is(e2, errName) == errors.Is(e3, errName) {
			t.Errorf("second: %v, third: %v; want one of them refused", e2, e3)
		}
	})
}

func TestMemberWhoseNameWasTakenOverStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newFakeRegistry()
		first := startMember(t, r, "a", "1", 1)
		time.Sleep(testTerm)
		e, err := r.Get(t.Context(), "member.a")
		require.NoError(t, err)
		if _, err := r.Put(t.Context(), "member.a", []byte(`{"instance":"2"}`), e.Revision); err != nil {
			t.Fatal(err)
		}
		time.Sleep(testTerm)
		if err := first.stop(); !errors.Is(err, errName) {
			t.Errorf("first: %v", err)
		}
	})
}

// deaf is a registry that stores without an answer, or fails.
type deaf struct {
	*fakeRegistry
	stores, fails atomic.Bool
}

var errDeaf = errors.New("no answer")

func (d *deaf) Put(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if d.fails.Load() {
		return 0, errDeaf
	}
	stored, err := d.fakeRegistry.Put(ctx, key, value, revision)
	if d.stores.Load() {
		return 0, errDeaf
	}
	return stored, err
}

func (d *deaf) List(ctx context.Context, prefix string) ([]Entry, error) {
	if d.fails.Load() {
		return nil, errDeaf
	}
	return d.fakeRegistry.List(ctx, prefix)
}

func TestMemberOutlivesItsRegistry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all := newFakeRegistry()
		r := &deaf{fakeRegistry: all}
		r.stores.Store(true)
		a := startMember(t, r, "a", "1", 1) // claims its name with writes that are never acknowledged
		b := startMember(t, all, "b", "1", 1)
		time.Sleep(2 * testTerm)
		wantNames(t, b, "a/1 b/1")
		r.stores.Store(false)
		time.Sleep(testTerm)
		wantNames(t, a, "a/1 b/1")

		r.fails.Store(true)
		time.Sleep(3 * testTerm)
		wantNames(t, a, "a/1 b/1") // what it saw last
		wantNames(t, b, "b/1")
		r.fails.Store(false)
		time.Sleep(testTerm)
		wantNames(t, a, "a/1 b/1")
		wantNames(t, b, "a/1 b/1")
		v := b.current()
		if lived := b.clock.Now() - v.members[0].first; lived > testTerm {
			t.Errorf("a counts as alive for %v after it was gone", lived)
		}
	})
}

// TestMembersOutliveARegistryThatLostItsEnd: the servers lost what was written last, so
// that revisions begin again below those that the members know.
func TestMembersOutliveARegistryThatLostItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newFakeRegistry()
		a, b := startMember(t, r, "a", "1", 1), startMember(t, r, "b", "1", 1)
		time.Sleep(testTerm)
		earlier := r.copy()
		time.Sleep(100 * testTerm)
		r.restore(earlier)
		for range 4 {
			time.Sleep(testTerm)
			wantNames(t, a, "a/1 b/1")
			wantNames(t, b, "a/1 b/1")
		}
		b.stop()
		time.Sleep(2 * testTerm)
		wantNames(t, a, "a/1")
	})
}

func TestForeignEntriesAreIgnored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newFakeRegistry()
		for key, value := range map[string]string{
			"member.x":  `{`,
			"member.y":  `{"version":"1"}`,
			"member.":   `{"instance":"1"}`,
			"member.a ": `{"instance":"1"}`,
			"member.z":  `{"instance":"` + strings.Repeat("1", maxValue) + `"}`,
			"member.ok": `{"instance":"1","shards":{"99":{"role":"owner"},"x":{}},"new":1}`,
		} {
			if _, err := r.Put(t.Context(), key, []byte(value), 0); err != nil {
				t.Fatal(err)
			}
		}
		a := startMember(t, r, "a", "1", 1)
		time.Sleep(testTerm)
		wantNames(t, a, "a/1 ok/1")
	})
}

func TestSettings(t *testing.T) {
	t.Parallel()
	first := settings{Name: "prod", Shards: 16, Layout: 4}
	for name, c := range map[string]struct {
		second settings
		want   string // in the error; "": it fits
	}{
		"the same":          {first, ""},
		"a newer version":   {settings{Name: "prod", Shards: 16, Layout: 5}, ""},
		"an older version":  {settings{Name: "prod", Shards: 16, Layout: 3}, "install a newer version"},
		"other shards":      {settings{Name: "prod", Shards: 8, Layout: 4}, "cluster.shards: 16 instead of 8"},
		"another cluster":   {settings{Name: "test", Shards: 16, Layout: 4}, "another cluster.name"},
		"nothing of all it": {settings{}, "another cluster.name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFakeRegistry()
			require.NoError(t, Init(t.Context(), r, first.Name, first.Shards, first.Layout, func(string) error { return nil }))
			_, err := agree(t.Context(), r, c.second)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
			} else if !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestSettingsOfAnotherProgram(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"no JSON":        "hello",
		"too many bytes": `{"name":"prod"` + strings.Repeat(" ", maxValue) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFakeRegistry()
			if _, err := r.Put(t.Context(), settingsKey, []byte(value), 0); err != nil {
				t.Fatal(err)
			}
			if _, err := agree(t.Context(), r, settings{Name: "prod"}); !errors.Is(err, ErrSettings) {
				t.Errorf("error %v, want ErrSettings", err)
			}
		})
	}
}

func TestChangeIsPublishedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newFakeRegistry()
		a := startMember(t, r, "a", "1", 1)
		revision := func() uint64 {
			e, err := r.Get(t.Context(), "member.a")
			require.NoError(t, err)
			return e.Revision
		}
		synctest.Wait()
		first := revision()
		for range 100 { // however often
			a.publishSoon()
			time.Sleep(testTerm / 300)
		}
		if got := revision() - first; got < 2 || got > 11 {
			t.Errorf("the entry was written %d times in a third of a term", got)
		}
	})
}
