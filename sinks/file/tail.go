package file

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"unicode/utf8"

	"ndrbridge/internal/failure"
	"ndrbridge/transform/format"
)

const (
	// maxTail bounds how many bytes from the end of a file are read to find its last whole
	// line.
	maxTail = 64 << 20
	// maxUnsynced bounds the bytes of several lines that are written before a sync: further
	// from the end of a file, no crash leaves a hole.
	maxUnsynced = 8 << 20
)

// starts are the beginnings of the lines that the sink writes, in all formats: another
// one may have been configured when a line was written.
var starts = func() (all [][]byte) {
	for _, name := range format.Names() {
		all = append(all, []byte(name.Start()))
	}
	return all
}()

// isWhole reports whether a line, without its newline, is a JSON object, or text, as the
// sink writes it.
func isWhole(line []byte) bool {
	line = bytes.TrimSpace(line)
	switch {
	case len(line) == 0 || !utf8.Valid(line):
		return false
	case line[0] == '{':
		return json.Valid(line)
	}
	return isEvent(line) && !bytes.ContainsFunc(line, isControl)
}

func isControl(r rune) bool { return r < ' ' && r != '\t' && r != '\r' }

// isEvent reports whether a line begins like an event.
func isEvent(line []byte) bool {
	return slices.ContainsFunc(starts, func(start []byte) bool { return bytes.HasPrefix(line, start) })
}

// isTorn reports whether a line that is not whole may be left from an event by a crash
// or a loss of power: the beginning of an event, or bytes that no text contains, such as
// the zeros of a page that was never written to disk.
func isTorn(line []byte) bool {
	return beginsEvent(line) || !utf8.Valid(line) || bytes.ContainsFunc(line, isControl)
}

// isForeignText reports whether a torn line may as well belong to a text in another
// encoding, or with colour codes. Then the lines before it decide.
func isForeignText(line []byte) bool {
	return !beginsEvent(line) && bytes.IndexByte(line, 0) < 0
}

// beginsEvent reports whether a line begins like an event, or is a prefix of such a
// beginning.
func beginsEvent(line []byte) bool {
	return isEvent(line) || slices.ContainsFunc(starts, func(start []byte) bool { return bytes.HasPrefix(start, line) })
}

// wholeLines returns the length to which a file of size bytes is to be truncated after a crash:
// up to the last whole line, or to the first line with a hole, because synced lines have none. It
// returns a Halted error if no crash leaves such an end: the file, or its end, belongs to
// something else and must not be truncated.
func wholeLines(file io.ReaderAt, name string, size int64) (int64, error) {
	end, err := lastWhole(file, name, size)
	if err != nil {
		return 0, err
	}
	return firstHole(file, max(0, size-maxUnsynced-1), end) // -1: the line break before an unsynced write
}

// firstHole returns the offset of the first line with a hole that begins after start, or at 0,
// and before end, or end if there is none. end is the end of a line.
func firstHole(file io.ReaderAt, start, end int64) (int64, error) {
	if start >= end {
		return end, nil
	}
	lines := make([]byte, end-start)
	if _, err := file.ReadAt(lines, start); err != nil {
		return 0, err
	}
	if start > 0 { // perhaps within a line
		first := bytes.IndexByte(lines, '\n') + 1
		lines, start = lines[first:], start+int64(first)
	}
	ours := true // the last line was written by the sink, not by something else
	for line := range bytes.Lines(lines) {
		text := bytes.TrimSuffix(line, []byte{'\n'})
		whole := isWhole(text)
		if ours && !whole && hasHole(text) {
			return start, nil
		}
		ours = whole || ours && len(bytes.TrimSpace(text)) == 0
		start += int64(len(line))
	}
	return end, nil
}

// hasHole reports whether a line that is not whole is an event without some of its bytes:
// zeros stand for the pages that were never written to disk.
func hasHole(line []byte) bool {
	before, _, zeros := bytes.Cut(line, []byte{0})
	return isEvent(line) || zeros && beginsEvent(before)
}

// lastWhole returns the end of the last whole line, or an error like wholeLines.
func lastWhole(file io.ReaderAt, name string, size int64) (int64, error) {
	foreign := func(what string) error {
		return failure.Errorf(failure.Halted, "%s %s: move it away, or choose another path", name, what)
	}
	var (
		tail []byte // of the file, from start on
		end  = size // of the lines not examined, or whole
		text bool   // terminated lines after end may be a foreign text
	)
	for start := size; ; {
		// Examine the lines in tail, the last one first. Unless start is 0, the first
		// line may begin before start.
		for len(tail) > 0 {
			line, ended := bytes.CutSuffix(tail, []byte{'\n'})
			at := bytes.LastIndexByte(line, '\n') + 1
			if at == 0 && start > 0 {
				break
			}
			line = line[at:]
			if ended && isWhole(line) {
				if text && !isEvent(line) {
					return 0, foreign("ends with lines that are not events")
				}
				return end, nil
			}
			if ended && at > 0 && len(bytes.TrimSpace(line)) == 0 { // a blank line: no event, and no loss
				tail = tail[:at]
				continue
			}
			if !isTorn(line) {
				return 0, foreign("ends with a line that is not an event")
			}
			text = text || ended && isForeignText(line)
			if start == 0 && at == 0 && !beginsEvent(line) && len(bytes.Trim(line, "\x00")) > 0 {
				return 0, foreign("holds no whole event")
			}
			tail = tail[:at]
			end = start + int64(at)
		}
		switch {
		case start == 0 && text:
			return 0, foreign("holds no whole event")
		case start == 0:
			return 0, nil
		}
		if size-start >= maxTail {
			return 0, foreign("has no whole event near its end")
		}
		// Double the size each time, so that a long line is copied only a few times.
		more := min(start, max(64<<10, int64(len(tail))))
		longer := make([]byte, more, more+int64(len(tail)))
		if _, err := file.ReadAt(longer, start-more); err != nil {
			return 0, err
		}
		tail, start = append(longer, tail...), start-more
	}
}
