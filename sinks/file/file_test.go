package file_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
	"ndrbridge/sinks/file"
	"ndrbridge/test/assert"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

func open(t testing.TB, o file.Options) *file.Sink {
	t.Helper()
	s := file.New(o)
	t.Cleanup(func() { s.Close() })
	return s
}

func send(t testing.TB, s *file.Sink, events ...transform.Event) {
	t.Helper()
	require.NoError(t, s.Send(t.Context(), events))
}

// read returns the events of the file and of the rotated files, the oldest first. Every
// line must be an event.
func read(path string) ([]event.Event, error) {
	var all []byte
	for n := 0; ; n++ {
		name := path
		if n > 0 {
			name = fmt.Sprintf("%s.%d", path, n)
		}
		content, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) && n > 0 {
			return decode(all)
		} else if err != nil && n > 0 {
			return nil, err
		}
		all = append(content, all...)
	}
}

func decode(content []byte) ([]event.Event, error) {
	if len(content) > 0 && content[len(content)-1] != '\n' {
		return nil, errors.New("the last line has no end")
	}
	var events []event.Event
	for line := range bytes.Lines(content) {
		e, err := sinktest.Structured(line)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		events = append(events, e)
	}
	return events, nil
}

func TestConformance(t *testing.T) {
	modes := []transform.Mode{transform.Structured}
	for _, maxBytes := range []int64{0, 20_000} {
		t.Run(fmt.Sprintf("files of %d bytes", maxBytes), func(t *testing.T) {
			sinktest.Run(t, modes, func(t *testing.T, _ transform.Mode) sinktest.Target {
				directory := filepath.Join(t.TempDir(), "events")
				require.NoError(t, os.Mkdir(directory, 0o750))
				path := filepath.Join(directory, "events.jsonl")
				return sinktest.Target{
					Open: func(_ *lease.Lease) (sinks.Sink, error) {
						return file.New(file.Options{Path: path, MaxBytes: maxBytes, Keep: 1000}), nil
					},
					Received: func() ([]event.Event, error) { return read(path) },
					Local:    true,
					Halt:     func() { os.Rename(directory, directory+".gone") },
					Restore:  func() { os.Rename(directory+".gone", directory) },
				}
			})
		})
	}
	t.Run("standard output", func(t *testing.T) {
		sinktest.Run(t, modes, func(t *testing.T, _ transform.Mode) sinktest.Target {
			out := &flaky{space: -1}
			return sinktest.Target{
				Open: func(_ *lease.Lease) (sinks.Sink, error) {
					return file.New(file.Options{Path: "-", Out: out}), nil
				},
				Received: func() ([]event.Event, error) { return decode(out.written.Bytes()) },
				Local:    true,
				Down:     func() { out.space, out.err = 0, syscall.ENOSPC },
				Halt:     func() { out.space, out.err = 0, syscall.EPIPE },
				Restore:  func() { out.space = -1 },
			}
		})
	})
}

// flaky is a writer that fails after a number of bytes; never, if the number is negative.
type flaky struct {
	written bytes.Buffer
	space   int
	err     error
}

func (f *flaky) Write(p []byte) (int, error) {
	if f.space < 0 || len(p) <= f.space {
		return f.written.Write(p)
	}
	n, _ := f.written.Write(p[:f.space])
	f.space = 0
	return n, f.err
}

func TestEventIsOneLine(t *testing.T) {
	attributes := transform.Attributes{ID: "1", Source: "ndrbridge://hq/detections", Type: "t"}
	for _, test := range []struct{ name, data, want string }{
		{"data on one line stays as it is", `{ "a" :  1.10 , "b": "x  y" }`, `{ "a" :  1.10 , "b": "x  y" }`},
		{"line breaks and indentation are removed", "{\n  \"a\": [\r\n\t1.10,\n\n\t18446744073709551615\n  ]\n}", `{"a": [1.10,18446744073709551615]}`},
		{"a lone carriage return is removed", "{\r\"a\":\r1}", `{"a":1}`},
		{"escaped line breaks, spaces and tabs in strings stay", "{\n\"a  b\":\"x\\n\\r\\t \\u000a y\"}", `{"a  b":"x\n\r\t \u000a y"}`},
		{"other separators in strings stay", "{\n\"a\":\"\u2028\u0085\"}", "{\"a\":\"\u2028\u0085\"}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := require.Value(transform.New(attributes, []byte(test.data)))(t)
			var out bytes.Buffer
			send(t, open(t, file.Options{Path: "-", Out: &out}), e, e)
			line, rest, _ := strings.Cut(out.String(), "\n")
			require.Equal(t, rest, line+"\n", out.String())
			_, data, _ := strings.Cut(line, `"data":`)
			assert.Equal(t, data, test.want+"}", "data", test.want)
			assert.True(t, json.Valid([]byte(line)), "not JSON", line)
		})
	}
}

func TestStandardOutput(t *testing.T) {
	events := sinktest.Events(3, 3, 500)
	line := len(events[0].Structured()) + 1
	for _, test := range []struct {
		name  string
		space int
		lines int // that are left, whole or not, of the batch that failed
	}{
		{"a write that failed at once leaves nothing", 0, 0},
		{"a write that failed in a line leaves an ended line", line + 10, 2},
		{"a write that failed before a line's end leaves an ended line", line - 1, 1},
		{"a write that failed between lines leaves whole ones", line, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			out := &flaky{space: test.space, err: syscall.EIO}
			s := open(t, file.Options{Path: "-", Out: out})
			for range 2 {
				err := s.Send(t.Context(), events)
				sinktest.ExpectFailure(t, err, failure.Transient)
			}
			out.space = -1
			send(t, s, events...)
			lines := strings.SplitAfter(strings.TrimSuffix(out.written.String(), "\n"), "\n")
			require.Equal(t, len(lines), test.lines+3, "lines", lines)
			for i, e := range events {
				assert.Equal(t, strings.TrimSuffix(lines[test.lines+i], "\n"), string(e.Structured()), "line", i)
			}
		})
	}
	t.Run("a closed pipe halts", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer w.Close()
		r.Close()
		s := open(t, file.Options{Path: "-", Out: w})
		err = s.Send(t.Context(), events)
		sinktest.ExpectFailure(t, err, failure.Halted)
	})
	t.Run("closing the sink does not close it", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		s := open(t, file.Options{Path: "-", Out: w})
		send(t, s, events[0])
		s.Close()
		_, err = io.WriteString(w, "more\n")
		assert.NoError(t, err)
		w.Close()
		scanner := bufio.NewScanner(r)
		for range 2 {
			assert.True(t, scanner.Scan(), "a line is missing")
		}
	})
}

func TestRotation(t *testing.T) {
	events := sinktest.Events(20, 20, 1000)
	size := int64(len(events[0].Structured()) + 1)
	names := func(path string) (names []string) {
		matches, _ := filepath.Glob(path + "*")
		for _, match := range matches {
			names = append(names, filepath.Base(match))
		}
		return names
	}
	t.Run("files do not exceed their size, and the oldest are removed", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x")
		s := open(t, file.Options{Path: path, MaxBytes: 3*size + size/2, Keep: 2})
		for _, e := range events {
			send(t, s, e)
		}
		require.Equal(t, fmt.Sprint(names(path)), "[x x.1 x.2]", "files")
		got, err := read(path)
		assert.True(t, err == nil && len(got) == 8 && got[0].ID() == events[12].ID && got[7].ID() == events[19].ID, len(got), "events", err)
		for _, name := range names(path) {
			info, _ := os.Stat(filepath.Join(filepath.Dir(path), name))
			assert.True(t, info.Size() <= 3*size+size/2, name, "has", info.Size(), "bytes")
		}
	})
	t.Run("a file that is exactly full is not rotated", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x")
		s := open(t, file.Options{Path: path, MaxBytes: 4 * size, Keep: 2})
		send(t, s, events[:2]...)
		send(t, s, events[2:4]...)
		assert.Equal(t, fmt.Sprint(names(path)), "[x]", "files")
	})
	t.Run("a batch larger than a file is not split", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x")
		s := open(t, file.Options{Path: path, MaxBytes: size, Keep: 2})
		send(t, s, events[:5]...)
		send(t, s, events[5:10]...)
		assert.Equal(t, fmt.Sprint(names(path)), "[x x.1]", "files")
		assert.Equal(t, len(require.Value(read(path))(t)), 10, "events")
	})
	t.Run("files beyond a lowered keep are removed", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x")
		for _, keep := range []int{6, 3} {
			s := open(t, file.Options{Path: path, MaxBytes: size, Keep: keep})
			for _, e := range events[:10] {
				send(t, s, e)
			}
			s.Close()
		}
		assert.Equal(t, fmt.Sprint(names(path)), "[x x.1 x.2 x.3]", "files")
	})
	t.Run("a gap is filled before the oldest file is removed", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x")
		s := open(t, file.Options{Path: path, MaxBytes: size, Keep: 3})
		for _, e := range events[:4] {
			send(t, s, e)
		}
		os.Remove(path + ".2")
		send(t, s, events[4])
		oldest := require.Value(os.ReadFile(path + ".3"))(t)
		assert.True(t, bytes.Contains(oldest, events[0].Structured()), "the oldest is gone")
	})
}

func TestFileChangedByOthers(t *testing.T) {
	events := sinktest.Events(4, 4, 500)
	for _, test := range []struct {
		name  string
		touch func(t *testing.T, path string)
		left  int // events in the path's files at the end
	}{
		{"renamed: a new one is created", func(t *testing.T, path string) { os.Rename(path, path+".1") }, 4},
		{"removed: a new one is created", func(t *testing.T, path string) { os.Remove(path) }, 2},
		{"renamed and recreated: the new one is written", func(t *testing.T, path string) {
			os.Rename(path, path+".1")
			os.WriteFile(path, nil, 0o600)
		}, 4},
		{"copied and truncated: it is appended to", func(t *testing.T, path string) { os.Truncate(path, 0) }, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			s := open(t, file.Options{Path: path})
			send(t, s, events[:2]...)
			test.touch(t, path)
			send(t, s, events[2])
			send(t, s, events[3])
			got := require.Value(read(path))(t)
			assert.Equal(t, len(got), test.left, "events")
		})
	}
}

func TestTruncatedFileHasSpaceAgain(t *testing.T) {
	events := sinktest.Events(4, 4, 500)
	path := filepath.Join(t.TempDir(), "x")
	s := open(t, file.Options{Path: path, MaxBytes: int64(3 * (len(events[0].Structured()) + 1)), Keep: 1})
	send(t, s, events[:3]...)
	require.NoError(t, os.Truncate(path, 0))
	send(t, s, events[3])
	_, err := os.Stat(path + ".1")
	assert.ErrorIs(t, err, fs.ErrNotExist, "it was rotated")
}

func TestEveryDocumentIsALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	events := sinktest.Events(3, 3, 0)
	events[0] = events[0].WithDocument("application/json", []byte("{\n  \"class_uid\": 2004\r\n}"))
	events[1] = events[1].WithDocument("text/plain; charset=utf-8", []byte("CEF:0|a|b  c"))
	send(t, open(t, file.Options{Path: path}), events...)
	got, err := os.ReadFile(path)
	want := `{"class_uid": 2004}` + "\nCEF:0|a|b  c\n" + string(events[2].Structured()) + "\n"
	assert.True(t, err == nil && string(got) == want, err, "the file holds", string(got))
}

func TestOpenTruncatesTornLines(t *testing.T) {
	events := sinktest.Events(3, 3, 500)
	first, second := string(events[0].Structured())+"\n", string(events[1].Structured())+"\n"
	long := `{"specversion":"1.0","data":"` + strings.Repeat("x", 200<<10)
	for _, test := range []struct {
		name, content, left string
	}{
		{"an empty file", "", ""},
		{"whole lines stay", first + second, first + second},
		{"a line without its newline goes", first + second[:len(second)-1], first},
		{"a line of one byte goes", first + "{", first},
		{"a long line goes", first + long, first},
		{"a line with no other before it goes", second[:100], ""},
		{"zeros go", first + strings.Repeat("\x00", 5000), first},
		{"a blank line stays", first + "\n", first + "\n"},
		{"zeros alone go", strings.Repeat("\x00", 5000), ""},
		{"a line with its newline and a hole in it goes", first + second[:100] + strings.Repeat("\x00", 300) + second[400:], first},
		{"the rest of a line behind a hole goes", first + strings.Repeat("\x00", 4096) + second[100:], first},
		{"a line with its newline but without its middle goes", first + second[:100] + "\n", first},
		{"what the disk held before goes", first + "\xfe\x01\x80garbage\n\x02more\n" + second[:50], first},
		{"many torn lines go", first + strings.Repeat(second[:100]+"\n", 3000), first},
		{"a hole in a long line goes", first + long + strings.Repeat("\x00", 200<<10) + "\"}\n", first},
		{"a line without its newline and a hole go, with no other before", second[:100] + strings.Repeat("\x00", 100), ""},
		{"a line of text stays, and a torn one goes", "CEF:0|a|b|\nLEEF:2.0|a|b|c\td\nCEF:0|a", "CEF:0|a|b|\nLEEF:2.0|a|b|c\td\n"},
		{"a line of text of one byte goes", first + "L", first},
		{"a line of text with a hole in it goes", "CEF:0|a\nCEF:0|b" + strings.Repeat("\x00", 300) + "c\n", "CEF:0|a\n"},
		{"a document in ECS without its newline goes", first + `{"@timestamp":"2026`, first},
		{"a document in OCSF without its newline goes", first + `{"activity_id":1}`, first},
		{"a hole in the middle goes, with what is behind it", first + second[:100] + strings.Repeat("\x00", 300) + second[400:] + first, first},
		{"a hole over the ends of lines goes, with what is behind it", first + strings.Repeat("\x00", len(second)) + second[100:] + first, first},
		{"a hole at the beginning goes, with what is behind it", strings.Repeat("\x00", 100) + first[100:] + second, ""},
		{"a hole between lines of text goes, with what is behind it", "CEF:0|a\nCEF:0|b" + strings.Repeat("\x00", 300) + "c\nCEF:0|d\n", "CEF:0|a\n"},
		{"a line without its middle goes, with what is behind it", first + second[:100] + "\n" + first, first},
		{"lines of something else before whole ones stay", "\x1b[31mred\x1b[0m\n\x7fELF\x00\n{\n\x00\n" + first, "\x1b[31mred\x1b[0m\n\x7fELF\x00\n{\n\x00\n" + first},
		{"what is behind a line of something else goes", "{\"a\": 1}\n" + second[:50], "{\"a\": 1}\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			require.NoError(t, os.WriteFile(path, []byte(test.content), 0o600))
			var log bytes.Buffer
			send(t, open(t, file.Options{Path: path, Log: slog.New(slog.NewTextHandler(&log, nil))}), events[2])
			cut := len(test.content) - len(test.left)
			assert.Equal(t, strings.Contains(log.String(), fmt.Sprintf("bytes=%d\n", cut)), (cut > 0), cut, "bytes were cut off, and the log says", log.String())
			got, _ := os.ReadFile(path)
			assert.Equal(t, string(got), test.left+string(events[2].Structured())+"\n", "the file holds")
		})
	}
	for _, content := range []string{
		"root:x:0:0", first + "more", `{"a": 1}`, "root:x:0:0\n", first + "more\n", first + "more\n" + second[:50],
		"\x7fELF\x02\x01\x01\x00\x00\n\x00\x01", "\x00\x00\x01\x02", "SQLite format 3\x00\n\x01\n" + second[:50],
		"[1, 2]\n", "<?xml version=\"1.0\"?>\n",
		"start\n\n\x1b[31mred\x1b[0m\n\x1b[32mgreen\x1b[0m\n", "\n\x1b[31mred\x1b[0m\n", "caf\xe9\n\ncaf\xe9\n", "{\"a\": 1}\n\x1b[31mred\x1b[0m\n",
	} {
		t.Run("other contents are not changed", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
			err := open(t, file.Options{Path: path}).Send(t.Context(), events)
			assert.True(t, err == nil || strings.Contains(err.Error(), "move it away, or choose another path"), err, "does not say what to do")
			sinktest.ExpectFailure(t, err, failure.Halted, path)
			got, _ := os.ReadFile(path)
			assert.Equal(t, string(got), content, "the file holds")
		})
	}
}

func TestUnwritablePathHalts(t *testing.T) {
	directory := t.TempDir()
	plain := filepath.Join(directory, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	taken := filepath.Join(directory, "taken")
	send(t, open(t, file.Options{Path: taken}), sinktest.Events(1, 1, 0)...)
	for _, test := range []struct{ name, path, advice string }{
		{"a directory that does not exist", filepath.Join(directory, "none", "x"), "create the directory"},
		{"a directory", directory, "check path"},
		{"a file instead of its directory", filepath.Join(plain, "x"), "check path"},
		{"a device", os.DevNull, "not a regular file"},
		{"a name that is too long", filepath.Join(directory, strings.Repeat("x", 300)), "check path"},
		{"a file in use by another sink", taken, "another sink"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := open(t, file.Options{Path: test.path}).Send(t.Context(), sinktest.Events(1, 1, 0))
			sinktest.ExpectFailure(t, err, failure.Halted, test.advice)
		})
	}
}

func TestNewFileMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	send(t, open(t, file.Options{Path: path}), sinktest.Events(1, 1, 0)...)
	info, err := os.Stat(path)
	assert.True(t, err == nil && info.Mode().Perm()&^0o640 == 0, "mode", info.Mode(), err)
}

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		path   func(folder string) string
		change func(t *testing.T, folder string)
		want   findingtest.Row
	}{
		"a missing file": {
			path: func(folder string) string { return filepath.Join(folder, "events.jsonl") },
			want: findingtest.Row{Step: "file", Result: finding.OK, Detail: "can be written"},
		},
		"free space": {
			path: func(folder string) string { return filepath.Join(folder, "events.jsonl") },
			want: findingtest.Row{Step: "space", Result: finding.Remark, Detail: "MiB are free; the files may take 6 MiB"},
		},
		"standard output": {
			path: func(string) string { return "-" },
			want: findingtest.Row{Step: "file", Result: finding.OK, Detail: "standard output"},
		},
		"a missing folder": {
			path: func(folder string) string { return filepath.Join(folder, "nowhere", "events.jsonl") },
			want: findingtest.Row{Step: "file", Result: finding.Failed, Detail: "does not exist", Advice: "create it"},
		},
		"a file instead of the folder": {
			path: func(folder string) string { return filepath.Join(folder, "x", "events.jsonl") },
			change: func(t *testing.T, folder string) {
				require.NoError(t, os.WriteFile(filepath.Join(folder, "x"), nil, 0o600))
			},
			want: findingtest.Row{Step: "file", Result: finding.Failed, Detail: "is not a folder", Advice: "correct path"},
		},
		"a folder instead of the file": {
			path: func(folder string) string { return folder },
			want: findingtest.Row{Step: "file", Result: finding.Failed, Detail: "is a folder", Advice: "correct path"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if test.change != nil {
				test.change(t, folder)
			}
			before, _ := os.ReadDir(folder)
			findingtest.Expect(t, file.New(file.Options{Path: test.path(folder), MaxBytes: 1 << 20, Keep: 5}).Check(t.Context(), sinks.Trial{}), test.want)
			after, _ := os.ReadDir(folder)
			assert.Equal(t, len(after), len(before), "the folder was changed")
		})
	}
}
