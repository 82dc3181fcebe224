// Package file writes events to a file or to standard output, one JSON object a
// line.
package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Stdout is the path that stands for standard output.
const Stdout = "-"

// Options say where events are written.
type Options struct {
	// Path is a file, which is made (mode 0640, less the umask) where it does not
	// exist, in a directory that does; or Stdout.
	Path string
	// MaxBytes is the size that a file is not to pass: before a batch that would
	// take it there, it becomes Path.1, Path.1 becomes Path.2, and so on. A batch
	// goes to one file, so that one larger than MaxBytes makes a larger file. 0:
	// files are not rotated.
	MaxBytes int64
	// Keep is how many rotated files are kept; at least 1 where MaxBytes is set.
	Keep int
	// Out is written to when Path is Stdout; nil: os.Stdout.
	Out io.Writer
	// Log takes what was cut off a file; nil: nothing is logged.
	Log *slog.Logger
}

// Sink writes events in the JSON event format, each on a line of its own.
//
// An event in a file is acknowledged when the file is synced: it survives a crash
// of the machine. What a crash or a full disk left of a batch is cut off before
// the next one is written, so that no line is ever torn; whole lines that a crash
// left stay, and are written again. On standard output an event is acknowledged
// when it is written, and a line that could not be finished is ended, so that the
// next is whole.
type Sink struct {
	to    target
	lines []byte // the last batch, to be written over
}

// target takes the lines of a batch.
type target interface {
	// append writes the lines, which end with a newline. It returns nil when
	// they are as durable as the target can make them.
	append(lines []byte) error
	Close() error
}

var _ sinks.Sink = (*Sink)(nil)

// New makes a sink. It opens nothing: that is left to Send, whose errors have a
// class. The error tells the option that is wrong.
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

// Send writes the events as sinks.Sink says. A failure concerns all of them. A
// write that has begun is not interrupted when ctx ends: a file's is short, and
// standard output's is as long as its reader wants.
func (s *Sink) Send(ctx context.Context, events []transform.Event) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("file: %w", err)
	}
	s.lines = s.lines[:0]
	for _, e := range events {
		s.lines = appendLine(s.lines, e.Structured())
	}
	return s.to.append(s.lines)
}

// Close closes the file. It does not close Out.
func (s *Sink) Close() error { return s.to.Close() }

// appendLine appends an event as one line. A line break in JSON can only be
// space between tokens, since strings have it escaped, so it is dropped with the
// indentation behind it.
func appendLine(dst, event []byte) []byte {
	if bytes.IndexByte(event, '\n') < 0 && bytes.IndexByte(event, '\r') < 0 {
		dst = append(dst, event...)
		return append(dst, '\n')
	}
	broken := false
	for _, c := range event {
		switch c {
		case '\n', '\r':
			broken = true
			continue
		case ' ', '\t':
			if broken {
				continue
			}
		}
		broken = false
		dst = append(dst, c)
	}
	return append(dst, '\n')
}
