//go:build unix

package checkpoint_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// more returns a commit that can follow fill.
func more(t testing.TB) checkpoint.Commit {
	return checkpoint.Commit{
		Source: source, Expect: []byte("p"), Position: []byte("q"),
		Events: []transform.Event{newEvent(t, "more", time.Unix(200, 0), 500)},
	}
}

func hasFailed(s *checkpoint.Store) bool {
	select {
	case <-s.Failed():
		return true
	default:
		return false
	}
}

func TestFileThatIsGoneWhileItIsOpen(t *testing.T) {
	t.Parallel()
	// another is a state that replaces the file.
	another := func(t *testing.T, path string) {
		t.Helper()
		s := open(t, path+".other", checkpoint.Options{})
		require.NoError(t, errors.Join(s.Close(), os.Rename(path+".other", path)))
	}
	for name, test := range map[string]struct {
		change func(t *testing.T, path string)
		says   string
		saved  string // suffix of the path; "none": nowhere
	}{
		"it was removed": {
			change: func(t *testing.T, path string) {
				require.NoError(t, os.Remove(path))
			},
			says: "removed",
		},
		"it was moved away": {
			change: func(t *testing.T, path string) {
				require.NoError(t, os.Rename(path, path+".moved"))
			},
			says: "removed",
		},
		"it was replaced": {
			change: another,
			says:   "another file", saved: ".1.saved",
		},
		"it was replaced for the second time": {
			change: func(t *testing.T, path string) {
				require.NoError(t, os.WriteFile(path+".1.saved", []byte("the first time"), 0o600))
				another(t, path)
			},
			says: "another file", saved: ".2.saved",
		},
		"its folder was removed": {
			change: func(t *testing.T, path string) {
				require.NoError(t, os.RemoveAll(filepath.Dir(path)))
			},
			says: "could not be saved", saved: "none",
		},
	} {
		for when, notice := range map[string]func(*testing.T, *checkpoint.Store){
			"noticed by a write": func(t *testing.T, s *checkpoint.Store) {
				assert.ErrorIs(t, s.Commit(t.Context(), more(t)), checkpoint.ErrLost)
			},
			"noticed while nothing is written": func(*testing.T, *checkpoint.Store) { time.Sleep(time.Minute) },
			"noticed as it closes": func(t *testing.T, s *checkpoint.Store) {
				require.NoError(t, s.Close())
			},
		} {
			t.Run(name+", "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					path := filepath.Join(t.TempDir(), "states", "state.db")
					require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
					s := open(t, path, checkpoint.Options{})
					fill(t, s)
					time.Sleep(time.Minute + time.Second/2) // between two looks at the file
					if hasFailed(s) {
						t.Fatalf("failed before: %v", s.Err())
					}
					test.change(t, path)
					there, _ := os.ReadFile(path)

					notice(t, s)
					synctest.Wait()
					if !hasFailed(s) || !errors.Is(s.Err(), checkpoint.ErrLost) {
						t.Fatalf("not noticed: %v", s.Err())
					}
					for _, want := range []string{path, test.says, "start"} {
						if !strings.Contains(s.Err().Error(), want) {
							t.Errorf("%v: does not say %q", s.Err(), want)
						}
					}
					err := s.Commit(t.Context(), more(t))
					assert.True(t, errors.Is(err, checkpoint.ErrLost) || errors.Is(err, checkpoint.ErrClosed), "written", err)
					require.NoError(t, s.Close())
					if test.saved == "none" {
						return
					}
					now, _ := os.ReadFile(path)
					assert.True(t, test.saved == "" || string(now) == string(there), "the file that replaced it was changed")
					saved := open(t, path+test.saved, checkpoint.Options{})
					wantFilled(t, saved)
					assert.NoError(t, saved.Commit(t.Context(), more(t)))
				})
			})
		}
	}
}

func TestFileThatIsCutShortOrOverwrittenWhileItIsOpen(t *testing.T) {
	for name, change := range map[string]func(path string, size, used int64) error{
		"cut to nothing":              func(path string, _, _ int64) error { return os.Truncate(path, 0) },
		"cut in the first page":       func(path string, _, _ int64) error { return os.Truncate(path, 1000) },
		"cut after the meta pages":    func(path string, _, _ int64) error { return os.Truncate(path, 2*16<<10) },
		"cut in the middle of a page": func(path string, _, _ int64) error { return os.Truncate(path, 5*16<<10+100) },
		"cut by the last byte in use": func(path string, _, used int64) error { return os.Truncate(path, used-1) },
		"cut and filled up with zeros": func(path string, size, _ int64) error {
			return errors.Join(os.Truncate(path, 0), os.Truncate(path, size))
		},
		"overwritten by a copy of an older moment": func(path string, _, _ int64) error {
			older, err := os.ReadFile(path + ".older")
			if err != nil {
				return err
			}
			return os.WriteFile(path, older, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := statePath(t)
			s := open(t, path, checkpoint.Options{})
			s.ReadFromFile()
			require.NoError(t, s.Configure(t.Context(), map[string]checkpoint.Start{"a": {}, "b": {}}))
			older, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path+".older", older, 0o600)
			}
			require.NoError(t, err)
			fill(t, s)
			info := require.Value(os.Stat(path))(t)
			used := require.Value(s.Backup(t.Context(), io.Discard))(t)

			// Reads and writes may fail meanwhile, but must not panic or hang.
			ctx, cancel := context.WithCancel(t.Context())
			var readers sync.WaitGroup
			for range 4 {
				readers.Go(func() {
					for ctx.Err() == nil {
						s.Read(ctx, 0, checkpoint.Batch{})
						s.Stats(ctx)
						s.Recall(ctx, source, []string{"0", "599"})
					}
				})
			}
			require.NoError(t, change(path, info.Size(), used))
			for !hasFailed(s) {
				use(s)
			}
			cancel()
			readers.Wait()
			err = s.Err()
			assert.True(t, errors.Is(err, checkpoint.ErrDamaged) && strings.Contains(err.Error(), "backup"), err, "want ErrDamaged, and what to do")
			assert.ErrorIs(t, s.Commit(t.Context(), more(t)), checkpoint.ErrDamaged, "written")
			_, err = s.Read(t.Context(), 0, checkpoint.Batch{})
			assert.ErrorIs(t, err, checkpoint.ErrDamaged, "read")
			assert.ErrorIs(t, s.WaitCommands(t.Context(), 1000), checkpoint.ErrDamaged, "waited for commands")
			require.NoError(t, s.Close())
		})
	}
}
