//go:build unix

package file

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/internal/failure"
	"ndrbridge/test/assert"
	"ndrbridge/test/process"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// limitFiles makes every write beyond a size of a file fail, as on a full disk, until it
// is undone.
func limitFiles(t fatal, bytes int64) (undo func()) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatalf("%v", err)
	}
	limited := before
	limited.Cur = uint64(bytes)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limited); err != nil {
		t.Fatalf("%v", err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

// fatal is implemented by the types of testing and rapid.
type fatal interface{ Fatalf(string, ...any) }

func TestFailureClasses(t *testing.T) {
	for errno, want := range map[syscall.Errno]failure.Class{
		syscall.EACCES: failure.Halted, syscall.EPERM: failure.Halted, syscall.EROFS: failure.Halted,
		syscall.ENOENT: failure.Halted, syscall.ENOTDIR: failure.Halted, syscall.EISDIR: failure.Halted,
		syscall.ELOOP: failure.Halted, syscall.ENAMETOOLONG: failure.Halted,
		syscall.ENOSPC: failure.Transient, syscall.EDQUOT: failure.Transient, syscall.EIO: failure.Transient,
		syscall.EFBIG: failure.Transient, syscall.EMFILE: failure.Transient, syscall.EINTR: failure.Transient,
	} {
		err := classify(&os.PathError{Op: "write", Path: "/var/log/events", Err: errno})
		class, _ := failure.ClassOf(err)
		assert.True(t, class == want && errors.Is(err, errno) && strings.Contains(err.Error(), "/var/log/events"), errno, "class", class, want, err)
	}
}

func TestPartialWriteLeavesNoTornLine(t *testing.T) {
	if !process.InChild(t, "-rapid.checks=40") {
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	path := filepath.Join(t.TempDir(), "x")
	s := New(Options{Path: path})
	defer s.Close()
	events := sinktest.Events(6, 6, 1000)
	require.NoError(t, s.Send(t.Context(), events[:2]))
	before, _ := os.ReadFile(path)
	for range 2 {
		undo := limitFiles(t, int64(len(before))+1500)
		err := s.Send(t.Context(), events[2:])
		undo()
		sinktest.ExpectFailure(t, err, failure.Transient, "file too large")
		after, _ := os.ReadFile(path)
		require.True(t, bytes.Equal(after, before), len(after), "bytes, were", len(before))
	}
	require.NoError(t, s.Send(t.Context(), events[2:]))
	got := readLines(t, path)
	assert.Equal(t, len(got), 6, "lines")
}

// readLines returns the ids of the events in files, which must end with whole lines.
func readLines(t fatal, paths ...string) (ids []string) {
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v", err)
		}
		for line := range bytes.Lines(content) {
			line, ended := bytes.CutSuffix(line, []byte{'\n'})
			e, err := transform.Parse(line)
			if _, oracle := sinktest.Structured(line); err != nil || oracle != nil || !ended {
				t.Fatalf("%s: torn line %q", path, line)
			}
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// TestNoAcknowledgedEventIsLost simulates batches, rotations, crashes during a
// write and between the steps of a rotation, a full disk, and another process that
// renames the file.
func TestNoAcknowledgedEventIsLost(t *testing.T) {
	if !process.InChild(t, "-rapid.checks=40") {
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	pool := sinktest.Events(400, 20, 0)
	rapid.Check(t, func(t *rapid.T) {
		directory := require.Value(os.MkdirTemp("", "crash"))(t)
		defer os.RemoveAll(directory)
		path := filepath.Join(directory, "x")
		options := Options{Path: path, MaxBytes: int64(rapid.IntRange(0, 4000).Draw(t, "max bytes")), Keep: 1000}
		var s *Sink
		reopen := func() {
			if s != nil {
				s.Close()
			}
			s = New(options)
		}
		reopen()
		defer func() { s.Close() }()

		next := 0
		acknowledged := map[string]bool{}
		again := map[string]bool{} // may be written twice: a crash left whole lines of it
		var moved []string
		batch := func() []transform.Event {
			n := min(rapid.IntRange(1, 4).Draw(t, "events"), len(pool)-next)
			return pool[next : next+n]
		}
		deliver := func(events []transform.Event) {
			if len(events) == 0 {
				return
			}
			require.NoError(t, s.Send(t.Context(), events))
			for _, e := range events {
				acknowledged[e.ID] = true
			}
			next += len(events)
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) { deliver(batch()) },
			"crash in a write": func(t *rapid.T) {
				events := batch()
				if len(events) == 0 {
					return
				}
				var lines []byte
				for _, e := range events {
					lines = transform.AppendLine(lines, e.Payload())
					again[e.ID] = true
				}
				s.Close()
				f := require.Value(os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
				f.Write(lines[:rapid.IntRange(0, len(lines)).Draw(t, "written")])
				f.Close()
				reopen()
				deliver(events)
			},
			"crash in a rotation": func(t *rapid.T) {
				s.Close()
				steps := rotation(path, options.Keep)
				for _, step := range steps[:rapid.IntRange(0, len(steps)).Draw(t, "steps")] {
					err := step()
					require.True(t, err == nil || os.IsNotExist(err), err)
				}
				reopen()
			},
			"full disk": func(t *rapid.T) {
				info, err := os.Stat(path)
				if err != nil {
					return
				}
				events := batch()
				if len(events) == 0 {
					return
				}
				// If the file is rotated first, the batch fits.
				undo := limitFiles(t, info.Size()+rapid.Int64Range(0, 300).Draw(t, "space"))
				err = s.Send(t.Context(), events)
				undo()
				if err == nil {
					for _, e := range events {
						acknowledged[e.ID] = true
					}
					next += len(events)
				} else if rapid.Bool().Draw(t, "restart") {
					reopen()
				}
			},
			"moved away": func(t *rapid.T) {
				name := filepath.Join(directory, "moved-"+string(rune('a'+len(moved)%26))+strings.Repeat("a", len(moved)/26))
				if os.Rename(path, name) == nil {
					moved = append(moved, name)
				}
			},
			"": func(*rapid.T) {},
		})
		deliver(batch()) // opens the file and truncates torn lines

		rotated, _ := filepath.Glob(path + ".*")
		seen := map[string]int{}
		for _, id := range readLines(t, append(append(rotated, moved...), path)...) {
			seen[id]++
		}
		for id := range acknowledged {
			n := seen[id]
			require.True(t, n != 0 && (n <= 1 || again[id]), "event", id, "is written", n, "times")
		}
	})
}
