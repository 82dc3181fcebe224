package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
)

// lostSuffix is added to the name of a file that does not fit its log because it has records that
// the log lost, or those of another history.
const lostSuffix = ".lost"

// files are those of the shards, as far as they are not opened. disk implements it.
type files interface {
	// remove removes a file that NATS can restore, if it is there.
	remove(path string) error
	// rename renames a file durably, and replaces an existing one.
	rename(path, to string) error
	exists(path string) (bool, error)
}

type disk struct{}

func (disk) remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a file that is to be restored: %w", err)
	}
	return nil
}

func (disk) rename(path, to string) error {
	if err := checkpoint.Rename(path, to); err != nil {
		return fmt.Errorf("set a file aside that does not fit its log: %w", err)
	}
	return nil
}

func (disk) exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// keep sets aside the file of a replica that was dropped, if it may be the only copy of what
// it holds. It replaces one that was set aside before only if it leads further, and was not
// restored since.
func (s *shard) keep(r *replica, why error) error {
	if errors.Is(why, checkpoint.ErrDamaged) || errors.Is(why, replicated.ErrPurged) || r.restorable() {
		return nil
	}
	offset := r.file.At().Offset
	lost, err := s.openLost()
	if err != nil {
		s.log.Warn("the file that was set aside cannot be read; it is replaced", "file", s.lostPath(), "error", err)
	}
	if lost != nil {
		further := lost.At().Offset >= offset
		if err := lost.Close(); err != nil || further || r.fresh {
			return err
		}
	}
	return s.setAside(offset)
}

// restorable reports whether the file has no more than the snapshot from which it was restored.
func (r *replica) restorable() bool {
	offset := r.file.At().Offset
	return offset == 0 || r.fresh && offset == r.begin
}

// setAside renames the shard's file, which is closed, so that it is restored and nothing is
// lost. It replaces one that was set aside before.
func (s *shard) setAside(offset uint64) error {
	if err := s.o.files.rename(s.o.Path(s.number), s.lostPath()); err != nil {
		return err
	}
	s.log.Warn("the shard's file was set aside; if nothing that it has is missed, delete it", "file", s.lostPath(), "offset", offset)
	return nil
}

// lostPath is where the shard's file is set aside.
func (s *shard) lostPath() string { return s.o.Path(s.number) + lostSuffix }

// openLost opens the file that was set aside; nil: there is none.
func (s *shard) openLost() (Replica, error) {
	there, err := s.o.files.exists(s.lostPath())
	if err != nil || !there {
		return nil, err
	}
	return s.o.OpenReplica(s.lostPath())
}
