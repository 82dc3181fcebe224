package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"ndrbridge/checkpoint/internal/boltfile"
)

// database is an open bbolt file. It fails if bbolt panics, or if the file becomes shorter.
type database struct {
	db       *bolt.DB
	file     *os.File // the database's own, which closes it
	path     string
	readOnly bool
	copied   bool   // the file is a copy of a log
	kept     string // the copy that was made before the file was migrated; empty: none

	free func(folder string) (bytes uint64, known bool) // nil: fileaccess.Free

	// Only the writer uses these three.
	closedMark bool   // the file is marked as closed cleanly
	committed  uint64 // number of the last committed transaction; 0: not known
	commits    int    // transactions committed since the file was opened

	least  atomic.Int64 // minimum size of the file, in bytes
	begins sync.Mutex   // held while a transaction begins
	stuck  atomic.Bool  // bbolt has panicked with its locks held: see begin

	failing sync.Mutex
	failure error         // why nothing is read or written any more; failing guards it
	failed  chan struct{} // closed when failure is final
}

// Err returns why the state failed and what to do about it, or nil while it works.
func (d *database) Err() error {
	d.failing.Lock()
	defer d.failing.Unlock()
	return d.failure
}

// setFailure ends all use of the file, and reports whether this is its first failure.
func (d *database) setFailure(err error) (first bool) {
	d.failing.Lock()
	defer d.failing.Unlock()
	first = d.failure == nil
	if first {
		d.failure = err
	}
	return first
}

// fail ends all use of the file because of err, and returns it.
func (d *database) fail(err error) error {
	if d.setFailure(err) {
		close(d.failed)
	}
	return err
}

// judge returns the error of a transaction as callers get it. It fails the database if the
// file cannot be read.
func (d *database) judge(err error) error {
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	if !errors.Is(err, boltfile.ErrUnreadable) {
		return err
	}
	if cut := d.whole(); cut != nil {
		err = cut
	}
	return d.fail(advise(damaged(d.path, err), d.copied))
}

// view reads the state. No slice of the database may outlive do, and do must be short:
// while it runs, no page is reused and the file cannot be mapped again.
func (d *database) view(ctx context.Context, do func(tx *bolt.Tx) error) error {
	if err := cmp.Or(ctx.Err(), d.Err()); err != nil {
		return err
	}
	err := d.whole()
	if err == nil {
		var tx *bolt.Tx
		if tx, err = d.begin(false); err == nil {
			d.least.Store(max(d.least.Load(), tx.Size())) // a smaller one of another reader does no harm
			err = boltfile.Guard(func() error { return do(tx) })
			d.end(tx)
		}
	}
	// A page that was partly cut off reads as zeros, without a fault.
	if cut := d.whole(); cut != nil {
		err = cut
	}
	return d.judge(err)
}

// gone returns how the file disappeared from its path; empty if it is there, or that is not known.
func (d *database) gone() (how string) {
	opened, err := d.file.Stat()
	if err != nil {
		return ""
	}
	switch named, err := os.Stat(d.path); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return "it was removed or moved away"
	case err == nil && !os.SameFile(opened, named):
		return "another file was put in its place"
	}
	return ""
}

// syncedCommits is how many transactions of a copy of a log are synced after it was opened:
// then neither of the file's first two pages, which bbolt writes in turn, has the mark of a
// closed file any more. Later transactions are not synced: what a crash of the machine loses
// is in the log, and a file that it left torn is found out when it is read through.
const syncedCommits = 2

// beforeCommit decides how the next transaction is written.
func (d *database) beforeCommit() {
	d.db.NoSync = d.copied && d.commits >= syncedCommits
}

// begin begins a transaction. bbolt then reads the file's first pages, holding locks that
// it does not release if that panics: every later caller that needs one of them would
// block for ever. So transactions begin one at a time, and none begins after a panic.
func (d *database) begin(writable bool) (*bolt.Tx, error) {
	d.begins.Lock()
	defer d.begins.Unlock()
	if d.stuck.Load() {
		return nil, boltfile.ErrStuck
	}
	tx, err := boltfile.Begin(d.db, writable)
	d.stuck.Store(errors.Is(err, boltfile.ErrStuck))
	return tx, err
}

// end ends a read transaction. It needs one of the locks that begin holds, and gives up
// when the database has failed.
func (d *database) end(tx *bolt.Tx) {
	if d.begins.TryLock() {
		defer d.begins.Unlock()
		if !d.stuck.Load() {
			_ = tx.Rollback()
		}
		return
	}
	// A transaction that is beginning may wait for this one to end, or never release the lock.
	ended := make(chan struct{})
	go func() {
		_ = tx.Rollback()
		close(ended)
	}()
	select {
	case <-ended:
	case <-d.failed:
	}
}

// whole returns an error if the file has become shorter than its contents.
func (d *database) whole() error {
	least := d.least.Load() // first: the file may grow meanwhile
	info, err := d.file.Stat()
	if err != nil || info.Size() >= least {
		return nil // a file whose size is not known may still be readable
	}
	return fmt.Errorf("%w: it was cut short to %d of at least %d bytes while it was open", boltfile.ErrUnreadable, info.Size(), least)
}

// markClosed marks the file as closed cleanly, so that the next Open need not read it
// through, and writes the list of free pages, so that bbolt need not scan all pages for
// them either. Nothing may be written after it. The mark identifies the file, so that a
// copy that was begun before the file was opened again, and is torn, is not mistaken for
// whole. If at.Offset is not 0, the file holds the log up to there.
func (d *database) markClosed(at Point) error {
	info, err := os.Stat(d.path)
	if err != nil {
		return err
	}
	name := boltfile.Identity(info)
	if name == "" {
		return nil
	}
	d.db.NoFreelistSync, d.db.NoSync = false, false
	return boltfile.Update(d.db, func(tx *bolt.Tx) error {
		if at.Offset > 0 {
			if err := putApplied(tx, at); err != nil {
				return err
			}
		}
		return tx.Bucket(boltfile.MetaBucket).Put(closedKey, []byte(name))
	})
}

// unmark removes the mark, in the first transaction that writes.
func unmark(tx *bolt.Tx) error {
	return wrapf(tx.Bucket(boltfile.MetaBucket).Delete(closedKey), "remove the mark of a closed file")
}

// isClosed reports whether the file is marked as closed cleanly. It first checks the pages
// in which the mark is stored, and returns an error if they are damaged.
func isClosed(file *os.File, tx *bolt.Tx) (bool, error) {
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	if _, err := boltfile.Check(file, tx, nil); err != nil {
		return false, err
	}
	meta := tx.Bucket(boltfile.MetaBucket)
	if meta == nil || uint64(meta.RootPage()) != 0 {
		return false, nil // so small a bucket is stored in a page that was checked
	}
	mark := string(meta.Get(closedKey))
	return mark != "" && mark == boltfile.Identity(info), nil
}

// ErrLost means that another program removed, replaced or wrote to the state file while it
// was open.
var ErrLost = errors.New("the state file is gone")

// watchEvery is how often an idle store checks its file. A store that writes checks before
// each transaction.
const watchEvery = 5 * time.Second

// Failed returns a channel that is closed when the store can no longer be used: its file
// was removed, replaced or cut short, or has become unreadable. Every call fails from then
// on, and the process should exit with Err: further deliveries could not be recorded.
//
// If the file was removed or replaced, the committed state is copied first: to the same
// path if there is no file now, else to a file beside it, which Err names.
//
// A store with a Log also fails if Append returns an error, or if it cannot commit a record of
// the log to its file, which is behind the log then. Err wraps ErrNotOwner if another
// process owns the log. A Replica can continue with the file; nothing is copied.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// watch fails the store if its file is no longer at its path. Only the writer calls it.
func (s *Store) watch() {
	if s.Err() != nil {
		return
	}
	if how := s.gone(); how != "" {
		s.lose(how)
		return
	}
	_ = s.judge(s.whole())
}

// lose saves the committed state, and fails the store.
func (s *Store) lose(how string) {
	lost := fmt.Errorf("%s: %w: %s while ndrbridge had it open", s.path, ErrLost, how)
	if !s.setFailure(lost) { // nothing is read or written meanwhile
		return
	}
	if s.log != nil { // which has the state
		close(s.failed)
		return
	}
	saved, err := s.save()
	switch {
	case err != nil:
		lost = fmt.Errorf("%w. The committed state could not be saved: %w. Restore a backup before the next start, which begins with an empty state otherwise", lost, err)
	case saved == s.path:
		lost = fmt.Errorf("%w. The committed state was saved there again, and the next start continues from it", lost)
	default:
		lost = fmt.Errorf("%w. The committed state was saved as %s. The next start continues from the file that is now at %s; "+
			"to continue from the committed state, put the saved file in its place first", lost, saved, s.path)
	}
	s.failing.Lock()
	s.failure = lost
	s.failing.Unlock()
	close(s.failed)
}

// save copies the file, to which nobody writes any more, to its path, or, if there is
// another file by now, to a new file beside it. It returns the copy's path.
func (s *Store) save() (path string, err error) {
	info, err := s.file.Stat()
	if err != nil {
		return "", err
	}
	name := func(n int) string {
		if n == 0 {
			return s.path
		}
		return fmt.Sprintf("%s.%d.saved", s.path, n)
	}
	return boltfile.CreateFirst(name, func(file *os.File) error {
		_, err := io.Copy(file, io.NewSectionReader(s.file, 0, info.Size()))
		return err
	})
}
