// Package secretfile reads files that contain secrets, or templates, which may contain
// some, and checks for characters that no secret can have.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// maxBytes limits the size of a file.
const maxBytes = 1 << 20

// Read returns the content of a file. It returns an error for a file larger than 1 MiB,
// and for anything but a regular file, before opening it: a pipe would block, and could
// not be read a second time. The error names the file without quoting its content.
func Read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, withoutCall(err)
	}
	if !info.Mode().IsRegular() {
		if info.IsDir() {
			return nil, fmt.Errorf("%s is a folder, not a file", path)
		}
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, withoutCall(err)
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

// withoutCall returns err without the name of the system call, which means nothing to users.
func withoutCall(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", failed.Path, failed.Err)
	}
	return err
}

// HasControl reports whether text contains a line break or a control character other
// than a tab: no header, URL or password can contain one.
func HasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
