package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// recordLog is a log in memory that can fail.
type recordLog struct {
	mu      sync.Mutex
	records [][]byte
	owner   int   // the number of takes
	err     error // what Append returns from now on
	has     bool  // the log has the record for which it returns err
}

func (l *recordLog) Append(record []byte) (at checkpoint.Point, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil || l.has {
		l.records = append(l.records, bytes.Clone(record))
	}
	l.has = false
	return checkpoint.Point{Offset: uint64(len(l.records)), Trail: fmt.Sprint("record ", len(l.records))}, l.err
}

// fail makes all further calls return an error; the first record is in the log if has is true.
func (l *recordLog) fail(err error, has bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err, l.has = err, has
}

// after returns the records behind an offset.
func (l *recordLog) after(offset uint64) [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.records[offset:])
}

// openReplica opens the replica at a path.
func openReplica(t testing.TB, path string) *checkpoint.Replica {
	t.Helper()
	r := require.Value(checkpoint.OpenReplica(path, 0))(t)
	t.Cleanup(func() { r.Close() })
	return r
}

// follow applies all that the log holds behind the replica's offset.
func (l *recordLog) follow(t testing.TB, r *checkpoint.Replica) {
	t.Helper()
	require.NoError(t, l.apply(r))
}

// made returns all that a replica made from the log alone holds.
func (l *recordLog) made(t testing.TB) []byte {
	t.Helper()
	r := openReplica(t, statePath(t))
	l.follow(t, r)
	return dumped(t, r)
}

// dumper is a store or a replica.
type dumper interface {
	Dump(ctx context.Context, pieceBytes int, yield func(record []byte) error) (at checkpoint.Point, err error)
}

// dumpOf returns all that a store or a replica holds.
func dumpOf(state dumper) (all []byte, err error) {
	_, err = state.Dump(context.Background(), 1<<20, func(record []byte) error {
		all = append(all, record...)
		return nil
	})
	return all, err
}

func dumped(t testing.TB, state dumper) []byte {
	t.Helper()
	all := require.Value(dumpOf(state))(t)
	return all
}

// emptyReplica makes the file of an empty replica.
func emptyReplica(t testing.TB, path string) {
	t.Helper()
	require.NoError(t, openReplica(t, path).Close())
}

// openLogged opens a store on an empty replica, and fills it.
func openLogged(t testing.TB, path string, log checkpoint.Log) *checkpoint.Store {
	t.Helper()
	emptyReplica(t, path)
	s := open(t, path, checkpoint.Options{Log: log})
	fill(t, s)
	return s
}

func TestALogThatIsLostEndsTheStore(t *testing.T) {
	errUnknown := errors.New("no answer")
	for _, c := range []struct {
		name string
		err  error
		has  bool
		text string
	}{
		{"another process owns it", checkpoint.ErrNotOwner, false, "another process owns the log"},
		{"whether it has the record is not known, and it has it", errUnknown, true, "it is not known"},
		{"whether it has the record is not known, and it does not have it", errUnknown, false, "it is not known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, log := statePath(t), &recordLog{}
			s := openLogged(t, path, log)
			before := dumped(t, s)
			log.fail(c.err, c.has)
			err := s.Commit(t.Context(), more(t))
			if !errors.Is(err, c.err) || !errors.Is(s.Err(), c.err) || !strings.Contains(err.Error(), c.text) || !hasFailed(s) {
				t.Errorf("%v; the store: %v, failed %t", err, s.Err(), hasFailed(s))
			}
			records := len(log.after(0))
			log.fail(nil, false)
			assert.ErrorIs(t, s.Commit(t.Context(), more(t)), c.err, "a later commit")
			_, err = s.Read(t.Context(), 0, checkpoint.Batch{})
			assert.ErrorIs(t, err, c.err, "a later read")
			require.NoError(t, s.Close())
			got := len(log.after(0))
			assert.Equal(t, got, records, got-records, "records were appended later")

			r := openReplica(t, path)
			assert.True(t, bytes.Equal(dumped(t, r), before), "the file is not what it was before")
			log.follow(t, r)
			assert.True(t, bytes.Equal(dumped(t, r), log.made(t)), "the file does not lead to what the log holds")
		})
	}
}

func TestARecordIsInTheLogBeforeItCanBeRead(t *testing.T) {
	path, log := statePath(t), &recordLog{}
	emptyReplica(t, path)
	var s *checkpoint.Store
	appending := func(record []byte) (checkpoint.Point, error) {
		if s != nil {
			position, err := s.Position(t.Context(), source)
			assert.True(t, err == nil && position == nil, "position", string(position), err, "while it is appended")
		}
		return log.Append(record)
	}
	s = open(t, path, checkpoint.Options{Log: logFunc(appending)})
	c := checkpoint.Commit{Source: source, Position: []byte("p")}
	require.NoError(t, s.Commit(t.Context(), c))
	assert.Equal(t, len(log.after(0)), 1, "records")
}

type logFunc func([]byte) (checkpoint.Point, error)

func (f logFunc) Append(record []byte) (checkpoint.Point, error) { return f(record) }

func TestWithoutAChangeNothingIsAppended(t *testing.T) {
	path, log := statePath(t), &recordLog{}
	s := openLogged(t, path, log)
	records := len(log.after(0))
	ctx := t.Context()
	c := more(t)
	c.Expect = []byte("wrong")
	assert.ErrorIs(t, s.Commit(ctx, c), checkpoint.ErrFenced)
	assert.NoError(t, s.Configure(ctx, map[string]checkpoint.Start{"a": {}, "b": {}}))
	got := len(log.after(0))
	assert.Equal(t, got, records, got-records, "records were appended")
}

func TestAnIdleStoreRenewsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, log := statePath(t), &recordLog{}
		emptyReplica(t, path)
		s := open(t, path, checkpoint.Options{Log: log, Renew: 2 * time.Second})
		sleep := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		want := func(records int) {
			t.Helper()
			require.Equal(t, len(log.after(0)), records, "records")
		}
		sleep(time.Millisecond)
		want(1) // opening it took its time
		sleep(10 * time.Second)
		want(6)
		sleep(time.Second)
		require.NoError(t, s.Commit(t.Context(), checkpoint.Commit{Source: source, Position: []byte("p")}))
		want(7)
		sleep(1900 * time.Millisecond)
		want(7)
		sleep(200 * time.Millisecond)
		want(8)
		for i, record := range log.after(0) {
			assert.Equal(t, i != 6, (len(record) == 0), "record", i, "has", len(record), "bytes")
		}
		require.NoError(t, s.Close())
		sleep(time.Minute)
		want(8)
		assert.Equal(t, openReplica(t, path).At().Offset, 8, "the file is at offset")
	})
}

func TestALogThatIsLostIsNoticedWhileNothingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, log := statePath(t), &recordLog{}
		emptyReplica(t, path)
		s := open(t, path, checkpoint.Options{Log: log, Renew: 2 * time.Second})
		time.Sleep(time.Second)
		log.fail(checkpoint.ErrNotOwner, false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.True(t, hasFailed(s), "failed")
		assert.ErrorIs(t, s.Err(), checkpoint.ErrNotOwner)
	})
}

func TestACopyThatIsRemovedWhileItIsOpenIsNotSaved(t *testing.T) {
	path, log := filepath.Join(t.TempDir(), "states", "state.db"), &recordLog{}
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
	s := openLogged(t, path, log)
	require.NoError(t, os.Remove(path))
	if err := s.Commit(t.Context(), more(t)); !errors.Is(err, checkpoint.ErrLost) || !hasFailed(s) {
		t.Errorf("%v, failed %t", err, hasFailed(s))
	}
	files, _ := os.ReadDir(filepath.Dir(path))
	assert.Equal(t, len(files), 0, files)
	_, err := checkpoint.Open(path, checkpoint.Options{Log: log})
	assert.ErrorIs(t, err, os.ErrNotExist, "a store began without what the log holds")
}

func TestAChangeThatIsTooLargeForTheLogIsRefused(t *testing.T) {
	path, log := statePath(t), &recordLog{}
	s := openLogged(t, path, log)
	records, before := len(log.after(0)), dumped(t, s)
	s.SetMaxRecord(600)
	if err := s.Commit(t.Context(), more(t)); err == nil || !strings.Contains(err.Error(), "600") || hasFailed(s) {
		t.Errorf("%v, failed %t", err, hasFailed(s))
	}
	got := len(log.after(0))
	assert.True(t, got == records && bytes.Equal(dumped(t, s), before), got, "records, want", records, "or the state was changed")
	small := checkpoint.Commit{Source: source, Expect: []byte("p"), Position: []byte("q")}
	assert.NoError(t, s.Commit(t.Context(), small))
}

// TestOnlyTheBeginningOfACopyIsSynced: an image of the file as it was when its last sync
// ended, with any later pages, must never look like a file that was closed.
func TestOnlyTheBeginningOfACopyIsSynced(t *testing.T) {
	path, log := statePath(t), &recordLog{}
	openLogged(t, path, log).Close()
	wantSynced := func(s *checkpoint.Store, want ...bool) {
		t.Helper()
		expect, position := []byte("p"), []byte("p")
		for i, synced := range want {
			require.NoError(t, s.Commit(t.Context(), checkpoint.Commit{Source: source, Expect: expect, Position: position}))
			assert.Equal(t, s.Synced(), synced, "commit", i+1, "is synced")
		}
	}
	s := open(t, path, checkpoint.Options{Log: log})
	wantSynced(s, true, true, false, false)
	require.NoError(t, s.Close())
	assert.True(t, s.Synced(), "a file that is closed is not synced")
	r := openReplica(t, path)
	for i, synced := range []bool{true, true, false, false} {
		require.NoError(t, r.Apply([][]byte{nil}, checkpoint.Point{Offset: r.At().Offset + 1}))
		assert.Equal(t, r.Synced(), synced, "call", i+1, "of Apply is synced")
	}
	err := r.Close()
	assert.True(t, err == nil && r.Synced(), "a replica that is closed is not synced", err)
	alone := open(t, statePath(t), checkpoint.Options{})
	fill(t, alone)
	wantSynced(alone, true, true, true, true)
}
