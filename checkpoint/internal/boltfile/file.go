// Package boltfile opens, checks and sums up the files of bbolt. It holds everything that
// depends on bbolt's file format or on how bbolt fails; the meaning of the buckets is up to the
// caller.
//
// bbolt maps the file into memory and trusts it: a damaged page makes it panic, and a file that
// was cut short makes the system kill the process. Its own Tx.Check does so too, in a goroutine
// where no caller can turn a fault into an error; it may recurse without end, and reads no values.
// So Check reads a file that was not closed cleanly with ordinary reads before bbolt may use it,
// trusts no number in it, and needs one bit for each page. Whatever it accepts, Tx.Check accepts
// too, except pages that are neither free nor in use, which cost space and nothing else.
//
// bbolt reuses pages, so a copy made while the file was being written can be sound in every page
// and still mix several moments. So every transaction stores the sum over all entries of all
// buckets except MetaBucket (see Tx), and Check computes it again. It is the sum of the entries'
// own sums, over the path of the bucket, the key and the value: the cost of a change is
// proportional to the change.
//
// A transaction can be recorded (see Tx.Record), and made again in another file (see Tx.Apply).
// All changes go through Table, so that none is left out, and every record holds the sum after it,
// so that the next record reveals a file that has come to differ.
//
// Guard turns panics and memory faults into ErrUnreadable. If bbolt panics while a transaction
// begins, it keeps its locks: ErrStuck means that the database must not be used again, not
// even to close it.
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

// ErrUnreadable is returned if bbolt failed on a page.
var ErrUnreadable = errors.New("a page cannot be read")

// Options returns the options of all databases. They are measured: pages of 16 KiB double
// the events written per second. The page size applies to new files only; others keep
// their own. The list of free pages is written when a file is closed: a start after a kill
// reads all pages anyway.
func Options() bolt.Options {
	return bolt.Options{
		Timeout:        time.Second, // for another process that is about to end
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
			opened, err := file.Stat()
			if err == nil {
				var named fs.FileInfo
				if named, err = os.Stat(path); err == nil && os.SameFile(opened, named) {
					return nil
				}
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

// Create creates a file whose contents init makes. The file gets its name when it is
// complete, so that a crash half way does not leave a file that looks damaged; and only if
// nobody else has created one in the meantime.
func Create(path string, init func(*bolt.Tx) error) error {
	file, err := CreateTemp(path, ".new")
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
	return SyncDir(path)
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

// CreateTemp creates a file beside the one at path, of mode Mode.
func CreateTemp(path, suffix string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*"+suffix)
}

// CreateFirst creates a file with the contents that write writes, under the first name,
// counted from 0, that no file has, and returns its path. The file gets its name, in the
// folder of name(0), when it is complete.
func CreateFirst(name func(n int) string, write func(*os.File) error) (path string, err error) {
	file, err := CreateTemp(name(0), ".new")
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	if err = write(file); err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	for n := 0; ; n++ {
		path = name(n)
		err := os.Link(file.Name(), path)
		if err == nil {
			return path, SyncDir(path)
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
}

// SyncDir makes the new name of a file durable. If a directory cannot be synced (Windows),
// the system does so by itself.
func SyncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}

// ErrStuck is returned if bbolt panicked with its locks held: it must not be called again.
var ErrStuck = fmt.Errorf("%w: the first pages", ErrUnreadable)

// Begin begins a transaction. It returns ErrStuck if bbolt panics.
func Begin(db *bolt.DB, writable bool) (tx *bolt.Tx, err error) {
	err = Guard(func() error {
		tx, err = db.Begin(writable)
		return err
	})
	if errors.Is(err, ErrUnreadable) {
		err = fmt.Errorf("%w: %w", ErrStuck, err)
	}
	return tx, err
}

// Update runs do in one write transaction.
func Update(db *bolt.DB, do func(tx *bolt.Tx) error) error {
	tx, err := Begin(db, true)
	if err != nil {
		return err
	}
	return Write(tx, do)
}

// Write runs do in a transaction, and commits it or rolls it back. It is like bbolt's own
// Update, except after a panic: Update would then read more of a damaged file, and might
// panic again with its locks held.
func Write(tx *bolt.Tx, do func(tx *bolt.Tx) error) error {
	err := Guard(func() error {
		if err := do(tx); err != nil {
			return err
		}
		return tx.Commit()
	})
	if err != nil {
		// A failed commit has rolled itself back already, and refuses to do so again.
		_ = Guard(tx.Rollback)
	}
	return err
}
