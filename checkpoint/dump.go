package checkpoint

import (
	"bufio"
	"cmp"
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
	"ndrbridge/internal/disk"
)

// dumpReserve is how many bytes a dump leaves free, for the states beside it: bbolt extends
// each by up to 16 MiB at once.
const dumpReserve = 128 << 20

// Dump yields records that make the state, as it is at one moment, out of an empty replica,
// and returns up to where it holds the log, if there is one.
// Records have about pieceBytes, unless a single entry is larger; each is valid during the
// call of yield only. Reads and writes continue meanwhile, however slow yield is: Dump first
// writes the records to a file beside the state, at the disk's speed. It works for a state
// that was opened ReadOnly too, of any layout that can be opened. It returns ErrDamaged if
// the file is a copy of a log that was not restored completely, and an error if less than
// 128 MiB are free on the disk, also while it yields.
func (s *Store) Dump(ctx context.Context, pieceBytes int, yield func(record []byte) error) (at Point, err error) {
	at, err = s.dump(ctx, s.view, pieceBytes, yield)
	return at, wrapf(err, "dump the state")
}

// Dump is Store.Dump for a replica.
func (r *Replica) Dump(ctx context.Context, pieceBytes int, yield func(record []byte) error) (at Point, err error) {
	at, err = r.dump(ctx, r.view, pieceBytes, yield)
	return at, wrapf(err, "dump the replica")
}

func (d *database) dump(
	ctx context.Context, view func(context.Context, func(*bolt.Tx) error) error,
	pieceBytes int, yield func(record []byte) error,
) (at Point, err error) {
	file, err := boltfile.CreateTemp(d.path, ".dump")
	if err != nil {
		return Point{}, err
	}
	defer file.Close()
	defer os.Remove(file.Name())
	_ = os.Remove(file.Name()) // if an open file can be removed, a crash leaves nothing behind

	w := bufio.NewWriterSize(contextWriter{ctx, file}, 256<<10)
	err = view(ctx, func(tx *bolt.Tx) error {
		if incomplete(tx) {
			return damaged(d.path, errIncomplete)
		}
		at = appliedAt(tx)
		written := gob.NewEncoder(w)
		b := boltfile.Builder{Scheme: scheme, PieceBytes: pieceBytes}
		b.Yield = func(record []byte) error { return cmp.Or(d.checkFree(), written.Encode(record)) }
		return b.Dump(tx)
	})
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return Point{}, err
	}
	read := gob.NewDecoder(bufio.NewReaderSize(file, 256<<10))
	var record []byte
	for {
		if err := cmp.Or(ctx.Err(), d.checkFree()); err != nil {
			return Point{}, err
		}
		if err := read.Decode(&record); err == io.EOF {
			return at, nil
		} else if err != nil {
			return Point{}, fmt.Errorf("read the dump: %w", err)
		}
		if err := yield(record); err != nil {
			return Point{}, err
		}
	}
}

// checkFree returns an error if a dump would take space that states need.
func (d *database) checkFree() error {
	free := disk.Free
	if d.free != nil {
		free = d.free
	}
	folder := filepath.Dir(d.path)
	if bytes, known := free(folder); known && bytes < dumpReserve {
		return fmt.Errorf("%d MiB are free in %s, and %d MiB are kept for the states: free disk space", bytes>>20, folder, dumpReserve>>20)
	}
	return nil
}
