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

// beginsEvent reports whether a line begins like an event, or is a prefix of such a
// beginning.
func beginsEvent(line []byte) bool {
	return isEvent(line) || slices.ContainsFunc(starts, func(start []byte) bool { return bytes.HasPrefix(start, line) })
}

// hasHole reports whether a line that is not whole is an event without some of its bytes:
// zeros stand for the pages that were never written to disk.
func hasHole(line []byte) bool {
	before, _, zeros := bytes.Cut(line, []byte{0})
	return isEvent(line) || zeros && beginsEvent(before)
}

// wholeLines returns the length to which a file of size bytes is to be truncated after a crash:
// up to the last whole line, or to the first line with a hole, because synced lines have none. It
// returns a Halted error if no crash leaves such an end: the file, or its end, belongs to
// something else and must not be truncated.
func wholeLines(file io.ReaderAt, name string, size int64) (int64, error) {
	for back := int64(maxUnsynced + 1); ; back *= 2 { // 1: the line break before an unsynced write
		start := max(0, size-back)
		lines := make([]byte, size-start)
		if _, err := file.ReadAt(lines, start); err != nil {
			return 0, err
		}
		if start > 0 { // perhaps within a line
			first := bytes.IndexByte(lines, '\n') + 1
			lines, start = lines[first:], start+int64(first)
		}
		end, found, problem := findEnd(lines, max(0, size-maxUnsynced-start))
		switch {
		case !found && start > 0 && back < maxTail:
			continue
		case !found && start > 0:
			problem = "has no whole event near its end"
		}
		if problem != "" {
			return 0, failure.Errorf(failure.Halted, "%s %s: move it away, or choose another path", name, problem)
		}
		return start + end, nil
	}
}

// findEnd returns the length to which lines are to be truncated, whether one of them is whole,
// and the problem if they belong to something else. Holes are looked for from unsynced on.
func findEnd(lines []byte, unsynced int64) (end int64, found bool, problem string) {
	var (
		at       int64
		hole     = int64(-1) // the first line with one; negative: none
		torn     = int64(-1) // the first of the torn lines at the end; negative: none
		alien    bool        // no crash leaves one of these
		text     bool        // they may be a text in another encoding, or with colour codes
		ours     = true      // the last line was written by the sink, not by something else
		isEvents bool        // the last whole line is an event
	)
	for line := range bytes.Lines(lines) {
		line, ended := bytes.CutSuffix(line, []byte{'\n'})
		switch {
		case ended && isWhole(line):
			torn, alien, text, ours, found, isEvents = -1, false, false, true, true, isEvent(line)
		case ended && len(bytes.TrimSpace(line)) == 0: // no event, and no loss
		default:
			if hole < 0 && ours && at >= unsynced && hasHole(line) {
				hole = at
			}
			if torn < 0 {
				torn = at
				alien = !found && !beginsEvent(line) && len(bytes.Trim(line, "\x00")) > 0
			}
			alien = alien || !isTorn(line)
			text = text || ended && !beginsEvent(line) && bytes.IndexByte(line, 0) < 0
			ours = false
		}
		at += int64(len(line)) + 1
	}
	end = int64(len(lines))
	if torn >= 0 {
		end = torn
	}
	if hole >= 0 {
		end = min(end, hole)
	}
	if torn >= 0 && (alien || text && !isEvents) {
		problem = "ends with a line that is not an event"
	}
	return end, found, problem
}
