package file

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"ndrbridge/internal/failure"
)

// log appends to a file, which it syncs, rotates and repairs.
type log struct {
	path     string
	maxBytes int64
	keep     int
	logger   *slog.Logger

	file *os.File // nil: to be opened
	info os.FileInfo
	// size is the length of the acknowledged lines. If torn is set, the file may be
	// longer, and the excess is truncated before anything is written.
	size int64
	torn bool
}

func (l *log) append(lines []byte) error {
	if err := l.ready(); err != nil {
		return classify(err)
	}
	if l.maxBytes > 0 && l.size > 0 && l.size+int64(len(lines)) > l.maxBytes {
		if err := l.rotate(); err != nil {
			return classify(err)
		}
	}
	l.torn = true
	for rest := lines; len(rest) > 0; {
		part := leading(rest, maxUnsynced)
		_, err := l.file.Write(part)
		if err == nil {
			// After a failed sync, the kernel may mark pages as clean that are not on
			// disk, so these lines are truncated and written again, too.
			err = l.file.Sync()
		}
		if err != nil {
			_ = l.repair() // retried by the next append
			return classify(err)
		}
		rest = rest[len(part):]
	}
	l.torn = false
	l.size += int64(len(lines))
	return nil
}

// leading returns the leading lines of at most maxBytes together, but at least one.
func leading(lines []byte, maxBytes int) []byte {
	if len(lines) <= maxBytes {
		return lines
	}
	if end := bytes.LastIndexByte(lines[:maxBytes], '\n'); end >= 0 {
		return lines[:end+1]
	}
	return lines[:bytes.IndexByte(lines, '\n')+1]
}

// ready makes sure that file is the one at path and ends with a whole line.
func (l *log) ready() error {
	if l.file == nil {
		return l.open()
	}
	if err := l.repair(); err != nil {
		return err
	}
	info, err := os.Stat(l.path)
	switch {
	case err == nil && os.SameFile(info, l.info):
		// It may be shorter, for example after logrotate's copytruncate.
		l.size = info.Size()
		return nil
	case err == nil || errors.Is(err, fs.ErrNotExist):
		// It was moved or removed.
		l.file.Close()
		l.file = nil
		return l.open()
	}
	return err
}

// repair truncates what a failed write left.
func (l *log) repair() error {
	if !l.torn {
		return nil
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > l.size {
		if err := l.file.Truncate(l.size); err != nil {
			return err
		}
	}
	l.torn = false
	return nil
}

// open opens or creates the file and truncates it at the first line that a crash left
// incomplete. The events behind that were not acknowledged and are sent again.
func (l *log) open() (err error) {
	file, err := os.OpenFile(l.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return failure.Errorf(failure.Halted, "%s is not a regular file: use %q for standard output", l.path, stdout)
	}
	if err := lock(file); err != nil {
		return err
	}
	size, err := wholeLines(file, l.path, info.Size())
	if err != nil {
		return err
	}
	if size < info.Size() {
		if err := errors.Join(file.Truncate(size), file.Sync()); err != nil {
			return err
		}
		l.logger.Warn("the file had an incomplete line near its end, as after a crash; it was truncated there, and the removed events are sent again",
			"path", l.path, "bytes", info.Size()-size)
	}
	// A new file is durable once its directory is synced.
	if err := syncDirectory(filepath.Dir(l.path)); err != nil {
		return err
	}
	l.file, l.info, l.size, l.torn = file, info, size, false
	return nil
}

// classify returns err with its class, and advice if it is Halted.
func classify(err error) error {
	if classified, ok := errors.AsType[*failure.Error](err); ok {
		return failure.Errorf(classified.Class, "file: %w", err)
	}
	advice := ""
	switch {
	case errors.Is(err, fs.ErrPermission):
		advice = "check owner and mode of the file and its directory"
	case errors.Is(err, fs.ErrNotExist):
		advice = "create the directory"
	case errors.Is(err, syscall.EROFS):
		advice = "the file system is read-only"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENAMETOOLONG):
		advice = "check path"
	default:
		return failure.Unavailable(failure.ScopeTarget, "file: %w", err)
	}
	return failure.Errorf(failure.Halted, "file: %w (%s)", err, advice)
}

// Close closes the file. Acknowledged lines are on disk already.
func (l *log) Close() error {
	if l.file == nil {
		return nil
	}
	// A torn line that cannot be truncated now is found by the next open.
	_ = l.repair()
	err := l.file.Close()
	l.file = nil
	return err
}
