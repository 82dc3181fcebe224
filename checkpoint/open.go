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

// openFile opens the state, or creates it if there is none. An existing file is opened for
// writing only after it was found sound.
func openFile(path string, o Options) (*database, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && !o.ReadOnly {
		if err = boltfile.Create(path, createLayout); err == nil {
			info, err = os.Stat(path)
		}
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	if info.Size() == 0 {
		return nil, damaged(path, errors.New("the file is empty"))
	}
	options := boltfile.Options()
	if o.LockWait != 0 {
		options.Timeout = max(o.LockWait, 1) // with 0, bbolt waits for ever
	}
	version, closed, err := checkFile(path, options.Timeout, o.ReadOnly && o.Quick)
	if err != nil {
		return nil, err
	}
	d := &database{path: path, readOnly: o.ReadOnly, closedMark: closed}
	if o.ReadOnly {
		options.ReadOnly = true
		d.db, d.file, err = openBolt(path, options)
		return d, err
	}
	if info.Mode().Perm()&^boltfile.Mode != 0 {
		if err := os.Chmod(path, boltfile.Mode); err != nil {
			return nil, fmt.Errorf("the state must be readable by its owner alone: %w", err)
		}
	}
	options.InitialMmapSize = boltfile.MappedAhead()
	if d.db, d.file, err = openBolt(path, options); err != nil {
		return nil, err
	}
	if version < layoutVersion {
		if err := migrate(d.db, path, version); err != nil {
			return nil, errors.Join(err, d.db.Close())
		}
		d.closedMark = false
	}
	return d, nil
}

// checkFile checks, without writing to it, whether bbolt can use a file, and returns the
// version of its layout and whether it was closed cleanly (see markClosed). The file is
// read through, unless it was closed cleanly: then only a failing disk can have damaged it,
// and boltfile.Guard turns that into an error when bbolt comes across it. If quick is true,
// no file is read through.
func checkFile(path string, wait time.Duration, quick bool) (version int, closed bool, err error) {
	o := boltfile.Options()
	o.ReadOnly, o.Timeout = true, wait
	db, _, err := openBolt(path, o)
	if err != nil {
		return 0, false, err
	}
	defer db.Close()
	file, err := os.Open(path)
	if err != nil {
		return 0, false, err
	}
	defer file.Close()

	err = boltfile.Guard(func() error {
		return db.View(func(tx *bolt.Tx) (err error) {
			version, closed, err = checkContents(file, tx, quick)
			return err
		})
	})
	var system *fs.PathError
	switch {
	case err == nil:
		return version, closed, nil
	case errors.As(err, &system):
		return 0, false, err
	case errors.Is(err, ErrNewer):
		return 0, false, fmt.Errorf("%s: %w: use the version that wrote it, or a newer one", path, err)
	}
	return 0, false, damaged(path, err)
}

// checkContents is checkFile within a transaction. Nothing is read in tx before the pages
// that hold it were checked.
func checkContents(file *os.File, tx *bolt.Tx, quick bool) (version int, closed bool, err error) {
	if closed, err = isClosed(file, tx); err != nil {
		return 0, false, err
	}
	readThrough := !closed && !quick
	var sum uint64
	var journal journalCheck
	if readThrough {
		if sum, err = boltfile.CheckAll(file, tx, &journal); err != nil {
			return 0, false, err
		}
	}
	if version, err = checkLayout(tx); err != nil || !readThrough {
		return version, closed, err
	}
	if kept, there := boltfile.Sum(tx); there && kept != sum || !there && version > 1 {
		return 0, false, errors.New("its pages are from different moments: it is a copy made while the state was being written, or an incomplete copy")
	}
	return version, closed, journal.err // last, since another version may have another journal
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
	return wrapf(err, "change %s to layout %d", path, layoutVersion)
}
