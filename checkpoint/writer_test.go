package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"ndrbridge/checkpoint/internal/boltfile"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

var testSource = Source{Appliance: "hq", Stream: transform.StreamDetections}

func testStore(t *testing.T) *Store {
	t.Helper()
	s := require.Value(Open(filepath.Join(t.TempDir(), "state.db"), Options{}))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

func testEvents(t *testing.T, n, size int) []transform.Event {
	t.Helper()
	var events []transform.Event
	for i := range n {
		e, err := transform.New(transform.Attributes{ID: fmt.Sprint(i), Source: "s", Type: "t"}, fmt.Appendf(nil, "%q", strings.Repeat("x", size)))
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}

func TestFullDiskSaysWhatHappens(t *testing.T) {
	s := &Store{database: &database{path: "/state/ndrbridge.db"}}
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		err := s.explain(&fs.PathError{Op: "write", Path: s.path, Err: full})
		assert.True(t, errors.Is(err, full) && strings.Contains(err.Error(), "the disk of /state/ndrbridge.db is full; nothing is lost"), err)
	}
}

// refuse and fail are changes that return errors.
var refuse = change{
	check: func(*writeRound) error { return ErrFenced },
	write: func(*writeRound) error { return errors.New("it was written although it was refused") },
}

func fail(broken error) change {
	return change{write: func(r *writeRound) error {
		r.changed = true
		r.tx.Table(positionsBucket).Put([]byte("half"), []byte("x"))
		return broken
	}}
}

// hold is a change that keeps the writer busy until end is closed.
type hold struct{ begun, end chan struct{} }

func (h hold) change() change {
	return change{write: func(*writeRound) error { close(h.begun); <-h.end; return nil }}
}

// together queues changes, in their order, so that they fall into one round.
func together(t *testing.T, s *Store, changes ...change) []error {
	t.Helper()
	errs := make([]error, len(changes))
	var running sync.WaitGroup
	h := hold{make(chan struct{}), make(chan struct{})}
	running.Go(func() {
		assert.NoError(t, s.do(context.Background(), h.change()), "the operation before")
	})
	<-h.begun
	for i, c := range changes {
		running.Go(func() { errs[i] = s.do(context.Background(), c) })
		waitQueued(s, i+1)
	}
	close(h.end)
	running.Wait()
	return errs
}

func waitQueued(s *Store, n int) {
	for queued := -1; queued != n; runtime.Gosched() {
		s.mu.Lock()
		queued = len(s.queue)
		s.mu.Unlock()
	}
}

func TestOneOperationDoesNotHarmTheOthers(t *testing.T) {
	first := (&Commit{Source: testSource, Position: []byte("1")}).change()
	second := (&Commit{Source: testSource, Expect: []byte("1"), Position: []byte("2")}).change()

	t.Run("a refused operation", func(t *testing.T) {
		s := testStore(t)
		errs := together(t, s, refuse, first, refuse, second)
		for i, want := range []error{ErrFenced, nil, ErrFenced, nil} {
			assert.ErrorIs(t, errs[i], want, "operation", i)
		}
		got, _ := s.Position(t.Context(), testSource)
		assert.Equal(t, string(got), "2", "position")
	})
	t.Run("a failed operation rolls back the others of its round, and all callers get the error", func(t *testing.T) {
		s := testStore(t)
		broken := errors.New("broken")
		errs := together(t, s, refuse, first, fail(broken))
		for i, err := range errs[1:] {
			assert.ErrorIs(t, err, broken, "operation", i+1)
		}
		got, _ := s.Position(t.Context(), testSource)
		assert.True(t, got == nil, "position", string(got), "want none")
		assert.NoError(t, s.do(t.Context(), first), "again")
		s.view(t.Context(), func(tx *bolt.Tx) error {
			assert.True(t, tx.Bucket(positionsBucket).Get([]byte("half")) == nil, "half of an operation stayed")
			return nil
		})
	})
	t.Run("a write that bbolt refuses fails the round, even if the operation does not look", func(t *testing.T) {
		s := testStore(t)
		keyless := change{write: func(r *writeRound) error {
			r.tx.Table(positionsBucket).Put(nil, []byte("x"))
			return nil
		}}
		for i, err := range together(t, s, keyless, first) {
			assert.ErrorIs(t, err, bolterrors.ErrKeyRequired, "operation", i)
		}
		assert.ErrorIs(t, s.do(t.Context(), keyless), bolterrors.ErrKeyRequired, "alone")
		got, _ := s.Position(t.Context(), testSource)
		assert.True(t, got == nil, "position", string(got), "want none")
	})
	t.Run("what a round left in the file although it failed is read as the file has it", func(t *testing.T) {
		s := testStore(t)
		events := testEvents(t, 3, 100)
		commit := func(position, next string, e transform.Event) {
			t.Helper()
			c := Commit{Source: testSource, Expect: []byte(position), Position: []byte(next), Events: []transform.Event{e}}
			require.NoError(t, s.Commit(t.Context(), c))
		}
		commit("", "1", events[0])
		broken := errors.New("broken")
		require.ErrorIs(t, s.do(t.Context(), fail(broken)), broken)
		err := s.db.Update(func(tx *bolt.Tx) error { // as if it had failed after its last page
			j, err := openJournal(tx)
			if err == nil {
				_, err = j.append(boltfile.NewTx(tx, scheme).Table(journalBucket), events[1:2], time.Now())
			}
			return err
		})
		require.NoError(t, err)
		commit("1", "2", events[2])
		for after := range uint64(3) {
			records, err := s.Read(t.Context(), after, Batch{})
			assert.True(t, err == nil && len(records) == int(3-after) && records[0].Seq == after+1 && records[0].Event.ID == events[after].ID, after, records, err, after+1)
		}
	})
	t.Run("an operation whose context ended before its turn is left out", func(t *testing.T) {
		s := testStore(t)
		ctx, cancel := context.WithCancel(t.Context())
		h := hold{make(chan struct{}), make(chan struct{})}
		held, done := make(chan error, 1), make(chan error, 1)
		go func() { held <- s.do(t.Context(), h.change()) }()
		<-h.begun
		go func() { done <- s.do(ctx, first) }()
		waitQueued(s, 1)
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
		close(h.end)
		assert.NoError(t, <-held)
		got, _ := s.Position(t.Context(), testSource)
		assert.True(t, got == nil, "position", string(got), "want none")
	})
	t.Run("an operation whose context ends midway is completed, and its caller gets the result", func(t *testing.T) {
		s := testStore(t)
		ctx, cancel := context.WithCancel(t.Context())
		h := hold{make(chan struct{}), make(chan struct{})}
		done := make(chan error, 1)
		go func() { done <- s.do(ctx, h.change()) }()
		<-h.begun
		cancel()
		close(h.end)
		assert.NoError(t, <-done)
	})
}

func TestDoneCommandsAreBounded(t *testing.T) {
	s := testStore(t)
	ctx, now := t.Context(), time.Now()
	var commands []Command
	for range 4 {
		commands = append(commands, Command{Appliance: "hq", Body: []byte("{}"), Accepted: now})
	}
	accepted, err := s.Accept(ctx, commands)
	require.NoError(t, err)
	finish := func(i int) {
		t.Helper()
		require.NoError(t, s.Finish(ctx, Outcome{ID: accepted[i].ID, State: CommandApplied, Done: now.Add(time.Duration(i) * time.Millisecond)}))
	}
	finish(0)
	finish(1)
	// As many as are kept, without the time that they would take.
	err = s.do(ctx, change{write: func(r *writeRound) error {
		d := openCommandTable(r.tx)
		d.counts.Done, r.changed = 99_999, true
		d.close()
		return nil
	}})
	require.NoError(t, err)
	for _, step := range []struct{ finished, left int }{{2, 4}, {3, 3}} {
		finish(step.finished)
		left, err := s.Commands(ctx, CommandFilter{}, 0, 10)
		assert.True(t, err == nil && len(left) == step.left && left[len(left)-1].ID == 4, len(left), "commands are left", err, "want the latest", step.left)
	}
}
