//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package file

import (
	"errors"
	"os"
	"syscall"

	"ndrbridge/internal/failure"
)

// lock locks the file until it is closed: two sinks that write to one file would
// truncate each other's lines. The lock is advisory, and is left out if the file
// system does not support locks.
func lock(file *os.File) error {
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return failure.Errorf(failure.Halted, "%s is in use by another sink or process", file.Name())
	}
	return nil
}

// syncDirectory makes the entries of a directory durable.
func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}
