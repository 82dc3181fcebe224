package file

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// FuzzWholeLines checks arbitrary files: no whole line is removed but behind a hole, nothing
// else is left at the end, and a file without a whole line is emptied only if it begins with
// an event or has zeros.
func FuzzWholeLines(f *testing.F) {
	const event = `{"specversion":"1.0","id":"1"}` + "\n"
	for _, seed := range []string{
		"", event, event + event[:10], event + "\x00\x00", event + "\x00\n\n", "text\n" + event, event + "text",
		"\x00\x01", strings.Repeat(event, 5000) + strings.Repeat("\x00", 70<<10) + event[:20], "{}\n\xff\n", "\n",
		"CEF:0|a\nLEEF:2.0|b\n", event + "LEEF:2", "CEF:0|\n \n", "\n\x00s\nCEF:0|\n\x00", "CEF:0|a\nCEF:0|\x00\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		end, err := wholeLines(bytes.NewReader(content), "x", int64(len(content)))
		if err != nil {
			return
		}
		require.True(t, end >= 0, "of", len(content), "are whole", end, "bytes")
		require.True(t, end <= int64(len(content)), "of", len(content), "are whole")
		for line := range bytes.Lines(content[end:]) {
			text, ended := bytes.CutSuffix(line, []byte{'\n'})
			if ended && isWhole(text) {
				t.Errorf("the whole line %q is removed", line)
			} else if hasHole(text) {
				break
			}
		}
		left, ended := bytes.CutSuffix(content[:end], []byte{'\n'})
		left = bytes.TrimRightFunc(left, unicode.IsSpace) // blank lines stay
		switch {
		case end > 0 && !(ended && (len(left) == 0 || isWhole(left[bytes.LastIndexByte(left, '\n')+1:]))):
			t.Errorf("%.100q is left at the end", left)
		case end == 0 && len(content) > 0:
			first, _, _ := bytes.Cut(content, []byte{'\n'})
			assert.True(t, beginsEvent(first) || hasHole(first) || len(bytes.Trim(first, "\x00")) == 0, string(content), "is emptied")
		}
	})
}

// TestNoDamageOfTheLastBatchStays damages the unsynced end of a file as a loss of power
// may: it is cut off, and ranges of it are zeros. Acknowledged lines stay, every line is
// whole when the batch has been sent again, and nothing of it is missing.
func TestNoDamageOfTheLastBatchStays(t *testing.T) {
	directory := t.TempDir()
	events := sinktest.Events(12, 5, 400)
	for i := 0; i < len(events); i += 3 {
		events[i] = events[i].WithDocument("text/plain; charset=utf-8", []byte("CEF:0|a|b|"+events[i].ID+strings.Repeat("c", 300)))
	}
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(directory, "x")
		os.Remove(path)
		deliver := func(events []transform.Event) []byte {
			s := New(Options{Path: path})
			defer s.Close()
			require.NoError(t, s.Send(context.Background(), events))
			content := require.Value(os.ReadFile(path))(t)
			return content
		}
		n := rapid.IntRange(1, len(events)-1).Draw(t, "acknowledged")
		synced := deliver(events[:n])
		damaged := deliver(events[n:])
		batch := bytes.Clone(damaged[len(synced):])
		for range rapid.IntRange(0, 3).Draw(t, "holes") {
			from := rapid.IntRange(len(synced), len(damaged)-1).Draw(t, "from")
			clear(damaged[from:rapid.IntRange(from+1, len(damaged)).Draw(t, "to")])
		}
		damaged = damaged[:rapid.IntRange(len(synced), len(damaged)).Draw(t, "length")]
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		left := deliver(events[n:])
		require.True(t, bytes.HasPrefix(left, synced) && bytes.HasSuffix(left, batch), len(synced), len(batch), string(damaged), string(left))
		for line := range bytes.Lines(left) {
			text, ended := bytes.CutSuffix(line, []byte{'\n'})
			require.True(t, ended && isWhole(text), "the line", string(line), "stays")
		}
	})
}

// A write of maxUnsynced bytes may have a hole in its first line.
func TestAHoleAtTheBeginningOfALargeWriteIsFound(t *testing.T) {
	line := `{"specversion":"1.0","data":"` + strings.Repeat("x", 1000) + `"}` + "\n"
	broken := `{"specversion":"1.0","data":"` + strings.Repeat("\x00", maxUnsynced%len(line)+len(line)) + "\"}\n"
	written := broken + strings.Repeat(line, (maxUnsynced-len(broken))/len(line))
	written = strings.Replace(written, "\x00", strings.Repeat("\x00", 1+maxUnsynced-len(written)), 1)
	content := line + written
	end, err := wholeLines(strings.NewReader(content), "x", int64(len(content)))
	assert.True(t, err == nil && end == int64(len(line)) && len(written) == maxUnsynced, end, "bytes of", len(content), "stay, want", len(line), err)
}

// A hole is only looked for where an unsynced write can have been: nothing is removed for one
// in lines that were acknowledged long before.
func TestAHoleFarFromTheEndStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	line := `{"specversion":"1.0","data":"` + strings.Repeat("x", 1000) + `"}` + "\n"
	content := `{"specversion":"1.0","data":"` + "\x00\x00\n" + strings.Repeat(line, maxUnsynced/len(line)+1)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	s := New(Options{Path: path})
	defer s.Close()
	require.NoError(t, s.Send(t.Context(), sinktest.Events(1, 1, 0)))
	got, err := os.ReadFile(path)
	assert.True(t, err == nil && bytes.HasPrefix(got, []byte(content)), len(got), "bytes are left of", len(content), err)
}
