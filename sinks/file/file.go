// Package file writes events to a file or to standard output, one document per line.
package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"syscall"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// stdout is the path of standard output.
const stdout = "-"

// Options configure a Sink.
type Options struct {
	// Path is a file or Stdout. The file is created (mode 0640, less the umask) if it
	// does not exist; its directory must exist.
	Path string
	// MaxBytes is the largest size of a file. Before a batch that would exceed it,
	// Path is renamed to Path.1, Path.1 to Path.2, and so on. A batch is not split:
	// one larger than MaxBytes makes a larger file. 0: files are not rotated.
	MaxBytes int64
	// Keep is the number of rotated files to keep: at least 1 if MaxBytes is set.
	Keep int
	// Out replaces standard output if Path is Stdout; nil: os.Stdout.
	Out io.Writer
	// Log receives a warning when torn lines are truncated; nil: nothing is logged.
	Log *slog.Logger
}

// Sink writes the payload of each event on a line of its own.
//
// An event in a file is acknowledged once the file is synced, and survives a crash
// of the machine. Before the next batch is written, the file is truncated at the first line
// that a crash or a full disk left incomplete, so that no line is torn; whole lines of an
// unacknowledged batch before that stay and are written again. On standard output, an event
// is acknowledged once it is written, and a partial line is terminated, so that the next one
// is whole.
type Sink struct {
	options Options
	to      target
	lines   []byte // buffer, reused by each Send
}

// target is where the lines of a batch are written.
type target interface {
	// append writes lines, which end with a newline. It returns nil once they are
	// as durable as the target can make them.
	append(lines []byte) error
	Close() error
}

var _ sinks.Sink = (*Sink)(nil)

// New returns a Sink. It opens nothing: Send does, because its errors have a class.
func New(o Options) *Sink {
	if o.Path == stdout {
		return &Sink{options: o, to: &stream{out: cmp.Or[io.Writer](o.Out, os.Stdout)}}
	}
	logger := cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Sink{options: o, to: &log{path: o.Path, maxBytes: o.MaxBytes, keep: o.Keep, logger: logger}}
}

// Send writes the events as specified by sinks.Sink. A failure concerns all of
// them. A write in progress is not interrupted when ctx is done: writing to a file
// is short, writing to standard output takes as long as its reader does.
func (s *Sink) Send(ctx context.Context, events []transform.Event) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("file: %w", err)
	}
	s.lines = s.lines[:0]
	for _, e := range events {
		s.lines = transform.AppendLine(s.lines, e.Payload())
	}
	return s.to.append(s.lines)
}

// Close closes the file. It does not close Out.
func (s *Sink) Close() error { return s.to.Close() }

// rotate renames the file and opens a new one. A crash between two of its steps
// leaves each file under exactly one name, and the next rotation continues from
// there.
func (l *log) rotate() error {
	l.file.Close() // it was synced with its last batch
	l.file = nil
	for _, step := range rotation(l.path, l.keep) {
		if err := step(); err != nil {
			return err
		}
	}
	return l.open()
}

// rotation returns the steps that rename path to path.1: the files before the first
// free number move up by one; if none is free, the oldest file is replaced. It also
// removes files beyond keep, which remain from a time when keep was larger.
func rotation(path string, keep int) (steps []func() error) {
	numbered := func(n int) string { return fmt.Sprintf("%s.%d", path, n) }
	free := func(n int) bool {
		_, err := os.Lstat(numbered(n))
		return errors.Is(err, fs.ErrNotExist)
	}
	for n := keep + 1; !free(n); n++ {
		steps = append(steps, func() error { return os.Remove(numbered(n)) })
	}
	rename := func(from, to string) {
		steps = append(steps, func() error { return os.Rename(from, to) })
	}
	n := 1
	for n < keep && !free(n) {
		n++
	}
	for ; n > 1; n-- {
		rename(numbered(n-1), numbered(n))
	}
	rename(path, numbered(1))
	return steps
}

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
