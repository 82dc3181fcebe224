package file

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"ndrbridge/sinks"
)

// log appends to a file that is synced, rotated and fixed.
type log struct {
	path     string
	maxBytes int64
	keep     int
	logger   *slog.Logger

	file *os.File // nil: to be opened
	info os.FileInfo
	// size is the length of what is acknowledged. Where torn is set, the file may
	// be longer, and nothing is written before that is cut off.
	size int64
	torn bool
}

func (l *log) append(lines []byte) error {
	if err := l.ready(); err != nil {
		return failure(err)
	}
	if l.maxBytes > 0 && l.size > 0 && l.size+int64(len(lines)) > l.maxBytes {
		if err := l.rotate(); err != nil {
			return failure(err)
		}
	}
	l.torn = true
	_, err := l.file.Write(lines)
	if err == nil {
		// After a sync that failed, the pages may count as clean although they
		// never reached the disk: they are cut off and written again as well.
		err = l.file.Sync()
	}
	if err != nil {
		_ = l.repair() // the next attempt tries again
		return failure(err)
	}
	l.torn = false
	l.size += int64(len(lines))
	return nil
}

// ready makes sure that file is what path leads to, and ends with whole lines.
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
		// It is shorter where somebody copied it and truncated it.
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

// fix cuts off what a failed write left.
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

// open opens or makes the file, and cuts off what a crash left behind its last whole
// line: none of that was acknowledged, and it is sent again.
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
		return sinks.Errorf(sinks.Halted, "%s is no regular file: use %q for standard output", l.path, Stdout)
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
		l.logger.Warn("the file ended with a line that is not whole, as a crash leaves it; it was cut off, and its event is sent again",
			"path", l.path, "bytes", info.Size()-size)
	}
	// A new file is durable when its directory is.
	if err := syncDirectory(filepath.Dir(l.path)); err != nil {
		return err
	}
	l.file, l.info, l.size, l.torn = file, info, size, false
	return nil
}

// failure gives an error its class.
func failure(err error) error {
	if classified, ok := errors.AsType[*sinks.Error](err); ok {
		return sinks.Errorf(classified.Class, "file: %w", err)
	}
	advice := ""
	switch {
	case errors.Is(err, fs.ErrPermission):
		advice = "check owner and mode of the file and its directory"
	case errors.Is(err, fs.ErrNotExist):
		advice = "make the directory"
	case errors.Is(err, syscall.EROFS):
		advice = "the file system is read-only"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENAMETOOLONG):
		advice = "check path"
	default:
		return sinks.Errorf(sinks.Transient, "file: %w", err)
	}
	return sinks.Errorf(sinks.Halted, "file: %w (%s)", err, advice)
}

// Close closes the file. What it acknowledged is on disk already.
func (l *log) Close() error {
	if l.file == nil {
		return nil
	}
	// A torn line that cannot be cut off now is found at the next open.
	_ = l.repair()
	err := l.file.Close()
	l.file = nil
	return err
}
