package file

import (
	"bytes"
	"encoding/json"
	"io"
	"unicode/utf8"

	"ndrbridge/sinks"
)

// maxTail bounds how much of a file's end is read to find its last whole line.
const maxTail = 64 << 20

// lineStart is how every event in the JSON event format begins.
const lineStart = `{"specversion":`

// isWhole reports whether a line, without its newline, is what a sink may have written:
// a JSON object.
func isWhole(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 0 && line[0] == '{' && utf8.Valid(line) && json.Valid(line)
}

// isTorn reports whether a line that is not whole may be what a crash or a loss of power
// left of an event: its beginning, or bytes that no text has, such as the zeros of a page
// that never reached the disk.
func isTorn(line []byte) bool {
	return beginsEvent(line) || !utf8.Valid(line) ||
		bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' && r != '\r' })
}

// isForeignText reports whether a torn line may as well be one of a text in another
// encoding, or in colour: what lies in front of it decides.
func isForeignText(line []byte) bool {
	return !beginsEvent(line) && bytes.IndexByte(line, 0) < 0
}

// beginsEvent reports whether a line begins like an event, or is shorter and goes that far.
func beginsEvent(line []byte) bool {
	return bytes.HasPrefix(line, []byte(lineStart)) || bytes.HasPrefix([]byte(lineStart), line)
}

// wholeLines returns the length of a file of size bytes up to its last whole line. An
// error is returned if what lies behind it is not what a crash leaves: then the file, or
// its end, is somebody else's, and must not be cut off.
func wholeLines(file io.ReaderAt, name string, size int64) (int64, error) {
	foreign := func(what string) error {
		return sinks.Errorf(sinks.Halted, "%s %s: move it away, or choose another path", name, what)
	}
	var (
		tail []byte // of the file, from start on
		end  = size // of what may be whole
		text bool   // complete lines behind end may be a text
	)
	for start := size; ; {
		// Each line that begins in tail, the last first. What is in front of its first
		// newline may go on before start.
		for len(tail) > 0 {
			line, ended := bytes.CutSuffix(tail, []byte{'\n'})
			at := bytes.LastIndexByte(line, '\n') + 1
			if at == 0 && start > 0 {
				break
			}
			line = line[at:]
			if ended && isWhole(line) {
				if text && !bytes.HasPrefix(line, []byte(lineStart)) {
					return 0, foreign("ends with lines that are no events")
				}
				return end, nil
			}
			if ended && at > 0 && len(bytes.TrimSpace(line)) == 0 { // a blank line is nobody's loss, and no event
				tail = tail[:at]
				continue
			}
			if !isTorn(line) {
				return 0, foreign("ends with a line that is no event")
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
		// Twice as much each time, so that a long line is not copied too often.
		more := min(start, max(64<<10, int64(len(tail))))
		longer := make([]byte, more, more+int64(len(tail)))
		if _, err := file.ReadAt(longer, start-more); err != nil {
			return 0, err
		}
		tail, start = append(longer, tail...), start-more
	}
}
