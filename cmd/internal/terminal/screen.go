package terminal

import (
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
