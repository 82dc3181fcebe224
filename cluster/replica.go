package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
)

// follower applies the log of a shard to its file. *replicated.Follower implements it.
type follower interface {
	Run(ctx context.Context) error
	Status() replicated.FollowerStatus
	CatchUp(ctx context.Context, until uint64) error
}

// replica is the file of a shard, which follows the shard's log.
type replica struct {
	follower
	file   Replica
	remove func() error // of the file, once it is closed

	stop context.CancelFunc
	done chan struct{}
	err  error // of the follower, once done is closed
}

// openReplica opens the file of a shard, which is restored if it is damaged, and has it
// follow the log until the replica is closed.
func openReplica(s *shard) (*replica, error) {
	path := s.o.Path(s.number)
	file, err := s.o.OpenReplica(path)
	if errors.Is(err, checkpoint.ErrDamaged) {
		s.log.Warn("the shard's file is damaged and is restored from the log", "file", path, "error", err)
		if err := s.o.remove(path); err != nil {
			return nil, err
		}
		file, err = s.o.OpenReplica(path)
	}
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &replica{
		follower: s.o.follow(s.storage.Stream, file, replicated.FollowerOptions{Clock: s.o.Clock, PollEvery: s.o.Term / 4}),
		file:     file, remove: func() error { return s.o.remove(path) }, stop: stop, done: make(chan struct{}),
	}
	go func() {
		defer close(r.done)
		r.err = r.Run(ctx)
	}()
	return r, nil
}

// ended reports whether the replica follows no longer.
func (r *replica) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// close stops following and closes the file. It returns why the replica had stopped
// before, or that the file could not be closed.
func (r *replica) close() error {
	ended := r.ended()
	r.stop()
	<-r.done
	err := r.file.Close()
	if ended {
		err = errors.Join(r.err, err)
	}
	return err
}

// removeFile removes the file of a shard, which its log can restore.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a file that is to be restored: %w", err)
	}
	return nil
}
