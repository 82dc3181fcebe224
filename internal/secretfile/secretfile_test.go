package secretfile_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/internal/secretfile"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// needle is part of every content: no error may show it.
const needle = "sesame"

const mostBytes = 1 << 20

func write(t *testing.T, path, content string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestRead(t *testing.T) {
	t.Parallel()
	whole := strings.Repeat(needle, mostBytes/len(needle)+1)[:mostBytes]
	for name, content := range map[string]string{
		"a text":                "\ufeff \t" + needle + "\r\nses\x00\xff\xfe\n",
		"nothing":               "",
		"as much as is allowed": whole,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			path, link := write(t, filepath.Join(folder, "file"), content), filepath.Join(folder, "link")
			require.NoError(t, os.Symlink("file", link))
			for _, path := range []string{path, link} {
				got, err := secretfile.Read(path)
				assert.True(t, err == nil && string(got) == content, path, len(got), "bytes", err)
			}
		})
	}
}

func TestErrorsNameTheFileAndDoNotQuoteIt(t *testing.T) {
	t.Parallel()
	unreadable := map[string]func(t *testing.T, path string) string{
		"one byte more than is allowed": func(t *testing.T, path string) string {
			return write(t, path, strings.Repeat(needle, mostBytes/len(needle)+1)[:mostBytes+1])
		},
		"far more than is allowed": func(t *testing.T, path string) string {
			write(t, path, needle)
			if err := os.Truncate(path, 1<<32); err != nil { // it takes no space
				t.Fatal(err)
			}
			return path
		},
		"a missing file":                        func(_ *testing.T, path string) string { return path },
		"a missing folder":                      func(_ *testing.T, path string) string { return filepath.Join(path, "file") },
		"a path below a file":                   func(t *testing.T, path string) string { return filepath.Join(write(t, path, needle), "file") },
		"a folder":                              func(_ *testing.T, path string) string { return filepath.Dir(path) },
		"a device":                              func(*testing.T, string) string { return "/dev/zero" },
		"a file of bytes that are not readable": func(*testing.T, string) string { return "/proc/self/mem" },
		"a link to nothing": func(t *testing.T, path string) string {
			require.NoError(t, os.Symlink(path+"-none", path))
			return path
		},
		"a link to itself": func(t *testing.T, path string) string {
			require.NoError(t, os.Symlink(path, path))
			return path
		},
		"a pipe that nobody writes to": func(t *testing.T, path string) string {
			require.NoError(t, syscall.Mkfifo(path, 0o600))
			return path
		},
		"a socket": func(t *testing.T, _ string) string {
			folder, err := os.MkdirTemp("", "s") // a socket's path is short
			require.NoError(t, err)
			t.Cleanup(func() { os.RemoveAll(folder) })
			path := filepath.Join(folder, "s")
			l := require.Value(net.Listen("unix", path))(t)
			t.Cleanup(func() { l.Close() })
			return path
		},
	}
	if os.Geteuid() != 0 { // root may read everything
		unreadable["a file that nobody may read"] = func(t *testing.T, path string) string {
			write(t, path, needle)
			require.NoError(t, os.Chmod(path, 0))
			return path
		}
	}
	for name, at := range unreadable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := at(t, filepath.Join(t.TempDir(), "file"))
			got, err := secretfile.Read(path)
			require.True(t, err != nil && got == nil, len(got), "bytes", err)
			text := err.Error()
			assert.True(t, strings.Contains(text, path) && !strings.Contains(text, needle) && len(text) <= 200+len(path), "the error", text)
		})
	}
}

// One that is renamed over it, as secrets are mounted, is never read in part.
func TestAFileThatIsReplacedWhileItIsReadIsTheOldOrTheNew(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	contents := [][]byte{bytes.Repeat([]byte("a"), 200_000), bytes.Repeat([]byte("b"), 70_000)}
	replace := func(i int) error {
		next := filepath.Join(folder, fmt.Sprint("next", i%2))
		if err := os.WriteFile(next, contents[i%2], 0o600); err != nil {
			return err
		}
		return os.Rename(next, path)
	}
	require.NoError(t, replace(0))
	var replacing sync.WaitGroup
	replacing.Go(func() {
		for i := range 300 {
			if err := replace(i); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 300 {
		got, err := secretfile.Read(path)
		require.True(t, err == nil && (bytes.Equal(got, contents[0]) || bytes.Equal(got, contents[1])), len(got), "bytes", err)
	}
	replacing.Wait()
	got, err := secretfile.Read(path)
	assert.True(t, err == nil && bytes.Equal(got, contents[1]), len(got), "bytes of what is not the last one", err)
}

func TestControlCharactersAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"":                    false,
		"sesame":              false,
		"with\ta tab":         false,
		" blanks and ümläuts": false,
		"\xff\xfe":            false,
		"a\nb":                true,
		"a\r\nb":              true,
		"sesame\r\n":          true,
		"a\x00":               true,
		"\x1b[0m":             true,
		"a\x7f":               true,
	} {
		assert.Equal(t, secretfile.HasControl(text), want, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		clean := rapid.StringMatching(`[ -~\t]{0,20}`)
		text := clean.Draw(t, "text")
		require.True(t, !secretfile.HasControl(text), text)
		control := rapid.SampledFrom([]byte("\x00\x01\x08\n\v\f\r\x0e\x1f\x7f")).Draw(t, "control")
		if text += string(rune(control)) + clean.Draw(t, "behind"); !secretfile.HasControl(text) {
			t.Fatalf("%q", text)
		}
	})
}
