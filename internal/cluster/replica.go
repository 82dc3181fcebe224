package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
)

// follower applies the log to a copy. *replicated.Follower implements it.
type follower interface {
	Run(ctx context.Context) error
	Status() replicated.FollowerStatus
	CatchUp(ctx context.Context, until uint64) error
}

// replica is this member's copy of the state, which follows the log.
type replica struct {
	follower
	Storage  // of the log
	identity replicated.Identity
	file     Replica
	fresh    bool          // the file was empty, or restored from a snapshot, when it was opened
	patience time.Duration // how long it waits once the owner's lease is over

	stop context.CancelFunc
	done chan struct{}
	err  error // of the follower, once done is closed
}

// openReplica opens the copy, and has it follow the log until the replica is closed. A copy that is
// new, damaged, or of an earlier generation is restored from a snapshot first, until ctx is done.
// The error is replicated.ErrLogLost if the servers lost data that the copy has, and replicated.ErrNoKey if
// they have no cluster; then no file is created, because Init requires that there is none.
func (n *Node) openReplica(ctx context.Context) (*replica, error) {
	bounded, cancel := context.WithTimeout(ctx, n.o.Term)
	defer cancel()
	used, _, noSettings := getSettings(bounded, n.o.Registry, n.o.Name)
	if errors.Is(noSettings, replicated.ErrNoKey) && !n.o.files.exists(n.o.Path) {
		return nil, noSettings
	}
	file, err := n.openFile()
	if err != nil {
		return nil, err
	}
	r := &replica{file: file, done: make(chan struct{})}
	if err = noSettings; err == nil {
		r.identity = used.identity()
		r.Storage, err = n.o.Storage(bounded, used.Generation, false)
	}
	if err == nil || errors.Is(err, replicated.ErrNoKey) {
		err = cmp.Or(n.compare(file, r.identity), err)
	}
	if err == nil {
		err = n.renew(bounded, r)
	}
	if err != nil {
		return nil, errors.Join(err, r.file.Close())
	}
	if r.fresh = r.file.At().Offset == 0; r.fresh {
		if err := n.restore(ctx, r); err != nil {
			return nil, err
		}
	}
	r.patience = rand.N(n.o.Term / 4)
	r.follower = n.o.follow(r.Stream, r.file, replicated.FollowerOptions{
		Clock: n.o.Clock, Identity: r.identity, Snapshots: r.Snapshots, Snapshot: n.snapshotterOptions(rand.Float64() / 2),
	})
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	go func() {
		defer close(r.done)
		r.err = r.Run(following)
	}()
	return r, nil
}

// openFile opens the file of the copy. A damaged one is removed.
func (n *Node) openFile() (Replica, error) {
	file, err := n.o.OpenReplica(n.o.Path)
	if errors.Is(err, checkpoint.ErrDamaged) {
		n.o.Log.Warn("the copy of the state is damaged and is restored from the log", "file", n.o.Path, "error", err)
		if err := n.o.files.remove(n.o.Path); err != nil {
			return nil, err
		}
		file, err = n.o.OpenReplica(n.o.Path)
	}
	if err == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.kept = file.At()
	}
	return file, err
}

// renew replaces the file of r by an empty one if it belongs to an earlier generation, or needs a
// snapshot that is there now. It returns the problem that the member has while the snapshot is
// not there.
func (n *Node) renew(ctx context.Context, r *replica) error {
	n.mu.Lock()
	needs, why := n.problem.needs, n.problem.err
	n.mu.Unlock()
	at := r.file.At()
	discard := func() error { return n.setAside(at) }
	switch generation := replicated.IdentityOf(at).Generation; {
	case generation != 0 && generation < r.identity.Generation:
	case needs == 0:
		return nil
	default:
		switch p, _, err := r.Snapshots.Pointer(ctx); {
		case err != nil:
			return err
		case p.Last.Offset < needs:
			return why
		}
		discard = func() error { return n.o.files.remove(n.o.Path) }
	}
	n.mu.Lock()
	n.problem.needs = 0
	n.mu.Unlock()
	file, err := r.file, errors.Join(r.file.Close(), discard())
	if err == nil {
		file, err = n.openFile()
	}
	if err == nil {
		r.file = file
	}
	return err
}

// compare returns replicated.ErrLogLost if a copy shows that the servers lost data: they have the
// generation of another cluster, an earlier one, or none.
func (n *Node) compare(file Replica, used replicated.Identity) error {
	has := replicated.IdentityOf(file.At())
	switch {
	case has == replicated.Identity{}, has.Cluster == used.Cluster && has.Generation <= used.Generation:
		return nil
	case used == replicated.Identity{}:
		return fmt.Errorf("%w: NATS has no cluster %q, of which %s is a copy", replicated.ErrLogLost, n.o.Name, n.o.Path)
	case has.Cluster != used.Cluster:
		return fmt.Errorf("%w: %s is a copy of the cluster %q, and NATS has another one, %q; remove the copy if it is not needed", replicated.ErrLogLost, n.o.Path, has.Cluster, used.Cluster)
	}
	return fmt.Errorf("%w: %s is a copy of generation %d, and NATS has generation %d", replicated.ErrLogLost, n.o.Path, has.Generation, used.Generation)
}

// restore fills the empty file of r from a snapshot, if there is one. It closes the file if it
// fails.
func (n *Node) restore(ctx context.Context, r *replica) error {
	began := n.o.Clock.Now()
	used := false
	snapshot, err := replicated.Restore(ctx, r.Snapshots, r.identity, func() (replicated.Replica, error) {
		if !used {
			used = true
			return r.file, nil
		}
		var err error
		if err = errors.Join(r.file.Close(), n.o.files.remove(n.o.Path)); err == nil {
			r.file, err = n.o.OpenReplica(n.o.Path)
		}
		return r.file, err
	})
	switch {
	case errors.Is(err, replicated.ErrNoSnapshot):
		return nil
	case err == nil:
		n.o.Log.Info("the copy of the state was restored from a snapshot", "offset", snapshot.Offset, "bytes", snapshot.Bytes, "took", n.o.Clock.Now()-began)
		return nil
	}
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	return errors.Join(err, n.o.files.remove(n.o.Path))
}

// snapshotterOptions are those of a standby, which is so patient that rarely two make a snapshot at
// once, or of the owner, which is more patient than any standby.
func (n *Node) snapshotterOptions(patience float64) replicated.SnapshotterOptions {
	o := n.o.snapshots
	o.Patience = patience
	o.Made = func(snapshot replicated.Snapshot, took time.Duration, err error) {
		if err != nil {
			n.o.Log.Warn("a snapshot of the state failed; retrying", "error", err)
			return
		}
		n.o.Log.Info("a snapshot of the state was made", "offset", snapshot.Offset, "bytes", snapshot.Bytes, "took", took)
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
