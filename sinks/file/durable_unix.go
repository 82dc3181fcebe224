//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package file

import (
	"errors"
	"os"
	"syscall"

	"ndrbridge/sinks"
)

// lock keeps the file to this sink until it is closed: two that write to one
// file would cut off each other's lines. It is advisory, and where the file
// system knows no locks, there is none.
func lock(file *os.File) error {
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return sinks.Errorf(sinks.Halted, "%s is written to by another sink or process", file.Name())
	}
	return nil
}

// syncDirectory makes durable which files a directory holds.
func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}
