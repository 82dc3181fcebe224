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

// Size returns the number of columns and rows of the terminal that a writer is. It returns
// false if the writer is not a terminal, or the terminal does not know its size.
func Size(stream any) (columns, rows int, known bool) {
	file, ok := stream.(*os.File)
	if !ok {
		return 0, 0, false
	}
	columns, rows, err := term.GetSize(int(file.Fd()))
	return columns, rows, err == nil && columns > 0 && rows > 0
}
