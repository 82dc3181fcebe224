package terminal

import (
	"errors"
	"os"

	"golang.org/x/term"
)

// Is reports whether a reader or writer is a terminal.
func Is(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Columns returns the width of the terminal that a writer is. It returns false if the writer
// is not a terminal, or the terminal does not know its size.
func Columns(stream any) (columns int, known bool) {
	file, ok := stream.(*os.File)
	if !ok {
		return 0, false
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	return columns, err == nil && columns > 0
}

// ReadSecret returns a function that reads a line from the terminal that a reader is without
// showing it, and one that ends that if it was not called to the end. The error is that the
// reader is no terminal.
func ReadSecret(stream any) (read func() string, restore func(), err error) {
	if !Is(stream) {
		return nil, nil, errors.New("not a terminal")
	}
	fd := int(stream.(*os.File).Fd())
	state, err := term.GetState(fd)
	if err != nil {
		return nil, nil, err
	}
	read = func() string {
		line, _ := term.ReadPassword(fd) // empty if it fails
		return string(line)
	}
	return read, func() { _ = term.Restore(fd, state) }, nil
}
