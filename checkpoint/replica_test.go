package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestTheFileOfAKilledOwnerContinuesAsAReplica(t *testing.T) {
	path, log := statePath(t), &recordLog{}
	s := openLogged(t, path, log)
	killed := require.Value(copyOpenFile(path))(t)
	require.NoError(t, s.Commit(t.Context(), more(t)))
	r := openReplica(t, killed)
	if offset := r.At().Offset; offset != uint64(len(log.after(0)))-1 {
		t.Errorf("the file is at offset %d of %d", offset, len(log.after(0)))
	}
	log.follow(t, r)
	assert.True(t, bytes.Equal(dumped(t, r), dumped(t, s)), "the replica differs from the owner")
	require.NoError(t, r.Close())
	next := open(t, killed, checkpoint.Options{Log: log})
	c := more(t)
	c.Expect = c.Position
	require.NoError(t, next.Commit(t.Context(), c))
	assert.True(t, bytes.Equal(dumped(t, next), log.made(t)), "the new owner differs from the log")
}

func TestRecordsThatDoNotLeadFromTheReplica(t *testing.T) {
	log := &recordLog{}
	s := openLogged(t, statePath(t), log)
	require.NoError(t, s.Commit(t.Context(), more(t)))
	records := log.after(0)
	n := len(records)
	newer := func(at int) []byte {
		record := bytes.Clone(records[n-1])
		record[at]++
		return record
	}
	for _, c := range []struct {
		name    string
		records [][]byte
		offset  uint64
		want    error
	}{
		{"a record is missing", records[n-1:], uint64(n), checkpoint.ErrRecord},
		{"an old record comes again", [][]byte{records[n-2], records[2]}, uint64(n), checkpoint.ErrRecord},
		{"a record was cut short", [][]byte{records[n-2], records[n-1][:len(records[n-1])-1]}, uint64(n), checkpoint.ErrRecord},
		{"a record cannot be read", [][]byte{[]byte("x")}, uint64(n), checkpoint.ErrRecord},
		{"the offset is before that of the replica", nil, uint64(n - 3), checkpoint.ErrRecord},
		{"a record has a newer format", [][]byte{records[n-2], newer(0)}, uint64(n), checkpoint.ErrNewer},
		{"a record changes a newer layout", [][]byte{records[n-2], newer(1)}, uint64(n), checkpoint.ErrNewer},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := openReplica(t, statePath(t))
			require.NoError(t, r.Apply(records[:n-2], checkpoint.Point{Offset: uint64(n - 2)}))
			before := dumped(t, r)
			assert.ErrorIs(t, r.Apply(c.records, checkpoint.Point{Offset: c.offset}), c.want)
			if r.At().Offset != uint64(n-2) || !bytes.Equal(dumped(t, r), before) {
				t.Errorf("the replica was changed; it is at %d", r.At().Offset)
			}
			log.follow(t, r)
			assert.True(t, bytes.Equal(dumped(t, r), dumped(t, s)), "the replica did not continue")
		})
	}
}

func TestRecordsOfAnOlderLayoutAreApplied(t *testing.T) {
	log := &recordLog{}
	s := openLogged(t, statePath(t), log)
	r := openReplica(t, statePath(t))
	for i, record := range log.after(0) {
		record[1] = 3
		require.NoError(t, r.Apply([][]byte{record}, checkpoint.Point{Offset: uint64(i + 1)}))
	}
	assert.True(t, bytes.Equal(dumped(t, r), dumped(t, s)), "the replica differs from the owner")
}

func TestFilesOfAllLayoutsAreDumped(t *testing.T) {
	for layout := 1; layout <= 4; layout++ {
		t.Run(fmt.Sprint(layout), func(t *testing.T) {
			path := statePath(t)
			require.NoError(t, os.WriteFile(path, image(t, layout), 0o600))
			old := open(t, path, checkpoint.Options{ReadOnly: true})
			log, restored := &recordLog{}, path+".restored"
			at, err := old.Dump(t.Context(), 4000, func(record []byte) error {
				_, err := log.Append(record)
				return err
			})
			if err != nil || at.Offset != 0 || len(log.after(0)) < 10 {
				t.Fatalf("%d records, offset %d, %v", len(log.after(0)), at.Offset, err)
			}
			r := openReplica(t, restored)
			log.follow(t, r)
			require.NoError(t, r.Close())
			s := open(t, restored, checkpoint.Options{Log: log})
			wantFilled(t, s)
			if layout > 1 {
				wantQueued(t, s)
			}
		})
	}
}

func TestAReplicaThatWasNotRestoredCompletelyIsDamaged(t *testing.T) {
	log := &recordLog{}
	s := openLogged(t, statePath(t), log)
	path := statePath(t)
	r := openReplica(t, path)
	pieces := 0
	_, err := s.Dump(t.Context(), 4000, func(record []byte) error {
		pieces++
		return r.Apply([][]byte{record}, checkpoint.Point{})
	})
	err = errors.Join(err, r.Close())
	require.True(t, err == nil && pieces >= 10, pieces, "pieces", err)
	_, err = checkpoint.OpenReplica(path, 0)
	assert.True(t, errors.Is(err, checkpoint.ErrDamaged) && strings.Contains(err.Error(), "Delete it"), err, "want ErrDamaged")
	_, err = checkpoint.Open(path, checkpoint.Options{Log: log})
	assert.ErrorIs(t, err, checkpoint.ErrDamaged)
	assert.ErrorIs(t, checkpoint.Detach(path), checkpoint.ErrDamaged, "detached")
	_, err = open(t, path, checkpoint.Options{ReadOnly: true}).Dump(t.Context(), 1, nil)
	assert.ErrorIs(t, err, checkpoint.ErrDamaged, "a dump of it")
}

func TestAFileIsACopyOfALogOrNot(t *testing.T) {
	copied, alone := statePath(t), statePath(t)
	log := &recordLog{}
	openLogged(t, copied, log).Close()
	s := open(t, alone, checkpoint.Options{})
	fill(t, s)
	s.Close()
	for name, open := range map[string]func() error{
		"a copy without its log": func() error {
			_, err := checkpoint.Open(copied, checkpoint.Options{})
			return err
		},
		"a state of its own with a log": func() error {
			_, err := checkpoint.Open(alone, checkpoint.Options{Log: &recordLog{}})
			return err
		},
		"a state of its own as a replica": func() error {
			_, err := checkpoint.OpenReplica(alone, 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := open()
			assert.True(t, err != nil && !errors.Is(err, checkpoint.ErrDamaged) && strings.Contains(err.Error(), "cluster"), err, "want an error that names the cluster")
		})
	}
	for path, want := range map[string]uint64{copied: uint64(len(log.after(0))), alone: 0} {
		s := open(t, path, checkpoint.Options{ReadOnly: true})
		wantFilled(t, s)
		assert.Equal(t, require.Value(s.Dump(t.Context(), 1<<20, func([]byte) error { return nil }))(t).Offset, want, "dumped up to")
		s.Close()
	}
	open(t, alone, checkpoint.Options{})
}

// A backup of an owner, and the closed copy of a standby, become the state of a single process.
func TestDetach(t *testing.T) {
	path, log, backup := statePath(t), &recordLog{}, statePath(t)
	s := openLogged(t, path, log)
	require.NoError(t, s.Commit(t.Context(), more(t)))
	file, err := os.Create(backup)
	require.NoError(t, err)
	_, err = s.Backup(t.Context(), file)
	require.NoError(t, errors.Join(err, file.Close()))
	want := dumped(t, s)
	assert.ErrorIs(t, checkpoint.Detach(path), checkpoint.ErrLocked, "a state that is open")
	require.NoError(t, s.Close())
	for name, copied := range map[string]string{"a backup": backup, "a copy that was closed": path} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, checkpoint.Detach(copied))
			err := checkpoint.Detach(copied)
			assert.True(t, err != nil && !errors.Is(err, checkpoint.ErrDamaged), "the state of a single process was detached", err)
			_, err = checkpoint.OpenReplica(copied, 0)
			assert.True(t, err != nil && !errors.Is(err, checkpoint.ErrDamaged), "it still is a copy", err)
			single := open(t, copied, checkpoint.Options{})
			at, err := single.Dump(t.Context(), 1<<20, func([]byte) error { return nil })
			assert.True(t, err == nil && at == (checkpoint.Point{}), "it is at", at, "of a log", err)
			assert.True(t, bytes.Equal(dumped(t, single), want), "its contents changed")
			c := more(t)
			c.Expect = c.Position
			require.NoError(t, single.Commit(t.Context(), c))
		})
	}
}

func TestAReplicaWhoseFileIsGoneDoesNotCloseCleanly(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"it was removed":  os.Remove,
		"it was replaced": func(path string) error { return os.WriteFile(path+".new", nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			path := statePath(t)
			r := openReplica(t, path)
			require.NoError(t, change(path))
			if _, err := os.Stat(path + ".new"); err == nil {
				require.NoError(t, os.Rename(path+".new", path))
			}
			assert.Error(t, r.Close(), "no error")
		})
	}
}

func TestAReplicaIsDumpedWhileItFollows(t *testing.T) {
	log := &recordLog{}
	s := openLogged(t, statePath(t), log)
	r := openReplica(t, statePath(t))
	log.follow(t, r)
	first := dumped(t, r)
	yielding, applied := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		var once sync.Once
		var all []byte
		at, err := r.Dump(t.Context(), 1<<20, func(record []byte) error {
			all = append(all, record...)
			once.Do(func() { close(yielding) })
			<-applied
			return nil
		})
		assert.True(t, err == nil && at.Offset == uint64(len(log.after(0)))-1 && bytes.Equal(all, first), "offset", at.Offset, err, "or another state")
	})
	<-yielding
	assert.NoError(t, s.Commit(t.Context(), more(t)))
	log.follow(t, r)
	close(applied)
	wait.Wait()
	assert.True(t, bytes.Equal(dumped(t, r), dumped(t, s)), "the replica differs from the owner")
	assert.NoError(t, errors.Join(r.Close(), r.Close()))
	_, err := r.Dump(t.Context(), 1, nil)
	if applied := r.Apply(nil, r.At()); !errors.Is(err, checkpoint.ErrClosed) || !errors.Is(applied, checkpoint.ErrClosed) {
		t.Errorf("%v, %v, want ErrClosed", err, applied)
	}
}

// TestAFileTornByAPowerFailureIsNeverTrusted mixes pages of the file as it was when it was
// synced with any that were written later, as a power failure may leave it.
func TestAFileTornByAPowerFailureIsNeverTrusted(t *testing.T) {
	t.Parallel()
	const pageSize = 16 << 10
	path, log := statePath(t), &recordLog{}
	s := openLogged(t, path, log)
	position := []byte("p")
	commit := func(n int) {
		t.Helper()
		c := checkpoint.Commit{Source: source, Expect: position, Position: fmt.Append(nil, n)}
		for i := range 20 {
			c.Events = append(c.Events, newEvent(t, fmt.Sprint(n, i), time.Unix(300, 0), 1500))
			c.Remember = append(c.Remember, checkpoint.Entry{Key: fmt.Sprint(n*7%50, i), Value: []byte("value"), At: int64(n)})
		}
		require.NoError(t, s.Commit(t.Context(), c))
		position = c.Position
	}
	commit(1)
	require.NoError(t, s.Close())
	s = open(t, path, checkpoint.Options{Log: log})
	states := map[uint64][]byte{} // by offset
	var images [][]byte
	for n := 2; n < 12; n++ {
		commit(n)
		content := require.Value(os.ReadFile(path))(t)
		if n >= 3 { // the first two are synced
			images = append(images, content)
			states[uint64(len(log.after(0)))] = dumped(t, s)
		}
	}
	torn := 0
	mixed := path + ".mixed"
	rapid.Check(t, func(t *rapid.T) {
		image := bytes.Clone(images[0])
		late := images[rapid.IntRange(1, len(images)-1).Draw(t, "the power fails after")]
		image = append(image, make([]byte, max(0, len(late)-len(image)))...)
		for at := 0; at < len(late); at += pageSize {
			from := images[rapid.IntRange(0, len(images)-1).Draw(t, "page")]
			if end := at + pageSize; end <= len(from) && end <= len(late) {
				copy(image[at:end], from[at:end])
			}
		}
		require.NoError(t, os.WriteFile(mixed, image, 0o600))
		r, err := checkpoint.OpenReplica(mixed, 0)
		if errors.Is(err, checkpoint.ErrDamaged) {
			torn++
			return
		}
		require.NoError(t, err)
		defer r.Close()
		var all []byte
		at, err := r.Dump(t.Context(), 1<<20, func(record []byte) error {
			all = append(all, record...)
			return nil
		})
		require.NoError(t, err, "offset", at.Offset)
		require.True(t, bytes.Equal(all, states[at.Offset]), "offset", at.Offset)
	})
	assert.True(t, torn != 0, "no mixture was torn")
}
