package checkpoint

import (
	"bufio"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
	"ndrbridge/internal/fileaccess"
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
	if _, err := checkFile(path, boltfile.Options().Timeout, false); err != nil {
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

// WriteCopy has write write a temporary file in the folder of path, of mode 0600, and finish change
// it when it is complete, synced and closed; nil: nothing is changed. Then it gives the file its name,
// which is durable when WriteCopy returns. It returns the size in bytes.
func WriteCopy(path string, write func(io.Writer) error, finish func(path string) error) (int64, error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name()) // fails after the rename
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil && finish != nil {
		err = finish(file.Name())
	}
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(file.Name())
	if err != nil {
		return 0, err
	}
	return info.Size(), Rename(file.Name(), path)
}

// UnfinishedCopy reports whether a file name is that of a temporary file of WriteCopy, and returns
// the name that the file would have got; otherwise name itself.
func UnfinishedCopy(name string) (finished string, is bool) {
	end := strings.LastIndexByte(name, '.')
	if end < 1 || name[0] != '.' {
		return name, false
	}
	if _, err := strconv.ParseUint(name[end+1:], 10, 64); err != nil {
		return name, false
	}
	return name[1:end], true
}

// Backup writes a consistent copy of the state to w, and returns its size. Reads and writes
// continue meanwhile; a slow w blocks nobody. The copy is a complete state file.
func (s *Store) Backup(ctx context.Context, w io.Writer) (n int64, err error) {
	err = s.spool(ctx, func(tx *bolt.Tx, to *bufio.Writer) error {
		_, err := tx.WriteTo(to)
		return err
	}, func(from io.Reader) error {
		n, err = io.Copy(contextWriter{ctx, w}, from)
		return err
	})
	return n, wrapf(err, "back up the state")
}

// dumpReserve is how many bytes a dump leaves free, for the states beside it: bbolt extends
// each by up to 16 MiB at once.
const dumpReserve = 128 << 20

// Dump yields records that make the state, as it is at one moment, out of an empty replica,
// and returns up to where it holds the log, if there is one.
// Records have about pieceBytes, unless a single entry is larger; each is valid during the
// call of yield only. Reads and writes continue meanwhile, however slow yield is. Dump works for a
// state that was opened ReadOnly too, of any layout that can be opened. It returns ErrDamaged if
// the file is a copy of a log that was not restored completely, and an error if less than
// 128 MiB are free on the disk, also while it yields.
func (d *database) Dump(ctx context.Context, pieceBytes int, yield func(record []byte) error) (at Point, err error) {
	var reached Point
	err = d.spool(ctx, func(tx *bolt.Tx, w *bufio.Writer) error {
		if incomplete(tx) {
			return damaged(d.path, errIncomplete)
		}
		reached = appliedAt(tx)
		written := gob.NewEncoder(w)
		b := boltfile.Builder{Scheme: scheme, PieceBytes: pieceBytes}
		b.Yield = func(record []byte) error { return cmp.Or(d.CheckFree(0), written.Encode(record)) }
		return b.Dump(tx)
	}, func(r io.Reader) error {
		read := gob.NewDecoder(r)
		var record []byte
		for {
			if err := cmp.Or(ctx.Err(), d.CheckFree(0)); err != nil {
				return err
			}
			if err := read.Decode(&record); err == io.EOF {
				at = reached
				return nil
			} else if err != nil {
				return fmt.Errorf("read the dump: %w", err)
			}
			if err := yield(record); err != nil {
				return err
			}
		}
	})
	return at, wrapf(err, "dump the state")
}

// spool writes to a file beside the state, at the disk's speed, and then reads the file: as long
// as a transaction reads, the state grows with everything that is written.
func (d *database) spool(ctx context.Context, write func(*bolt.Tx, *bufio.Writer) error, read func(io.Reader) error) error {
	file, err := boltfile.CreateTemp(d.path, ".dump")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	_ = os.Remove(file.Name()) // if an open file can be removed, a crash leaves nothing behind
	w := bufio.NewWriterSize(contextWriter{ctx, file}, 256<<10)
	err = d.view(ctx, func(tx *bolt.Tx) error { return cmp.Or(write(tx, w), w.Flush()) })
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	return read(bufio.NewReaderSize(file, 256<<10))
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

// errFewBytesFree is wrapped by the errors of CheckFree.
var errFewBytesFree = errors.New("free disk space")

// CheckFree returns an error unless the disk of the state has space for so many bytes, and for what
// states need, 128 MiB.
func (d *database) CheckFree(bytes int64) error {
	free := fileaccess.Free
	if d.free != nil {
		free = d.free
	}
	folder := filepath.Dir(d.path)
	if left, known := free(folder); known && left < uint64(bytes)+dumpReserve {
		return fmt.Errorf("%d MiB are free in %s, and %d MiB are needed, because %d MiB are kept for the states: %w",
			left>>20, folder, (bytes+dumpReserve)>>20, dumpReserve>>20, errFewBytesFree)
	}
	return nil
}
