// Package secretfile reads the files that hold secrets, and templates, which may, and says
// which texts cannot be a secret.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxBytes bounds what is read of a file.
const maxBytes = 1 << 20

// Read returns what a file holds. It refuses one above 1 MiB, and what is not a regular
// file before it opens it: a pipe would block, and could not be read a second time. The
// error names the file, and shows nothing of what it holds.
func Read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxBytes {
		return nil, fmt.Errorf("%s is larger than 1 MiB", path)
	}
	return data, nil
}

// HasControl reports whether text has a line break or another control character but for
// tabs: no header, URL or password can hold one.
func HasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
