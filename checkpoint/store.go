package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Options configures a Store.
type Options struct {
	Limits Limits
	// Now is the wall clock, by which Limits.Retain is measured; nil: time.Now.
	Now func() time.Time
	// Elapsed returns the time elapsed since a fixed moment, whatever Now is set to; nil: as
	// by Now.
	Elapsed func() time.Duration
	// ReadOnly opens an existing state without changing the file, whatever version wrote it.
	// Every method that writes fails. No other process may have the state open, except
	// read-only too; Open does not wait for it.
	ReadOnly bool
	// Quick, with ReadOnly, skips reading through a file that was not closed cleanly: damage
	// to it may be found later, or not at all.
	Quick bool
	// Log is the log of which the state is a copy; nil: the file itself is durable. With a
	// Log, a Replica must have made the file from the log. It is not synced, so that a crash of
	// the machine may leave it damaged.
	Log Log
	// Renew is the longest time without a record of Log: then the store appends an empty one.
	// 0: it appends none.
	Renew time.Duration
}

// Store keeps the state in one bbolt file. Its methods are safe for concurrent use.
//
// Sources commit events with their positions (Commit); sinks read the journal after their
// cursors and commit deliveries (CommitDelivery). Each sink that has a cursor has a redelivery
// queue and a memory of its creations at its target, such as the ticket of a detection. Both are
// forgotten and renamed with the sink. Commands are changes to make at appliances.
//
// An error that is none of this package's (such as a full disk) may be temporary: the
// caller retries.
//
// Every write waits for its turn, is committed together with the other waiting writes, and is
// durable when its call returns. If ctx is done while a call waits, nothing was written; once its
// transaction has begun, the call waits until it ends, and as long as Log.Append takes.
type Store struct {
	*database
	clock *clock
	storeLog

	wake    chan struct{} // holds one token: the queue is not empty, or Close was called
	closing chan struct{} // closed by Close
	stopped chan struct{} // closed when the writer has ended

	mu         sync.Mutex
	closed     bool
	limits     Limits
	queue      []*operation
	waiting    bool            // a commit waits for space
	configured map[string]bool // nil until Configure; replaced, never changed
	tail       tail
	appended   broadcast // events were appended
	queued     broadcast // something was put into a redelivery queue
	commanded  broadcast // a command became pending
}

// broadcast wakes everybody who waits for something to happen. The Store's mu guards it.
type broadcast struct{ wake chan struct{} }

// next returns a channel that is closed when it happens next.
func (b *broadcast) next() <-chan struct{} {
	if b.wake == nil {
		b.wake = make(chan struct{})
	}
	return b.wake
}

func (b *broadcast) send() {
	if b.wake != nil {
		close(b.wake)
		b.wake = nil
	}
}

// Open opens the state at path, or creates an empty one, of mode 0600, if there is no file. A file
// that Close has closed cleanly opens at once; any other is read through before anything is written
// to it. A file of an older version is migrated, after a copy of it was made beside it as
// <path>.v<version of the layout>.bak, unless there is a Log.
//
// Open returns ErrLocked if another process still has the file open after a second,
// ErrDamaged if the file cannot be read (an empty file included), and ErrNewer if a newer version
// wrote it: the file is then left unchanged, and the error says what to do. If the file becomes
// unreadable, or disappears from path, while it is open, the store fails: see Failed.
func Open(path string, o Options) (*Store, error) {
	create := createLayout
	if o.ReadOnly || o.Log != nil {
		create = nil
	}
	wait := time.Second // it may be about to end
	if o.ReadOnly {
		wait = 0
	}
	db, err := openFile(path, o, wait, o.Log != nil, create)
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	s := &Store{
		database: db, clock: newClock(o), storeLog: storeLog{log: o.Log, renewEvery: o.Renew, renewal: time.NewTimer(0), maxRecord: MaxRecord}, limits: o.Limits, tail: tail{limit: tailBytes},
		wake: make(chan struct{}, 1), closing: make(chan struct{}), stopped: make(chan struct{}),
	}
	err = s.view(context.Background(), func(tx *bolt.Tx) error {
		_, err := openJournal(tx)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the state: %s: %w", path, err), s.db.Close())
	}
	if s.readOnly {
		close(s.stopped)
	} else {
		if s.log == nil || s.renewEvery == 0 {
			s.renewal.Stop()
		}
		go s.write()
	}
	return s, nil
}

// Kept returns the path of the copy that Open made of a file of an older version before it
// migrated it, or "".
func (s *Store) Kept() string { return s.kept }

// SetLimits replaces Options.Limits. Events and dead letters that are already stored may
// exceed the new limits: nothing more is accepted then until there is space.
func (s *Store) SetLimits(l Limits) {
	s.mu.Lock()
	s.limits = l
	s.mu.Unlock()
	s.wakeWriter() // commits that wait for space may have it now
}

// Close closes the store: writes called before it are still done, but commits that wait
// for space return ErrClosed, like every call after Close. It waits for Log.Append. Close may
// be called more than once.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	if first {
		close(s.closing)
	}
	s.mu.Unlock()
	s.wakeWriter()
	select {
	case <-s.stopped:
	case <-s.failed:
		if !s.stuck.Load() { // else the writer may wait for bbolt for ever
			<-s.stopped
		}
	}
	if !first || s.stuck.Load() { // the system releases the file when the process ends
		return nil
	}
	if !s.readOnly && (!s.closedMark || s.log != nil) && s.Err() == nil {
		// If this fails (the disk is full), the next Open only takes longer.
		_ = s.markClosed(s.at)
	}
	return wrapf(s.db.Close(), "close the state: %s", s.path)
}

// view is database.view, until Close.
func (s *Store) view(ctx context.Context, do func(tx *bolt.Tx) error) error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return cmp.Or(ctx.Err(), ErrClosed)
	}
	return s.database.view(ctx, do)
}

// wrapf prefixes an error; nil stays nil.
func wrapf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}
