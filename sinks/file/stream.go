package file

import (
	"errors"
	"io"
	"os"
	"syscall"

	"ndrbridge/sinks"
)

// stream writes to what can only be written to: standard output.
type stream struct {
	out  io.Writer
	torn bool // the last line written has no end
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

// streamFailure gives an error its class. A reader that has gone away does not
// come back to this process.
func streamFailure(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EBADF) {
		return sinks.Errorf(sinks.Halted, "standard output: %w (nobody reads it any more)", err)
	}
	return sinks.Errorf(sinks.Transient, "standard output: %w", err)
}

// Close leaves out to its owner.
func (s *stream) Close() error { return nil }
