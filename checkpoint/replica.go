package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
)

// Replica is a state that follows a log that another process writes. Its file is not synced
// with each record: what a crash of the machine loses is applied again, and a file that it
// left torn is found out by OpenReplica.
//
// Apply and Close are called by one goroutine; the other methods are safe for concurrent
// use, also beside Apply.
type Replica struct {
	*database
	at     atomic.Pointer[Point]
	closed bool
}

// OpenReplica opens the replica at path, or creates an empty one if there is no file. It
// also opens the file of a Store with a Log that was closed, or whose process ended: that
// is never ahead of the log. It is quick as Open is, and waits so long for another process.
//
// OpenReplica returns ErrDamaged if the file cannot be read, or was not restored completely
// (see Apply): delete it and restore it. It returns ErrNewer and ErrLocked as Open does, and
// another error if the file is the state of a single process.
func OpenReplica(path string, wait time.Duration) (*Replica, error) {
	db, err := openFile(path, Options{}, wait, true, createReplica)
	if err != nil {
		return nil, fmt.Errorf("open the replica: %w", err)
	}
	r := &Replica{database: db}
	err = r.view(context.Background(), func(tx *bolt.Tx) error {
		at := appliedAt(tx)
		r.at.Store(&at)
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the replica: %w", err), r.db.Close())
	}
	return r, nil
}

// createReplica creates an empty copy of a log.
func createReplica(tx *bolt.Tx) error {
	if err := createLayout(tx); err != nil {
		return err
	}
	return putApplied(tx, Point{})
}

// At returns the point of the log up to which it was applied; zero: nothing was.
func (r *Replica) At() Point { return *r.at.Load() }

// Apply makes the changes of consecutive records, up to a point, in one transaction. It
// skips empty records. records must not change until it returns.
//
// The records of a Dump are applied to an empty replica in one or several calls, in their
// order. All calls but the last have the zero Point, so that OpenReplica recognizes a replica
// that was not restored completely.
//
// If Apply returns an error, nothing was changed: ErrRecord if a record does not lead from
// the state that the replica has, or at is before that of the replica; ErrNewer if a
// newer version wrote one; ErrDamaged if the file has become unreadable.
func (r *Replica) Apply(records [][]byte, at Point) (err error) {
	defer func() { err = wrapf(err, "apply %d records up to %d", len(records), at.Offset) }()
	if was := r.At().Offset; at.Offset < was {
		return fmt.Errorf("%w: the replica is at %d already", ErrRecord, was)
	}
	r.beforeCommit()
	tx, err := r.begin(true)
	if err != nil {
		return r.judge(err)
	}
	err = boltfile.Write(tx, func(tx *bolt.Tx) error {
		if err := unmark(tx); err != nil {
			return err
		}
		changes := boltfile.NewTx(tx, scheme)
		for _, record := range records {
			if len(record) == 0 {
				continue
			}
			if err := changes.Apply(record); err != nil {
				return err
			}
		}
		if err := putApplied(tx, at); err != nil {
			return err
		}
		return changes.PutSum()
	})
	if err != nil {
		return r.judge(err)
	}
	r.commits++
	r.at.Store(&at)
	return nil
}

// Detach makes the copy of a log at path, which no process may have open, the state of a
// single process, durably. It returns ErrLocked and ErrNewer as Open does, ErrDamaged if the
// copy cannot be read or was not restored completely, and another error if the file is no
// copy: it is then left unchanged.
func Detach(path string) (err error) {
	defer func() { err = wrapf(err, "make the copy of a log the state of a single process") }()
	found, err := checkFile(path, boltfile.Options().Timeout, false)
	switch {
	case err != nil:
		return err
	case !found.copied:
		return fmt.Errorf("%s is the state of a single process already", path)
	case found.incomplete:
		return damaged(path, errIncomplete)
	}
	db, _, err := openBolt(path, boltfile.Options())
	if err != nil {
		return err
	}
	err = boltfile.Update(db, func(tx *bolt.Tx) error {
		meta := tx.Bucket(boltfile.MetaBucket)
		return errors.Join(unmark(tx), meta.Delete(appliedKey), meta.Delete(trailKey))
	})
	return errors.Join(err, db.Close())
}

// Close closes the replica. It leaves a file that Open, with a Log, and OpenReplica open at
// once, and makes it durable. It returns an error if the file is no longer at its path: it
// must not be opened as a Store then. It waits until Dump has read the state. Close may be
// called more than once.
func (r *Replica) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	if r.stuck.Load() { // the system releases the file when the process ends
		return fmt.Errorf("close the replica: %s: %w", r.path, boltfile.ErrStuck)
	}
	var err error
	if how := r.gone(); how != "" {
		err = fmt.Errorf("%s: %w: %s", r.path, ErrLost, how)
	} else {
		err = r.judge(r.markClosed(Point{}))
	}
	return wrapf(errors.Join(err, r.db.Close()), "close the replica")
}
