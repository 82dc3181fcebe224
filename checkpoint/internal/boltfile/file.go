package boltfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Mode is the mode of new files.
const Mode = 0o600

// LockWait is how long Options waits for another process that is about to end.
const LockWait = time.Second

// ErrUnreadable is returned if bbolt failed on what it read.
var ErrUnreadable = errors.New("a page cannot be read")

// Options returns the options of all databases. They are measured: pages of 16 KiB double
// the events written per second. The page size applies to new files only; others keep
// their own. Whether the list of free pages is written is decided for each transaction:
// see KeepFreelist.
func Options() bolt.Options {
	return bolt.Options{
		Timeout:        LockWait,
		PageSize:       16 << 10,
		FreelistType:   bolt.FreelistMapType,
		NoFreelistSync: true,
	}
}

// MappedAhead returns how many bytes of address space a file gets from the start: up to
// there it grows without being mapped again, which would wait for readers and copy the
// data of the current transaction. On Windows the file would grow to that size at once,
// and 32-bit addresses are too few to be generous with.
func MappedAhead() int {
	if runtime.GOOS == "windows" || strconv.IntSize < 64 {
		return 0
	}
	return 1 << 30
}

// Guard runs a function that reads or writes a database, and turns a panic into
// ErrUnreadable, including a memory fault: bbolt trusts its pages, which are the file
// itself, and a page may be damaged, or be gone since the file was cut short.
func Guard(do func() error) (err error) {
	faults := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(faults)
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrUnreadable, r)
		}
	}()
	return do()
}

// Open opens a file. The returned file belongs to the database, which closes it. If another
// file gets the name while Open waits for the lock, Open opens that one.
func Open(path string, o bolt.Options) (db *bolt.DB, file *os.File, err error) {
	o.OpenFile = func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
		file, err = os.OpenFile(name, flag, mode)
		return file, err
	}
	err = Guard(func() error {
		for {
			if db, err = bolt.Open(path, Mode, &o); err != nil {
				return err
			}
			there, err := isAt(file, path)
			if there {
				return nil
			}
			if err := errors.Join(err, db.Close()); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return nil, nil, err
	}
	return db, file, nil
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

// Create creates a file whose contents init makes. The file gets its name when it is
// complete, so that a crash half way does not leave a file that looks damaged; and only if
// nobody else has created one in the meantime.
func Create(path string, init func(*bolt.Tx) error) error {
	dir, name := Split(path)
	file, err := os.CreateTemp(dir, name+".*.new")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if err := file.Close(); err != nil {
		return err
	}
	o := Options()
	db, err := bolt.Open(file.Name(), Mode, &o)
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(init), db.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w (the state needs a file system with hard links and locks, such as a local disk)", err)
	}
	return SyncDir(dir)
}

// compactBytes is how much Compact writes in one transaction, which it holds in memory.
const compactBytes = 8 << 20

// Compact copies from into the empty file at path, without the space that was freed in it,
// changes the copy with finish, and syncs it once, at the end.
func Compact(path string, from *bolt.DB, finish func(*bolt.Tx) error) error {
	o := Options()
	o.NoSync = true
	db, err := bolt.Open(path, Mode, &o)
	if err != nil {
		return err
	}
	err = Guard(func() error { return bolt.Compact(db, from, compactBytes) })
	if err == nil {
		err = Update(db, finish)
	}
	if err == nil {
		err = db.Sync()
	}
	return errors.Join(err, db.Close())
}

// Split is filepath.Split with a directory that is never empty.
func Split(path string) (dir, name string) {
	dir, name = filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	return dir, name
}

// SyncDir makes a new name durable. If a directory cannot be synced (Windows), the system
// does so by itself.
func SyncDir(dir string) error {
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
