package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// fileMode is the state's mode: the file holds what the appliance knows about a network.
const fileMode = 0o600

// defaultLockWait is how long to wait for another process that is about to end.
const defaultLockWait = time.Second

// boltOptions returns the options of all databases. They are measured: pages of 16 KiB
// double the events written per second. The page size applies to new files only; others
// keep their own. Whether the list of free pages is written is decided for each
// transaction: see keepFreelist.
func boltOptions() bolt.Options {
	return bolt.Options{
		Timeout:        defaultLockWait,
		PageSize:       16 << 10,
		FreelistType:   bolt.FreelistMapType,
		NoFreelistSync: true,
	}
}

// mappedAhead returns how many bytes of address space a file gets from the start: up to
// there it grows without being mapped again, which would wait for readers and copy the
// data of the current transaction. On Windows the file would grow to that size at once,
// and 32-bit addresses are too few to be generous with.
func mappedAhead() int {
	if runtime.GOOS == "windows" || strconv.IntSize < 64 {
		return 0
	}
	return 1 << 30
}

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
		if err = createFile(path); err == nil {
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
	wait := defaultLockWait
	if o.LockWait != 0 {
		wait = max(o.LockWait, 1) // with 0, bbolt waits for ever
	}
	found, err := checkFile(path, wait, o.ReadOnly && o.Quick)
	if err != nil {
		return state, err
	}
	state.closed = found.closed
	options := boltOptions()
	options.Timeout = wait
	if o.ReadOnly {
		options.ReadOnly = true
		state.db, state.file, err = openBolt(path, &options)
		return state, err
	}
	if info.Mode().Perm()&^fileMode != 0 {
		if err := os.Chmod(path, fileMode); err != nil {
			return state, fmt.Errorf("the state must be readable by its owner alone: %w", err)
		}
	}
	options.InitialMmapSize = mappedAhead()
	if state.db, state.file, err = openBolt(path, &options); err != nil {
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

// createFile creates an empty state. The file gets its name when it is complete, so that a
// crash half way does not leave a file that looks like a damaged state; and only if nobody
// else has created one in the meantime.
func createFile(path string) error {
	dir, name := split(path)
	file, err := os.CreateTemp(dir, name+".*.new")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if err := file.Close(); err != nil {
		return err
	}
	o := boltOptions()
	db, err := bolt.Open(file.Name(), fileMode, &o)
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(createLayout), db.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w (the state needs a file system with hard links and locks, such as a local disk)", err)
	}
	return syncDir(dir)
}

// syncDir makes a new name durable. If a directory cannot be synced (Windows), the system
// does so by itself.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// finding is the result of checkFile.
type finding struct {
	version int  // of the layout
	closed  bool // see markClosed
}

// checkFile checks, without writing to it, whether bbolt can use a file. bbolt itself
// trusts what it maps: it would panic on a damaged page, or die of SIGBUS beyond the end
// of a file that was cut short. So the file is read through, unless it was closed cleanly:
// then only a failing disk can have damaged it, and guard turns that into an error when
// bbolt comes across it. If quick is true, no file is read through.
func checkFile(path string, wait time.Duration, quick bool) (found finding, err error) {
	o := boltOptions()
	o.ReadOnly, o.Timeout = true, wait
	db, _, err := openBolt(path, &o)
	if err != nil {
		return found, err
	}
	defer db.Close()
	file, err := os.Open(path)
	if err != nil {
		return found, err
	}
	defer file.Close()

	err = guard(func() error {
		return db.View(func(tx *bolt.Tx) error {
			pages, err := openPages(file, db.Info().PageSize, tx)
			if err != nil {
				return err
			}
			if found.closed, err = pages.closed(tx); err != nil {
				return err
			}
			var sum uint64
			var journal error
			if !found.closed && !quick {
				if pages, err = openPages(file, db.Info().PageSize, tx); err != nil {
					return err
				}
				if sum, journal, err = pages.all(tx); err != nil {
					return err
				}
			}
			if found.version, err = checkLayout(tx); err != nil || found.closed || quick {
				return err
			}
			if kept, there := sumOf(tx); there && kept != sum || !there && found.version > 1 {
				return errors.New("its pages are from different moments: it is a copy made while the state was being written, or an incomplete copy")
			}
			return journal
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

// errUnreadable means that bbolt failed on what it read.
var errUnreadable = errors.New("a page cannot be read")

// guard runs a function that reads or writes a database, and turns a panic into an error,
// including a memory fault: bbolt trusts its pages, which are the file itself, and a page
// may be damaged, or be gone since the file was cut short.
func guard(do func() error) (err error) {
	faults := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(faults)
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errUnreadable, r)
		}
	}()
	return do()
}

// openBolt opens a file with bbolt and translates its errors into those of this package.
// The returned file belongs to the database.
func openBolt(path string, o *bolt.Options) (db *bolt.DB, file *os.File, err error) {
	err = guard(func() error {
		for {
			o.OpenFile = func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
				file, err = os.OpenFile(name, flag, mode)
				return file, err
			}
			if db, err = bolt.Open(path, fileMode, o); err != nil {
				return err
			}
			there, err := isAt(file, path)
			if there {
				return nil
			}
			// Compact replaced the file while this waited for the lock.
			if err := errors.Join(err, db.Close()); err != nil {
				return err
			}
		}
	})
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

// isAt reports whether path still names an open file.
func isAt(file *os.File, path string) (bool, error) {
	opened, err := file.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	return os.SameFile(opened, named), nil
}

// damaged wraps err with what is wrong with a file and what can be done.
func damaged(path string, err error) error {
	return fmt.Errorf("%s: %w: %w. The file was left as it is. Restore a backup of it; or move it away and start over, "+
		"which loses the events that were not delivered yet and the dead letters, and reads every stream again from its start setting",
		path, ErrDamaged, err)
}
