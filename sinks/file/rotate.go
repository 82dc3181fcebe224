package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// rotate renames the file and opens a new one. A crash between two of its steps
// leaves each file under exactly one name, and the next rotation continues from
// there.
func (l *log) rotate() error {
	l.file.Close() // it was synced with its last batch
	l.file = nil
	for _, step := range rotation(l.path, l.keep) {
		if err := step.do(); err != nil {
			return err
		}
	}
	return l.open()
}

// step renames a file, or removes it if to is empty.
type step struct{ from, to string }

func (s step) do() error {
	if s.to == "" {
		return os.Remove(s.from)
	}
	return os.Rename(s.from, s.to)
}

// rotation returns the steps that rename path to path.1: the files before the first
// free number move up by one; if none is free, the oldest file is replaced. It also
// removes files beyond keep, which remain from a time when keep was larger.
func rotation(path string, keep int) []step {
	numbered := func(n int) string { return fmt.Sprintf("%s.%d", path, n) }
	free := func(n int) bool {
		_, err := os.Lstat(numbered(n))
		return errors.Is(err, fs.ErrNotExist)
	}
	var steps []step
	for n := keep + 1; !free(n); n++ {
		steps = append(steps, step{from: numbered(n)})
	}
	n := 1
	for n < keep && !free(n) {
		n++
	}
	for ; n > 1; n-- {
		steps = append(steps, step{numbered(n - 1), numbered(n)})
	}
	return append(steps, step{path, numbered(1)})
}
