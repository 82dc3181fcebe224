package file

import (
	"errors"
	"io"
	"os"
	"syscall"

	"ndrbridge/internal/failure"
)

// stream writes to standard output.
type stream struct {
	out  io.Writer
	torn bool // the last line written is not terminated
}

func (s *stream) append(lines []byte) error {
	if s.torn {
		if _, err := s.out.Write([]byte{'\n'}); err != nil {
			return streamFailure(err)
		}
		s.torn = false
	}
	n, err := s.out.Write(lines)
	if err == nil {
		return nil
	}
	s.torn = n > 0 && lines[n-1] != '\n'
	return streamFailure(err)
}

// streamFailure returns err with its class. A closed pipe halts the sink: its reader
// does not come back.
func streamFailure(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EBADF) {
		return failure.Errorf(failure.Halted, "standard output: %w (its reader is gone)", err)
	}
	return failure.Unavailable(failure.ScopeTarget, "standard output: %w", err)
}

// Close does nothing: out belongs to its owner.
func (s *stream) Close() error { return nil }
