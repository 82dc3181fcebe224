package configs

import (
	"errors"
	"io/fs"
)

// contentError is an error about the content of a file, with advice.
type contentError string

// Error returns the text.
func (e contentError) Error() string { return string(e) }

// fileAdvice returns the end of a message about a file that cannot be used: what to do,
// unless the error has it.
func fileAdvice(err error) string {
	if _, advised := errors.AsType[contentError](err); advised {
		return ""
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "; correct the path, or create the file"
	case errors.Is(err, fs.ErrPermission):
		return "; let the user that the bridge runs as read it"
	}
	return "; correct the path"
}
