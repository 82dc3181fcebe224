// Package file writes events to a file or to standard output, one document per line.
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Stdout is the path of standard output.
const Stdout = "-"

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
	to    target
	lines []byte // buffer, reused by each Send
}

// target is where the lines of a batch are written.
type target interface {
	// append writes lines, which end with a newline. It returns nil once they are
	// as durable as the target can make them.
	append(lines []byte) error
	Close() error
}

var _ sinks.Sink = (*Sink)(nil)

// New returns a Sink. It returns an error if an option is invalid. It opens
// nothing: Send does, because its errors have a class.
func New(o Options) (*Sink, error) {
	switch {
	case o.Path == "":
		return nil, errors.New("file: path is empty")
	case o.MaxBytes < 0:
		return nil, fmt.Errorf("file: max_bytes %d is negative", o.MaxBytes)
	case o.Path != Stdout && o.MaxBytes > 0 && o.Keep < 1:
		return nil, fmt.Errorf("file: keep is %d, but rotation needs at least one file to rotate to", o.Keep)
	case o.Path != Stdout:
		logger := o.Log
		if logger == nil {
			logger = slog.New(slog.DiscardHandler)
		}
		return &Sink{to: &log{path: o.Path, maxBytes: o.MaxBytes, keep: o.Keep, logger: logger}}, nil
	case o.Out == nil:
		o.Out = os.Stdout
	}
	return &Sink{to: &stream{out: o.Out}}, nil
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
