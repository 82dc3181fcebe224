package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	fresh  bool         // the file was empty, or restored from a snapshot, when it was opened
	begin  uint64       // its offset when it was opened
	remove func() error // of the file, once it is closed

	stop context.CancelFunc
	done chan struct{}
	err  error // of the follower, once done is closed
}

// errForeign is returned for a file of another cluster with the same name.
var errForeign = errors.New("the shard's file is not of this cluster; remove it if it is not needed")

// openReplica opens the file of a shard, and has it follow the log until the replica is
// closed. A file that is new or damaged is restored from a snapshot first, until ctx is done.
func openReplica(ctx context.Context, s *shard) (*replica, error) {
	path := s.o.Path(s.number)
	file, err := s.o.OpenReplica(path)
	if errors.Is(err, checkpoint.ErrDamaged) {
		s.log.Warn("the shard's file is damaged and is restored from the log", "file", path, "error", err)
		if err := s.o.files.remove(path); err != nil {
			return nil, err
		}
		file, err = s.o.OpenReplica(path)
	}
	if err == nil {
		if id := replicated.ClusterOf(file.At()); id != "" && id != s.members.cluster {
			return nil, errors.Join(fmt.Errorf("%w: it belongs to the cluster %q, and NATS has another one, %q", errForeign, id, s.members.cluster), file.Close())
		}
	}
	fresh := err == nil && file.At().Offset == 0
	if fresh {
		file, err = restore(ctx, s, path, file)
	}
	if err != nil {
		return nil, err
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &replica{
		follower: s.o.follow(s.storage.Stream, file, replicated.FollowerOptions{
			Clock: s.o.Clock, PollEvery: s.o.Term / 4,
			Snapshots: s.storage.Snapshots, Snapshot: s.snapshotterOptions(false),
		}),
		file: file, fresh: fresh, begin: file.At().Offset, remove: func() error { return s.o.files.remove(path) }, stop: stop, done: make(chan struct{}),
	}
	go func() {
		defer close(r.done)
		r.err = r.Run(following)
	}()
	return r, nil
}

// restore fills an empty file from a snapshot, if there is one. It closes the file if it
// fails.
func restore(ctx context.Context, s *shard, path string, file Replica) (Replica, error) {
	began := s.o.Clock.Now()
	used := false
	snapshot, err := replicated.Restore(ctx, s.storage.Stream, s.storage.Snapshots, func() (replicated.Replica, error) {
		if !used {
			used = true
			return file, nil
		}
		var err error
		if err = errors.Join(file.Close(), s.o.files.remove(path)); err == nil {
			file, err = s.o.OpenReplica(path)
		}
		return file, err
	})
	switch {
	case errors.Is(err, replicated.ErrNoSnapshot):
		return file, nil
	case err == nil:
		s.log.Info("the shard's file was restored from a snapshot", "offset", snapshot.Offset, "bytes", snapshot.Bytes, "took", s.o.Clock.Now()-began)
		return file, nil
	}
	if file != nil {
		err = errors.Join(err, file.Close())
	}
	return nil, errors.Join(err, s.o.files.remove(path))
}

// snapshotterOptions are those of a follower, or of the owner, which makes snapshots only if
// no follower does.
func (s *shard) snapshotterOptions(owner bool) replicated.SnapshotterOptions {
	o := s.o.snapshots
	o.Reluctant, o.Wall = owner, s.o.Clock.Wall
	o.Made = func(snapshot replicated.Snapshot, took time.Duration, err error) {
		if err != nil {
			s.log.Warn("a snapshot of the shard failed; retrying", "error", err)
			return
		}
		s.log.Info("a snapshot of the shard was made", "offset", snapshot.Offset, "bytes", snapshot.Bytes, "took", took)
	}
	return o
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
