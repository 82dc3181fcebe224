package file

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzWholeLines checks arbitrary files: no whole line is removed, nothing else is left at
// the end, and a file without a whole line is emptied only if it begins with an event or
// has only zeros.
func FuzzWholeLines(f *testing.F) {
	const event = `{"specversion":"1.0","id":"1"}` + "\n"
	for _, seed := range []string{
		"", event, event + event[:10], event + "\x00\x00", event + "\x00\n\n", "text\n" + event, event + "text",
		"\x00\x01", strings.Repeat(event, 5000) + strings.Repeat("\x00", 70<<10) + event[:20], "{}\n\xff\n", "\n",
		"CEF:0|a\nLEEF:2.0|b\n", event + "LEEF:2", "CEF:0|a\nCEF:0|\x00\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		end, err := wholeLines(bytes.NewReader(content), "x", int64(len(content)))
		if err != nil {
			return
		}
		if end < 0 || end > int64(len(content)) {
			t.Fatalf("%d bytes of %d are whole", end, len(content))
		}
		for line := range bytes.Lines(content[end:]) {
			if text, ended := bytes.CutSuffix(line, []byte{'\n'}); ended && isWhole(text) {
				t.Errorf("the whole line %q is removed", line)
			}
		}
		left, ended := bytes.CutSuffix(content[:end], []byte{'\n'})
		switch {
		case end > 0 && !(ended && isWhole(left[bytes.LastIndexByte(left, '\n')+1:])):
			t.Errorf("%.100q is left at the end", left)
		case end == 0 && len(content) > 0:
			first, _, _ := bytes.Cut(content, []byte{'\n'})
			if !beginsEvent(first) && len(bytes.Trim(first, "\x00")) > 0 {
				t.Errorf("%.100q is emptied", content)
			}
		}
	})
}
