package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/checkpoint"
)

// logBackend opens states that are copies of logs. Every state that is opened again, and
// every state that a crash leaves, is made from its log alone. Whenever a test reads the
// Stats, a replica that follows the log must hold the same as the store.
type logBackend struct {
	crashes atomic.Int64

	mu   sync.Mutex
	logs map[string]*recordLog // by path
}

func newLogBackend() *logBackend { return &logBackend{logs: map[string]*recordLog{}} }

// log returns the log of a path, which is made when it is first asked for.
func (b *logBackend) log(path string) (log *recordLog, isNew bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	log, known := b.logs[path]
	if !known {
		log = &recordLog{}
		b.logs[path] = log
	}
	return log, !known
}

func (b *logBackend) open(path string, o checkpoint.Options) (*checkpoint.Store, error) {
	log, isNew := b.log(path)
	owned := log.take()
	_, err := os.Stat(path)
	exists := !errors.Is(err, fs.ErrNotExist)
	if exists && isNew {
		if err := adopt(path, owned); err != nil {
			return nil, err
		}
	}
	made := path + ".made"
	if err := log.restore(made); err != nil {
		return nil, err
	}
	if exists && !isNew {
		if err := log.compareClosed(path, made); err != nil {
			return nil, err
		}
	}
	if err := os.Rename(made, path); err != nil {
		return nil, err
	}
	o.Log = owned
	return checkpoint.Open(path, o)
}

// crash makes a state from the log.
func (b *logBackend) crash(path string) (string, error) {
	crashed := filepath.Join(filepath.Dir(path), fmt.Sprintf("crash%d", b.crashes.Add(1)))
	log, _ := b.log(path)
	return crashed, log.restore(crashed)
}

// take returns the log for a new owner. What earlier owners append is refused from then on.
func (l *recordLog) take() checkpoint.Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner++
	owner := l.owner
	return logFunc(func(record []byte) (at checkpoint.Point, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.owner != owner {
			return at, checkpoint.ErrNotOwner
		}
		l.records = append(l.records, bytes.Clone(record))
		return checkpoint.Point{Offset: uint64(len(l.records))}, nil
	})
}

// apply applies all that the log holds behind the replica's offset.
func (l *recordLog) apply(r *checkpoint.Replica) error {
	for _, record := range l.after(r.At().Offset) {
		if err := r.Apply([][]byte{record}, checkpoint.Point{Offset: r.At().Offset + 1}); err != nil {
			return err
		}
	}
	return nil
}

// restore makes the file at a path from the log alone.
func (l *recordLog) restore(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r, err := checkpoint.OpenReplica(path, 0)
	if err != nil {
		return err
	}
	return errors.Join(l.apply(r), r.Close())
}

// adopt makes an existing state the beginning of an empty log.
func adopt(path string, log checkpoint.Log) error {
	s, err := checkpoint.Open(path, checkpoint.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	_, err = s.Dump(context.Background(), 8<<10, func(record []byte) error {
		_, err := log.Append(record)
		return err
	})
	return errors.Join(err, s.Close())
}

// compareClosed checks that the file of a store that was closed continues from where it is,
// and then holds the same as the one that was made from the log alone.
func (l *recordLog) compareClosed(path, made string) error {
	closed, err := checkpoint.OpenReplica(path, 0)
	if err != nil {
		return err
	}
	defer closed.Close()
	if err := l.apply(closed); err != nil {
		return err
	}
	other, err := checkpoint.OpenReplica(made, 0)
	if err != nil {
		return err
	}
	defer other.Close()
	if equal, err := sameState(closed, other); err != nil || !equal {
		return errors.Join(err, fmt.Errorf("the file of a closed store differs from its log: %t", !equal))
	}
	return nil
}

// follower compares the state of a store with that of a replica of its log.
type follower struct {
	log  *recordLog
	path string

	mu      sync.Mutex
	replica *checkpoint.Replica // nil until it is needed
	equalAt uint64              // offset of the replica when it was last compared
}

// compare returns an error if the replica does not get to the state of the store.
func (f *follower) compare(s *checkpoint.Store) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.replica == nil {
		err := f.log.restore(f.path)
		if err == nil {
			f.replica, err = checkpoint.OpenReplica(f.path, 0)
		}
		if err != nil {
			return err
		}
	}
	// The store may be writing, and has a record in its log before it is in its file.
	for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(time.Millisecond) {
		if err := f.log.apply(f.replica); err != nil {
			return err
		}
		if f.replica.At().Offset == f.equalAt {
			return nil
		}
		equal, err := sameState(s, f.replica)
		if equal {
			f.equalAt = f.replica.At().Offset
		}
		if equal || err != nil {
			return err
		}
	}
	return errors.New("a replica that follows the log differs from the store")
}

func (f *follower) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.replica == nil {
		return nil
	}
	return f.replica.Close()
}

// sameState reports whether two states are the same.
func sameState(a, b dumper) (bool, error) {
	ofA, errA := dumpOf(a)
	ofB, errB := dumpOf(b)
	return errA == nil && errB == nil && bytes.Equal(ofA, ofB), errors.Join(errA, errB)
}

func TestStoreWithALog(t *testing.T) {
	t.Parallel()
	b := newLogBackend()
	backend{open: b.open, crash: b.crash, follow: func(path string) *follower {
		log, _ := b.log(path)
		return &follower{log: log, path: path + ".follower"}
	}}.run(t)
}
