package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// variable are the parts of an output that differ from run to run, with what replaces them.
var variable = []struct {
	part *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?([KMGT]iB|B)\b`), "SIZE"},
	{regexp.MustCompile(`\b\d+(\.\d+)?/s\b`), "RATE"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(d|h|ms|m|µs|s)){1,3}\b`), "DURATION"},
	{regexp.MustCompile(`\b[0-9a-f]{32,}\b`), "SUM"},
	{regexp.MustCompile(`\b\d+\b`), "NUMBER"},
	{regexp.MustCompile(`  +`), "  "}, // columns are as wide as what they hold
	{regexp.MustCompile(`(?m) +$`), ""},
}

// normal returns an output without what differs from run to run.
func normal(output string) string {
	for _, v := range variable {
		output = v.part.ReplaceAllString(output, v.by)
	}
	return strings.TrimRight(output, "\n")
}

// matches reports whether an output is as shown. A line of … stands for any number of lines,
// and … at the end of a line for its rest.
func matches(shown, output string) bool {
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	for line := range strings.SplitSeq(normal(shown), "\n") {
		switch start, open := strings.CutSuffix(line, "…"); {
		case line == "…":
			pattern.WriteString(`(?:.*\n)*`)
		case open:
			pattern.WriteString(regexp.QuoteMeta(start) + ".*\n")
		default:
			pattern.WriteString(regexp.QuoteMeta(line) + "\n")
		}
	}
	return regexp.MustCompile(pattern.String() + `\z`).MatchString(normal(output) + "\n")
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		name, shown, output string
		want                bool
	}{
		{"equal", "a\nb\n", "a\nb\n", true},
		{"another word", "a\nb\n", "a\nc\n", false},
		{"a line more", "a\n", "a\nb\n", false},
		{"a line less", "a\nb\n", "a\n", false},
		{"other times and numbers", "at 2026-01-31T08:00:00Z: 3 of 5", "at 2026-11-23T14:00:01.5Z: 12 of 60", true},
		{"wider columns", "NAME  STATE\nhq    up", "NAME     STATE  \nberlin   up", false},
		{"the same columns, wider", "NAME  STATE\nhq    up", "NAME     STATE\nhq       up", true},
		{"lines left out", "a\n…\nd\n", "a\nb\nc\nd\n", true},
		{"lines left out, another end", "a\n…\nd\n", "a\nb\nc\n", false},
		{"the rest of a line", `{"id": "…`, `{"id": "x", "type": "y"}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, matches(c.shown, c.output), c.want, "whether", c.shown, "shows", c.output)
		})
	}
}

func TestOutputIsShownBelowItsCommand(t *testing.T) {
	for _, d := range read(t) {
		text := require.Value(os.ReadFile(filepath.Join(root, d.Path)))(t)
		for _, line := range outputsApart(string(text)) {
			t.Errorf("%s:%d: no test compares this output: put it below its command, in one block of console", d.Path, line)
		}
	}
}

var fenced = regexp.MustCompile("^ *```+ *([a-z]*)$")

// outputsApart returns the lines at which blocks of text or JSON begin that follow a block of
// commands directly, or after a paragraph that announces output.
func outputsApart(document string) []int {
	var found []int
	open, closed, between := "", "", ""
	for i, line := range strings.Split(document, "\n") {
		switch fence := fenced.FindStringSubmatch(line); {
		case fence == nil && open == "":
			between += line
		case fence == nil:
		case open != "":
			open, closed, between = "", open, ""
		default:
			open = fence[1]
			commands := closed == "sh" || closed == "console"
			announced := between == "" || strings.HasSuffix(between, "prints:") || strings.HasSuffix(between, "output:")
			if (open == "text" || open == "json") && commands && announced {
				found = append(found, i+1)
			}
		}
	}
	return found
}

func TestOutputsApart(t *testing.T) {
	for _, c := range []struct {
		name, document string
		want           []int
	}{
		{"right below a command", "```sh\nls\n```\n\n```text\na\n```\n", []int{5}},
		{"announced", "```sh\nls\n```\nIt prints:\n```json\n{}\n```\n", []int{5}},
		{"about something else", "```sh\nls\n```\nA file has:\n```text\na\n```\n", nil},
		{"below a configuration", "```yaml\na: b\n```\n```text\na\n```\n", nil},
		{"in the console", "```console\n$ ls\na\n```\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.EqualSlices(t, outputsApart(c.document), c.want, "it is in lines")
		})
	}
}
