package terminal_test

import (
	"bytes"
	"testing"
	"time"

	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/test/assert"
)

func TestNumbersForPeople(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{terminal.Bytes(0), "0 B"},
		{terminal.Bytes(1023), "1023 B"},
		{terminal.Bytes(1536), "1.5 KiB"},
		{terminal.Bytes(2 << 30), "2.0 GiB"},
		{terminal.Bytes(1 << 62), "4.0 EiB"},
		{terminal.Duration(-time.Second), "0s"},
		{terminal.Duration(59 * time.Second), "59s"},
		{terminal.Duration(59 * time.Minute), "59m"},
		{terminal.Duration(3*time.Hour + 5*time.Minute), "3h05m"},
		{terminal.Duration(75 * time.Hour), "3d3h"},
		{terminal.Seconds(90), "1m"},
		{terminal.Rate(0, true), "0/s"},
		{terminal.Rate(0, false), "-"},
		{terminal.Rate(0.01, true), "<0.1/s"},
		{terminal.Rate(9.94, true), "9.9/s"},
		{terminal.Rate(1234.5, true), "1234/s"},
		{terminal.Ago(time.Time{}, time.Now()), "-"},
		{terminal.Ago(time.Unix(100, 0), time.Unix(160, 0)), "1m ago"},
		{terminal.Count(1, "event"), "1 event"},
		{terminal.Count(uint64(0), "event"), "0 events"},
	} {
		assert.Equal(t, c.got, c.want)
	}
}

func TestATableIsLaidOut(t *testing.T) {
	for _, c := range []struct {
		name    string
		width   int
		colours bool
		want    string
	}{
		{"its columns stand below each other", 0, false, "SINK  NOTE\nlake  a long reason, on one line\nü     -\n"},
		{"what is too long for the terminal is cut", 16, false, "SINK  NOTE\nlake  a long re…\nü     -\n"},
		{"colours do not move the columns", 0, true, "\x1b[1mSINK\x1b[0m  \x1b[1mNOTE\x1b[0m\nlake  \x1b[31ma long reason, on one line\x1b[0m\nü     -\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := terminal.NewTable("SINK", "NOTE")
			table.Add("lake", terminal.Red.Cell("a long reason,\non one line"))
			table.Add("ü", "-")
			var out bytes.Buffer
			table.Print(&out, c.width, c.colours)
			assert.Equal(t, out.String(), c.want, &out)
		})
	}
}

func FuzzATerminalIsSentNothingThatItObeys(f *testing.F) {
	f.Add("\x1b[2J")
	f.Add("a\u009b31mb\r\n")
	f.Add("\xff\xfe")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range terminal.Printable(text) {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q is printed as %q", text, terminal.Printable(text))
			}
		}
	})
}
