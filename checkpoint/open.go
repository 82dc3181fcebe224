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

// openFile opens the state, which is expected to be a copy of a log if copied is true. It waits
// so long for another process that has it open. An existing file is opened for writing only
// after it was found sound. If there is none, create makes its contents, unless it is nil.
func openFile(path string, o Options, wait time.Duration, copied bool, create func(*bolt.Tx) error) (*database, error) {
	d, err := openSound(path, o, wait, copied, create)
	return d, advise(err, copied)
}

func openSound(path string, o Options, wait time.Duration, copied bool, create func(*bolt.Tx) error) (*database, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && create != nil {
		if err = boltfile.Create(path, create); err == nil {
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
	options.Timeout = max(wait, 1) // with 0, bbolt waits for ever
	found, err := checkFile(path, options.Timeout, o.ReadOnly && o.Quick)
	if err != nil {
		return nil, err
	}
	d := &database{path: path, readOnly: o.ReadOnly, closedMark: found.closed, copied: found.copied, failed: make(chan struct{})}
	if o.ReadOnly {
		options.ReadOnly = true
		d.db, d.file, err = openBolt(path, options)
		return d, err
	}
	if err := found.suits(path, copied); err != nil {
		return nil, err
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
	if found.version < layoutVersion {
		if err := migrate(d, found.version); err != nil {
			return nil, errors.Join(err, d.db.Close())
		}
		d.closedMark = false
	}
	return d, nil
}

// found is what checkFile found in a file.
type found struct {
	version    int  // of its layout
	closed     bool // it was closed cleanly (see markClosed)
	copied     bool // it is a copy of a log
	incomplete bool // the copy was not restored completely
}

// suits returns an error unless the file is a copy of a log exactly if it is opened as one.
func (f found) suits(path string, copied bool) error {
	switch {
	case copied && !f.copied:
		return fmt.Errorf("%s is the state of a single process, not a copy of a replicated log: move it away, and let 'ndrbridge cluster init --adopt' create a cluster that begins with it", path)
	case !copied && f.copied:
		return fmt.Errorf("%s is a copy of the replicated log of a cluster, which would not get the changes: start ndrbridge as a member of the cluster, use another path for the state, or make a state of it with 'ndrbridge cluster export'", path)
	case f.incomplete:
		return damaged(path, errIncomplete)
	}
	return nil
}

// checkFile checks, without writing to it, whether bbolt can use a file. The file is
// read through, unless it was closed cleanly: then only a failing disk can have damaged it,
// and boltfile.Guard turns that into an error when bbolt comes across it. If quick is true,
// no file is read through.
func checkFile(path string, wait time.Duration, quick bool) (f found, err error) {
	o := boltfile.Options()
	o.ReadOnly, o.Timeout = true, wait
	db, _, err := openBolt(path, o)
	if err != nil {
		return found{}, err
	}
	defer db.Close()
	file, err := os.Open(path)
	if err != nil {
		return found{}, err
	}
	defer file.Close()

	err = boltfile.Guard(func() error {
		return db.View(func(tx *bolt.Tx) (err error) {
			f, err = checkContents(file, tx, quick)
			return err
		})
	})
	var system *fs.PathError
	switch {
	case err == nil:
		return f, nil
	case errors.As(err, &system):
		return found{}, err
	case errors.Is(err, ErrNewer):
		return found{}, fmt.Errorf("%s: %w: use the version that wrote it, or a newer one", path, err)
	}
	return found{}, damaged(path, err)
}

// checkContents is checkFile within a transaction. Nothing is read in tx before the pages
// that hold it were checked.
func checkContents(file *os.File, tx *bolt.Tx, quick bool) (f found, err error) {
	if f.closed, err = isClosed(file, tx); err != nil {
		return f, err
	}
	readThrough := !f.closed && !quick
	var sum uint64
	var journal journalCheck
	if readThrough {
		if sum, err = boltfile.Check(file, tx, journal.visit); err != nil {
			return f, err
		}
	}
	if f.version, err = checkLayout(tx); err != nil {
		return f, err
	}
	stored, there := boltfile.Sum(tx)
	_, f.copied = appliedOf(tx)
	f.incomplete = incomplete(tx)
	if !readThrough {
		return f, nil
	}
	if there && stored != sum || !there && f.version > 1 {
		return f, errors.New("its pages are from different moments: it is a copy made while the state was being written, or an incomplete copy")
	}
	return f, journal.err // last, since another version may have another journal
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

// damaged wraps the fault of a file.
func damaged(path string, err error) error { return fmt.Errorf("%s: %w: %w", path, ErrDamaged, err) }

// advise adds to an error what can be done about a damaged file, which may be a copy of a log.
func advise(err error, copied bool) error {
	switch {
	case !errors.Is(err, ErrDamaged):
		return err
	case errors.Is(err, bolterrors.ErrInvalid) && !copied:
		return fmt.Errorf("%w: it does not begin as a state does. The file was left as it is. If it is another file, correct the path of the state. "+
			"Otherwise restore a backup of it; or move it away and start over, which loses the events that were not delivered yet and the dead letters", err)
	case copied:
		return fmt.Errorf("%w. The file was left as it is. Delete it: it is restored from the replicated log", err)
	}
	return fmt.Errorf("%w. The file was left as it is. Restore a backup of it; or move it away and start over, "+
		"which loses the events that were not delivered yet and the dead letters, and reads every stream again from its start setting", err)
}

// migrate changes a file of an older version to this layout, in one transaction, after
// copying it, unless it is a copy itself. It is the first transaction that writes.
func migrate(d *database, from int) error {
	db, path := d.db, d.path
	if !d.copied {
		var err error
		if d.kept, err = keep(db, path, from); err != nil {
			return fmt.Errorf("copy %s before it is changed to layout %d: %w", path, layoutVersion, err)
		}
	}
	err := boltfile.Update(db, func(tx *bolt.Tx) error {
		if err := unmark(tx); err != nil {
			return err
		}
		return raiseLayout(tx, from)
	})
	return wrapf(err, "change %s to layout %d", path, layoutVersion)
}
