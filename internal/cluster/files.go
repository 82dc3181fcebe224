package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"ndrbridge/checkpoint"
)

// files are the copies of the state, as far as they are not opened. disk implements it.
type files interface {
	// exists reports whether there is a file, which may be damaged.
	exists(path string) bool
	// remove removes a file that NATS can restore, if it is there.
	remove(path string) error
	// rename renames a file durably, and replaces an existing one.
	rename(path, to string) error
}

type disk struct{}

func (disk) exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func (disk) remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a copy that is to be restored: %w", err)
	}
	return nil
}

func (disk) rename(path, to string) error {
	if err := checkpoint.Rename(path, to); err != nil {
		return fmt.Errorf("set aside a copy that does not fit the log: %w", err)
	}
	return nil
}
