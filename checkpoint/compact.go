package checkpoint

import (
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

// compactBytes is how much Compact writes in one transaction, which it holds in memory.
const compactBytes = 8 << 20

// Compact rewrites a state that no process has open, without the space that was freed in
// it, and returns the file's size before and after. The new file is written beside the old
// one and replaces it when it is complete. The layout keeps its version.
//
// Compact returns ErrLocked, ErrDamaged and ErrNewer as Open does: the file is then left
// unchanged.
func Compact(path string) (before, after int64, err error) {
	if before, after, err = compact(path); err != nil {
		return 0, 0, fmt.Errorf("compact the state: %w", err)
	}
	return before, after, nil
}

func compact(path string) (before, after int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, 0, fmt.Errorf("%s is not a file", path)
	}
	if _, err := checkFile(path, defaultLockWait, false); err != nil {
		return 0, 0, err
	}
	// The lock keeps other processes out until the new file has the name. A process that
	// waits for the lock sees then that it has opened the old file.
	o := boltOptions()
	old, _, err := openBolt(path, &o)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, old.Close()) }()

	dir, name := split(path)
	file, err := os.CreateTemp(dir, name+".*.compact")
	if err != nil {
		return 0, 0, err
	}
	defer os.Remove(file.Name())
	if err := file.Close(); err != nil {
		return 0, 0, err
	}
	if err := copyInto(file.Name(), old); err != nil {
		if errors.Is(err, errUnreadable) {
			err = damaged(path, err)
		}
		return 0, 0, err
	}
	compacted, err := os.Stat(file.Name())
	if err != nil {
		return 0, 0, err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return 0, 0, err
	}
	return info.Size(), compacted.Size(), syncDir(dir)
}

// copyInto copies a state into an empty file and syncs it once, at the end. The copy is
// not marked as closed cleanly: it is another file.
func copyInto(path string, from *bolt.DB) error {
	o := boltOptions()
	o.NoSync = true
	db, err := bolt.Open(path, fileMode, &o)
	if err != nil {
		return err
	}
	err = guard(func() error { return bolt.Compact(db, from, compactBytes) })
	if err == nil {
		err = update(db, unmark)
	}
	if err == nil {
		err = db.Sync()
	}
	return errors.Join(err, db.Close())
}
