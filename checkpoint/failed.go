package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"ndrbridge/checkpoint/internal/boltfile"
)

// ErrLost means that another program removed, replaced or wrote to the state file while it
// was open.
var ErrLost = errors.New("the state file is gone")

// watchEvery is how often an idle store checks its file. A store that writes checks before
// each transaction.
const watchEvery = 5 * time.Second

// Failed returns a channel that is closed when the store can no longer be used: its file
// was removed, replaced or cut short, or has become unreadable. Every call fails from then
// on, and the process should exit with Err: further deliveries could not be recorded.
//
// If the file was removed or replaced, the committed state is copied first: to the same
// path if there is no file now, else to a file beside it, which Err names.
//
// A store with a Log also fails if Append returns an error, or if it cannot commit to its
// file what the log has: the file is behind the log then. Err wraps ErrNotOwner if another
// process owns the log. A Replica can continue with the file; nothing is copied.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// watch fails the store if its file is no longer at its path. Only the writer calls it.
func (s *Store) watch() {
	if s.Err() != nil {
		return
	}
	if how := s.gone(); how != "" {
		s.lose(how)
		return
	}
	_ = s.judge(s.whole())
}

// lose saves the committed state, and fails the store.
func (s *Store) lose(how string) {
	lost := fmt.Errorf("%s: %w: %s while ndrbridge had it open", s.path, ErrLost, how)
	if !s.setFailure(lost) { // nothing is read or written meanwhile
		return
	}
	if s.log != nil { // which has the state
		close(s.failed)
		return
	}
	saved, err := s.save()
	switch {
	case err != nil:
		lost = fmt.Errorf("%w. The committed state could not be saved: %w. Restore a backup before the next start, which begins with an empty state otherwise", lost, err)
	case saved == s.path:
		lost = fmt.Errorf("%w. The committed state was saved there again, and the next start continues from it", lost)
	default:
		lost = fmt.Errorf("%w. The committed state was saved as %s. The next start continues from the file that is now at %s; "+
			"to continue from the committed state, put the saved file in its place first", lost, saved, s.path)
	}
	s.failing.Lock()
	s.failure = lost
	s.failing.Unlock()
	close(s.failed)
}

// save copies the file, to which nobody writes any more, to its path, or, if there is
// another file by now, to a new file beside it. It returns the copy's path.
func (s *Store) save() (path string, err error) {
	info, err := s.file.Stat()
	if err != nil {
		return "", err
	}
	name := func(n int) string {
		if n == 0 {
			return s.path
		}
		return fmt.Sprintf("%s.%d.saved", s.path, n)
	}
	return boltfile.CreateFirst(name, func(file *os.File) error {
		_, err := io.Copy(file, io.NewSectionReader(s.file, 0, info.Size()))
		return err
	})
}
