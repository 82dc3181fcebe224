package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Options say how a Store keeps its state.
type Options struct {
	Limits Limits
	// Now is the clock that Limits.Retain is measured with; nil: time.Now.
	Now func() time.Time
}

// Store keeps the state in one bbolt file. It implements Sources and Journal.
//
// Every write waits for its turn, is committed together with the others that
// wait, and has been synced to the disk when its call returns. A call whose ctx
// ends while it waits returns ctx's error and nothing was written; once its
// transaction has begun, the call waits the milliseconds until that is over.
type Store struct {
	db     *bolt.DB
	path   string
	limits Limits
	now    func() time.Time

	wake    chan struct{} // holds one token: the queue is not empty, or Close was called
	closing chan struct{} // closed by Close
	stopped chan struct{} // closed when the writer has ended

	mu         sync.Mutex
	closed     bool
	queue      []*operation
	waiting    bool            // a commit waits for room
	configured map[string]bool // nil until Configure; replaced, never changed
	ends       ends
	appended   chan struct{} // closed and replaced when ends moves
}

var (
	_ Sources = (*Store)(nil)
	_ Journal = (*Store)(nil)
)

// Open opens the state at path, or makes an empty one where there is no file.
// The file gets mode 0600. Before anything is written to a file that exists it
// is read through, which takes about as long as the disk needs for that.
//
// ErrLocked where another process has it open, after a second; ErrDamaged where
// it cannot be read (an empty file too), ErrNewer where a newer version wrote
// it: the file is then left as it is, and the error says what to do.
func Open(path string, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	db, err := openFile(path)
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	s := &Store{
		db: db, path: path, limits: o.Limits, now: o.Now,
		wake: make(chan struct{}, 1), closing: make(chan struct{}), stopped: make(chan struct{}),
		appended: make(chan struct{}),
	}
	if s.ends, err = s.readEnds(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the state: %s: %w", path, err), db.Close())
	}
	go s.write()
	return s, nil
}

// Close ends the store: writes that were called before it are still done, but
// commits that wait for room end with ErrClosed, like every call after it. It
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
	<-s.stopped
	if !first {
		return nil
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close the state: %s: %w", s.path, err)
	}
	return nil
}

// view reads the state. No slice of the database may leave do, and do must be
// short: while it runs, no page is used again and the file cannot be mapped
// anew.
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
	err := s.db.View(do)
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}

func (s *Store) readEnds() (e ends, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		j, err := openJournal(tx)
		e = j.ends
		return err
	})
	return e, err
}
