package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
)

// Compact rewrites a state that no process has open, without the space that was freed in
// it, and returns the file's size before and after. The new file is written beside the old
// one and replaces it when it is complete. The layout keeps its version.
//
// Compact returns ErrLocked, ErrDamaged and ErrNewer as Open does: the file is then left
// unchanged.
func Compact(path string) (before, after int64, err error) {
	defer func() { err = wrapf(advise(err, false), "compact the state") }()
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, 0, fmt.Errorf("%s is not a file", path)
	}
	if _, err := checkFile(path, boltfile.LockWait, false); err != nil {
		return 0, 0, err
	}
	// The lock keeps other processes out until the new file has the name. A process that
	// waits for the lock sees then that it has opened the old file.
	old, _, err := openBolt(path, boltfile.Options())
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, old.Close()) }()

	file, err := boltfile.CreateTemp(path, ".compact")
	if err != nil {
		return 0, 0, err
	}
	defer os.Remove(file.Name())
	if err := file.Close(); err != nil {
		return 0, 0, err
	}
	// The copy is not marked as closed cleanly: it is another file.
	if err := boltfile.Compact(file.Name(), old, unmark); err != nil {
		if errors.Is(err, boltfile.ErrUnreadable) {
			err = damaged(path, err)
		}
		return 0, 0, err
	}
	compacted, err := os.Stat(file.Name())
	if err != nil {
		return 0, 0, err
	}
	return info.Size(), compacted.Size(), Rename(file.Name(), path)
}

// Rename gives the file at path, which nobody writes, another name in
// the same folder, and makes that durable: after a crash the old name is not there again.
func Rename(path, to string) error {
	if err := os.Rename(path, to); err != nil {
		return err
	}
	return boltfile.SyncDir(to)
}

// Backup writes a consistent copy of the state to w, and returns its size. Reads and writes
// continue meanwhile; a slow w blocks nobody. The copy is a complete state file. It first
// makes the copy beside the state, at the disk's speed: as long as a transaction reads, the
// file grows with everything that is written.
func (s *Store) Backup(ctx context.Context, w io.Writer) (n int64, err error) {
	defer func() { err = wrapf(err, "back up the state") }()
	file, err := boltfile.CreateTemp(s.path, ".backup")
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name())
	defer func() { err = errors.Join(err, file.Close()) }()
	_ = os.Remove(file.Name()) // if an open file can be removed, a crash leaves nothing behind
	err = s.view(ctx, func(tx *bolt.Tx) error {
		_, err := tx.WriteTo(contextWriter{ctx, file})
		return err
	})
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return 0, err
	}
	return io.Copy(contextWriter{ctx, w}, file)
}

// contextWriter writes until its context is done.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c contextWriter) Write(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(b)
}

// keep copies the file to <path>.v<version>.bak, or with a number before bak if that
// exists, and returns the path of the copy.
func keep(db *bolt.DB, path string, version int) (string, error) {
	name := func(n int) string {
		if n == 0 {
			return fmt.Sprintf("%s.v%d.bak", path, version)
		}
		return fmt.Sprintf("%s.v%d.%d.bak", path, version, n+1)
	}
	return boltfile.CreateFirst(name, func(file *os.File) error {
		return boltfile.Guard(func() error {
			return db.View(func(tx *bolt.Tx) error {
				_, err := tx.WriteTo(file)
				return err
			})
		})
	})
}
