package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"ndrbridge/checkpoint/internal/boltfile"
)

// opened is a database and facts about its file.
type opened struct {
	db     *bolt.DB
	file   *os.File // the database's own, which closes it
	closed bool     // the file is marked as closed cleanly
}

// openFile opens the state, or creates it if there is none. An existing file is opened for
// writing only after it was found sound.
func openFile(path string, o Options) (state opened, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && !o.ReadOnly {
		if err = boltfile.Create(path, createLayout); err == nil {
			info, err = os.Stat(path)
		}
	}
	if err != nil {
		return state, err
	}
	if !info.Mode().IsRegular() {
		return state, fmt.Errorf("%s is not a file", path)
	}
	if info.Size() == 0 {
		return state, damaged(path, errors.New("the file is empty"))
	}
	wait := boltfile.LockWait
	if o.LockWait != 0 {
		wait = max(o.LockWait, 1) // with 0, bbolt waits for ever
	}
	found, err := checkFile(path, wait, o.ReadOnly && o.Quick)
	if err != nil {
		return state, err
	}
	state.closed = found.closed
	options := boltfile.Options()
	options.Timeout = wait
	if o.ReadOnly {
		options.ReadOnly = true
		state.db, state.file, err = openBolt(path, options)
		return state, err
	}
	if info.Mode().Perm()&^boltfile.Mode != 0 {
		if err := os.Chmod(path, boltfile.Mode); err != nil {
			return state, fmt.Errorf("the state must be readable by its owner alone: %w", err)
		}
	}
	options.InitialMmapSize = boltfile.MappedAhead()
	if state.db, state.file, err = openBolt(path, options); err != nil {
		return state, err
	}
	if found.version < layoutVersion {
		if err := migrate(state.db, path, found.version); err != nil {
			return state, errors.Join(err, state.db.Close())
		}
		state.closed = false
	}
	return state, nil
}

// finding is the result of checkFile.
type finding struct {
	version int  // of the layout
	closed  bool // see markClosed
}

// checkFile checks, without writing to it, whether bbolt can use a file. The file is read
// through, unless it was closed cleanly: then only a failing disk can have damaged it, and
// boltfile.Guard turns that into an error when bbolt comes across it. If quick is true, no
// file is read through.
func checkFile(path string, wait time.Duration, quick bool) (found finding, err error) {
	o := boltfile.Options()
	o.ReadOnly, o.Timeout = true, wait
	db, _, err := openBolt(path, o)
	if err != nil {
		return found, err
	}
	defer db.Close()
	file, err := os.Open(path)
	if err != nil {
		return found, err
	}
	defer file.Close()

	err = boltfile.Guard(func() error {
		return db.View(func(tx *bolt.Tx) (err error) {
			found, err = checkContents(file, tx, quick)
			return err
		})
	})
	var system *fs.PathError
	switch {
	case err == nil:
		return found, nil
	case errors.As(err, &system):
		return found, err
	case errors.Is(err, ErrNewer):
		return found, fmt.Errorf("%s: %w: use the version that wrote it, or a newer one", path, err)
	}
	return found, damaged(path, err)
}

// checkContents is checkFile within a transaction. Nothing is read in tx before the pages
// that hold it were checked.
func checkContents(file *os.File, tx *bolt.Tx, quick bool) (found finding, err error) {
	if found.closed, err = isClosed(file, tx); err != nil {
		return found, err
	}
	readThrough := !found.closed && !quick
	var sum uint64
	var journal journalCheck
	if readThrough {
		if sum, err = boltfile.CheckAll(file, tx, &journal); err != nil {
			return found, err
		}
	}
	if found.version, err = checkLayout(tx); err != nil || !readThrough {
		return found, err
	}
	if kept, there := boltfile.Sum(tx); there && kept != sum || !there && found.version > 1 {
		return found, errors.New("its pages are from different moments: it is a copy made while the state was being written, or an incomplete copy")
	}
	return found, journal.err // last, since another version may have another journal
}

// openBolt is boltfile.Open with the errors of this package.
func openBolt(path string, o bolt.Options) (*bolt.DB, *os.File, error) {
	db, file, err := boltfile.Open(path, o)
	var (
		system *fs.PathError
		errno  syscall.Errno
	)
	switch {
	case err == nil:
		return db, file, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, nil, fmt.Errorf("%s: %w: most likely another ndrbridge runs with it; stop that one, or use another path for the state", path, ErrLocked)
	case errors.As(err, &system):
		return nil, nil, err
	case errors.As(err, &errno):
		return nil, nil, fmt.Errorf("lock or map %s: %w", path, err)
	}
	return nil, nil, damaged(path, err)
}

// damaged wraps err with what is wrong with a file and what can be done.
func damaged(path string, err error) error {
	return fmt.Errorf("%s: %w: %w. The file was left as it is. Restore a backup of it; or move it away and start over, "+
		"which loses the events that were not delivered yet and the dead letters, and reads every stream again from its start setting",
		path, ErrDamaged, err)
}

// markClosed marks the file as closed cleanly, so that the next Open need not read it
// through, and writes the list of free pages, so that bbolt need not scan all pages for
// them either. Nothing may be written after it. The mark identifies the file, so that a
// copy that was begun before the file was opened again, and is torn, is not taken for
// whole.
func markClosed(db *bolt.DB, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	name := boltfile.Identity(info)
	if name == "" {
		return nil
	}
	db.NoFreelistSync = false
	return boltfile.Update(db, func(tx *bolt.Tx) error {
		return tx.Bucket(boltfile.MetaBucket).Put(closedKey, []byte(name))
	})
}

// unmark removes the mark, in the first transaction that writes.
func unmark(tx *bolt.Tx) error {
	if err := tx.Bucket(boltfile.MetaBucket).Delete(closedKey); err != nil {
		return fmt.Errorf("remove the mark of a closed file: %w", err)
	}
	return nil
}

// isClosed reports whether the file is marked as closed cleanly. It first checks the pages
// in which the mark is stored, and returns an error if they are damaged.
func isClosed(file *os.File, tx *bolt.Tx) (bool, error) {
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	if err := boltfile.CheckRoot(file, tx); err != nil {
		return false, err
	}
	meta := tx.Bucket(boltfile.MetaBucket)
	if meta == nil || uint64(meta.RootPage()) != 0 {
		return false, nil // so small a bucket is stored in a page that was checked
	}
	mark := string(meta.Get(closedKey))
	return mark != "" && mark == boltfile.Identity(info), nil
}

// migrate changes a file of an older version to this layout, in one transaction, after
// copying it. It is the first transaction that writes.
func migrate(db *bolt.DB, path string, from int) error {
	if err := keep(db, path, from); err != nil {
		return fmt.Errorf("copy %s before it is changed to layout %d: %w", path, layoutVersion, err)
	}
	err := boltfile.Update(db, func(tx *bolt.Tx) error {
		if err := unmark(tx); err != nil {
			return err
		}
		return raiseLayout(tx, from)
	})
	if err != nil {
		return fmt.Errorf("change %s to layout %d: %w", path, layoutVersion, err)
	}
	return nil
}
