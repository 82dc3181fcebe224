package checkpointtest

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
	"time"

	"ndrbridge/checkpoint"
)

// logs are replicated logs by name.
type logs interface {
	// Take returns a log for a new owner; a log that is not there is empty. What earlier owners
	// append is refused from then on.
	Take(name string) (checkpoint.Log, error)
	// Follow applies to a replica all that a log holds behind the replica's offset.
	Follow(name string, r *checkpoint.Replica) error
}

// Replicated returns a backend whose states are copies of logs. Every state that is opened
// again, and every state that a crash leaves, is made from its log alone. Whenever a test
// reads the Stats, a replica that follows the log must hold what the store holds.
func Replicated(logs logs) Backend {
	b := &replicated{logs: logs, names: map[string]bool{}}
	return Backend{Open: b.open, Crash: b.crash}
}

type replicated struct {
	logs    logs
	crashes atomic.Int64

	mu    sync.Mutex
	names map[string]bool // of logs
}

// isNew reports whether a path has no log yet, and notes that it has one.
func (b *replicated) isNew(path string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.names[path]
	b.names[path] = true
	return !known
}

func (b *replicated) open(path string, o checkpoint.Options) (Store, error) {
	isNew := b.isNew(path)
	log, err := b.logs.Take(path)
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(path)
	exists := !errors.Is(err, fs.ErrNotExist)
	if exists && isNew {
		if err := adopt(path, log); err != nil {
			return nil, err
		}
	}
	made := path + ".made"
	if err := b.restore(path, made); err != nil {
		return nil, err
	}
	if exists && !isNew {
		if err := b.compareClosed(path, made); err != nil {
			return nil, err
		}
	}
	if err := os.Rename(made, path); err != nil {
		return nil, err
	}
	o.Log = log
	s, err := checkpoint.Open(path, o)
	if err != nil {
		return nil, err
	}
	return &replicatedStore{Store: s, backend: b, path: path}, nil
}

// crash leaves what the log holds.
func (b *replicated) crash(path string) (string, error) {
	crashed := filepath.Join(filepath.Dir(path), fmt.Sprintf("crash%d", b.crashes.Add(1)))
	return crashed, b.restore(path, crashed)
}

// restore makes the file at a path from a log alone.
func (b *replicated) restore(name, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r, err := checkpoint.OpenReplica(path, checkpoint.ReplicaOptions{})
	if err != nil {
		return err
	}
	return errors.Join(b.logs.Follow(name, r), r.Close())
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
// and then holds what the one that was made from the log alone does.
func (b *replicated) compareClosed(path, made string) error {
	closed, err := checkpoint.OpenReplica(path, checkpoint.ReplicaOptions{})
	if err != nil {
		return err
	}
	defer closed.Close()
	if err := b.logs.Follow(path, closed); err != nil {
		return err
	}
	other, err := checkpoint.OpenReplica(made, checkpoint.ReplicaOptions{})
	if err != nil {
		return err
	}
	defer other.Close()
	if equal, err := sameState(closed, other); err != nil || !equal {
		return errors.Join(err, fmt.Errorf("the file of a closed store differs from its log: %t", !equal))
	}
	return nil
}

// replicatedStore compares its state with that of a replica.
type replicatedStore struct {
	*checkpoint.Store
	backend *replicated
	path    string

	mu      sync.Mutex
	replica *checkpoint.Replica // nil until it is needed
	equalAt uint64              // offset of the replica when it was last compared
}

// Stats returns an error if the replica does not get to the state of the store.
func (s *replicatedStore) Stats(ctx context.Context) (checkpoint.Stats, error) {
	stats, err := s.Store.Stats(ctx)
	if err == nil {
		err = s.compare()
	}
	return stats, err
}

func (s *replicatedStore) compare() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replica == nil {
		var err error
		if err = s.backend.restore(s.path, s.path+".follower"); err == nil {
			s.replica, err = checkpoint.OpenReplica(s.path+".follower", checkpoint.ReplicaOptions{})
		}
		if err != nil {
			return err
		}
	}
	// The store may be writing, and has a record in its log before it is in its file.
	for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(time.Millisecond) {
		if err := s.backend.logs.Follow(s.path, s.replica); err != nil {
			return err
		}
		if s.replica.Offset() == s.equalAt {
			return nil
		}
		equal, err := sameState(s.Store, s.replica)
		if equal {
			s.equalAt = s.replica.Offset()
		}
		if equal || err != nil {
			return err
		}
	}
	return errors.New("a replica that follows the log differs from the store")
}

func (s *replicatedStore) Close() error {
	err := s.Store.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replica != nil {
		err = errors.Join(err, s.replica.Close())
	}
	return err
}

// dumper is a store or a replica.
type dumper interface {
	Dump(ctx context.Context, pieceBytes int, yield func(record []byte) error) (at checkpoint.Point, err error)
}

// sameState reports whether two states are the same.
func sameState(a, b dumper) (bool, error) {
	var dumps [2][]byte
	for i, d := range []dumper{a, b} {
		_, err := d.Dump(context.Background(), 1<<20, func(record []byte) error {
			dumps[i] = append(dumps[i], record...)
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	return bytes.Equal(dumps[0], dumps[1]), nil
}
