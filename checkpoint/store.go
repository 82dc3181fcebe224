package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Options say how a Store keeps its state.
type Options struct {
	Limits Limits
	// Now is the clock that Limits.Retain is measured with; nil: time.Now.
	Now func() time.Time
	// Elapsed is the time that has passed since any moment, whatever Now is set to;
	// nil: as by Now.
	Elapsed func() time.Duration
	// ReadOnly opens a state that is there without changing the file, whatever
	// version wrote it. Every method that writes fails. The state must not be in
	// use by another process, but that reads it in the same way.
	ReadOnly bool
	// Quick leaves out, with ReadOnly, reading the whole of a file that was not closed in
	// order: damage to it may be found later, or not.
	Quick bool
	// LockWait is how long another process that has the state open, and may be
	// about to end, is waited for; 0: a second; below 0: not at all.
	LockWait time.Duration
}

// Store keeps the state in one bbolt file. It implements Sources, Journal,
// Skips, Redeliveries, Operations, Memories and Commands.
//
// Every write waits for its turn, is committed together with the others that
// wait, and has been synced to the disk when its call returns. A call whose ctx
// ends while it waits returns ctx's error and nothing was written; once its
// transaction has begun, the call waits the milliseconds until that is over.
type Store struct {
	db   *bolt.DB
	file *os.File // the database's
	path string

	clock *clock

	readOnly bool
	// Both belong to the writer.
	closedMark bool   // the file has the mark of one that was closed in order
	committed  uint64 // the number of the transaction that the file is at; 0: not known

	least  atomic.Int64 // the bytes that the file has at the least
	begins sync.Mutex   // held while a transaction begins
	stuck  atomic.Bool  // bbolt has panicked with its locks held: see begin

	wake    chan struct{} // holds one token: the queue is not empty, or Close was called
	closing chan struct{} // closed by Close
	stopped chan struct{} // closed when the writer has ended

	failed chan struct{} // closed when failure is final

	mu         sync.Mutex
	failure    error // why nothing is read or written any more
	closed     bool
	limits     Limits
	queue      []*operation
	waiting    bool            // a commit waits for space
	configured map[string]bool // nil until Configure; replaced, never changed
	ends       ends
	lead       lead
	ledAt      time.Time     // when lead.cursor last moved
	led        chan struct{} // closed and replaced then
	tail       tail
	appended   chan struct{} // closed and replaced when ends moves
	queued     chan struct{} // closed and replaced when a redelivery queue has got something
	commanded  chan struct{} // closed and replaced when a command began to wait
}

var (
	_ Sources      = (*Store)(nil)
	_ Journal      = (*Store)(nil)
	_ Skips        = (*Store)(nil)
	_ Redeliveries = (*Store)(nil)
	_ Operations   = (*Store)(nil)
	_ Memories     = (*Store)(nil)
	_ Commands     = (*Store)(nil)
)

// Open opens the state at path, or makes an empty one where there is no file.
// The file gets mode 0600. Before anything is written to a file that exists it
// is read through, which takes about as long as the disk needs for that; but a
// file that Close has ended in order opens at once, however large it is. A file
// that an older version wrote is changed to this one's layout, after a copy of
// it was made beside it as <path>.v<version of the layout>.bak.
//
// ErrLocked where another process has it open, after Options.LockWait; ErrDamaged where
// it cannot be read (an empty file too), ErrNewer where a newer version wrote
// it: the file is then left as it is, and the error says what to do. A file that
// becomes unreadable, or is no longer at path, while it is open ends the store:
// see Failed.
func Open(path string, o Options) (*Store, error) {
	state, err := openFile(path, o)
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	s := &Store{
		db: state.db, file: state.file, path: path, limits: o.Limits, clock: newClock(o), readOnly: o.ReadOnly, closedMark: state.closed,
		wake: make(chan struct{}, 1), closing: make(chan struct{}), stopped: make(chan struct{}), failed: make(chan struct{}), led: make(chan struct{}),
		appended: make(chan struct{}), queued: make(chan struct{}), commanded: make(chan struct{}),
		tail: tail{limit: tailBytes},
	}
	if s.ends, err = s.readEnds(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the state: %s: %w", path, err), s.db.Close())
	}
	if s.readOnly {
		close(s.stopped)
	} else {
		go s.write()
	}
	return s, nil
}

// SetLimits replaces Options.Limits. Events and dead letters that are there
// already may be beyond the new ones: then nothing more comes in, until there is
// space.
func (s *Store) SetLimits(l Limits) {
	s.mu.Lock()
	s.limits = l
	s.mu.Unlock()
	s.poke() // what waits for space may have it now
}

// Close ends the store: writes that were called before it are still done, but
// commits that wait for space end with ErrClosed, like every call after it. It
// may be called again.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	if first {
		close(s.closing)
	}
	s.mu.Unlock()
	s.poke()
	select {
	case <-s.stopped:
	case <-s.failed:
		if !s.stuck.Load() { // the writer may wait for bbolt for ever otherwise
			<-s.stopped
		}
	}
	if !first || s.stuck.Load() { // the system takes the file back when the process ends
		return nil
	}
	if !s.readOnly && !s.closedMark && s.Err() == nil {
		// Where it cannot be written (the disk is full), the next Open takes its time.
		_ = markClosed(s.db, s.path)
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close the state: %s: %w", s.path, err)
	}
	return nil
}

// view reads the state. No slice of the database may leave do, and do must be
// short: while it runs, no page is used again and the file cannot be mapped
// again.
func (s *Store) view(ctx context.Context, do func(tx *bolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return ErrClosed
	}
	err := s.read(do)
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}

// read is view without its conditions.
func (s *Store) read(do func(tx *bolt.Tx) error) error {
	if err := s.Err(); err != nil {
		return err
	}
	err := s.whole()
	if err == nil {
		var tx *bolt.Tx
		if tx, err = s.begin(false); err == nil {
			err = guard(func() error { return do(tx) })
			s.end(tx)
		}
	}
	// A page of which a part was cut off reads as zeros, without a fault.
	if cut := s.whole(); cut != nil {
		err = cut
	}
	return s.judge(err)
}

// errStuck says that bbolt panicked with its locks held: it must not be called again.
var errStuck = fmt.Errorf("%w: the first pages", errUnreadable)

// begin begins a transaction. bbolt looks at the file's first pages then, with locks
// held that it does not release if that panics: whoever needs one of them would wait
// for ever. So transactions begin one at a time, and none after that.
func (s *Store) begin(writable bool) (*bolt.Tx, error) {
	s.begins.Lock()
	defer s.begins.Unlock()
	if s.stuck.Load() {
		return nil, errStuck
	}
	tx, err := begin(s.db, writable)
	s.stuck.Store(errors.Is(err, errStuck))
	return tx, err
}

// end ends a transaction that has read. It needs one of the locks that begin holds.
func (s *Store) end(tx *bolt.Tx) {
	if s.begins.TryLock() {
		defer s.begins.Unlock()
		if !s.stuck.Load() {
			_ = tx.Rollback()
		}
		return
	}
	// A transaction that begins now may wait for this one to end, or never release the lock.
	ended := make(chan struct{})
	go func() {
		_ = tx.Rollback()
		close(ended)
	}()
	select {
	case <-ended:
	case <-s.failed:
	}
}

// begin begins a transaction. errStuck if bbolt panics.
func begin(db *bolt.DB, writable bool) (tx *bolt.Tx, err error) {
	err = guard(func() error {
		tx, err = db.Begin(writable)
		return err
	})
	if errors.Is(err, errUnreadable) {
		err = fmt.Errorf("%w: %w", errStuck, err)
	}
	return tx, err
}

// update writes to a database in one transaction.
func update(db *bolt.DB, do func(tx *bolt.Tx) error) error {
	tx, err := begin(db, true)
	if err != nil {
		return err
	}
	return write(tx, do)
}

// write writes in a transaction, and ends it. It is like bbolt's own Update, but
// for a panic: that one reads more of a damaged file then, and may panic again
// with its locks held.
func write(tx *bolt.Tx, do func(tx *bolt.Tx) error) error {
	err := guard(func() error {
		if err := do(tx); err != nil {
			return err
		}
		return tx.Commit()
	})
	if err != nil {
		// A commit that failed has undone itself, and refuses to be undone again.
		_ = guard(tx.Rollback)
	}
	return err
}

// readEnds reads the journal's ends, and how long the file must be.
func (s *Store) readEnds() (e ends, err error) {
	err = s.read(func(tx *bolt.Tx) error {
		j, err := openJournal(tx)
		if err == nil {
			e = j.ends
			s.least.Store(tx.Size())
		}
		return err
	})
	return e, err
}
