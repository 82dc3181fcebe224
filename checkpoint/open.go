package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// fileMode is the state's mode: it holds what the appliance knows of a network.
const fileMode = 0o600

// lockTimeout is how long another process that is about to end is waited for.
const lockTimeout = time.Second

// boltOptions are measured: pages of 16 KiB double the events that are written
// in a second. They are the size of new files alone; others keep their own.
func boltOptions() bolt.Options {
	return bolt.Options{
		Timeout:        lockTimeout,
		PageSize:       16 << 10,
		FreelistType:   bolt.FreelistMapType,
		NoFreelistSync: true,
		NoStatistics:   true,
	}
}

// openFile opens the state, or makes it where there is none. A file that is
// there is opened for writing only after it was read through and found sound.
func openFile(path string) (*bolt.DB, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = createFile(path); err == nil {
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
	if err := checkFile(path); err != nil {
		return nil, err
	}
	if info.Mode().Perm()&^fileMode != 0 {
		if err := os.Chmod(path, fileMode); err != nil {
			return nil, fmt.Errorf("the state must be readable by its owner alone: %w", err)
		}
	}
	o := boltOptions()
	return openBolt(path, &o)
}

// createFile makes an empty state. It gets its name when it is complete, so that
// a crash half way does not leave what looks like a damaged state; and only if
// nobody else has made one in the meantime.
func createFile(path string) error {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
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

// syncDir makes a new name durable. Where a directory cannot be synced
// (Windows), the system does so by itself.
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

// checkFile reads the file through without writing to it. bbolt itself trusts
// what it maps: it would panic on a damaged page, or die of SIGBUS behind the
// end of a file that was cut short.
func checkFile(path string) (err error) {
	o := boltOptions()
	o.ReadOnly = true
	db, err := openBolt(path, &o)
	if err != nil {
		return err
	}
	defer db.Close()
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()

	defer func() {
		if r := recover(); r != nil {
			err = damaged(path, fmt.Errorf("%v", r))
		}
	}()
	err = db.View(func(tx *bolt.Tx) error {
		if err := checkPages(file, db.Info().PageSize, tx); err != nil {
			return err
		}
		return checkLayout(tx)
	})
	var system *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &system):
		return err
	case errors.Is(err, ErrNewer):
		return fmt.Errorf("%s: %w: use the version that wrote it, or a newer one", path, err)
	}
	return damaged(path, err)
}

// openBolt opens a file with bbolt, and gives its errors our names.
func openBolt(path string, o *bolt.Options) (db *bolt.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, damaged(path, fmt.Errorf("%v", r))
		}
	}()
	db, err = bolt.Open(path, fileMode, o)
	var (
		system *fs.PathError
		errno  syscall.Errno
	)
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%s: %w: most likely another ndrbridge runs with it; stop that one, or use another path for the state", path, ErrLocked)
	case errors.As(err, &system):
		return nil, err
	case errors.As(err, &errno):
		return nil, fmt.Errorf("lock or map %s: %w", path, err)
	}
	return nil, damaged(path, err)
}

// damaged says what is wrong with a file, and what can be done.
func damaged(path string, err error) error {
	return fmt.Errorf("%s: %w: %w. The file was left as it is. Restore a backup of it; or move it away and start anew, "+
		"which loses the events that were not delivered yet and the dead letters, and reads every stream again from its start setting",
		path, ErrDamaged, err)
}
