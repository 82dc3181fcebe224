package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/test/assert"
	"ndrbridge/test/locked"
	"ndrbridge/test/require"
)

// Mistakes that people make, each with everything that is printed. The files in
// testdata/mistakes hold them: a line with ### and the mistake, a line with $ and the
// command, lines with the variables of its environment, then its files, each after a line
// with its name between dashes, and then what is printed. With UPDATE=1 the test writes
// what is printed into the files. Read each message there as somebody who sees the program
// for the first time: it says what is wrong, where, and what to do.

// home is the folder of a mistake in its texts, which contains its files.
const home = "/home/ana/"

// mistake is a command that fails.
type mistake struct {
	name    string
	command string
	environ []string
	files   []sampleFile
	stdin   string
	printed outcome
}

// sampleFile is a file, or a folder if its name ends in a slash.
type sampleFile struct{ name, text string }

// outcome is what a command printed and its exit code.
type outcome struct {
	stdout, stderr string
	exit           int
}

var (
	fileLine  = regexp.MustCompile(`^-- (.+) --$`)
	printLine = regexp.MustCompile(`^-- (stdout|stderr, exit code (\d+)) --$`)
)

// parseMistakes parses a file of testdata/mistakes. The output of a mistake that was never
// made is empty.
func parseMistakes(text string) (all []*mistake) {
	var m *mistake
	to := func(string) {}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, begins := strings.CutPrefix(line, "### "); begins {
			m = &mistake{name: name}
			all = append(all, m)
			to = func(line string) {
				switch command, is := strings.CutPrefix(line, "$ "); {
				case is:
					m.command = command
				case line != "":
					m.environ = append(m.environ, line)
				}
			}
			continue
		}
		if printed := printLine.FindStringSubmatch(line); printed != nil {
			into := &m.printed.stdout
			if printed[2] != "" {
				into = &m.printed.stderr
				m.printed.exit, _ = strconv.Atoi(printed[2]) // of digits
			}
			to = func(line string) { *into += line + "\n" }
			continue
		}
		if file := fileLine.FindStringSubmatch(line); file != nil {
			if file[1] == "stdin" {
				to = func(line string) { m.stdin += line + "\n" }
				continue
			}
			m.files = append(m.files, sampleFile{name: file[1]})
			to = func(line string) { m.files[len(m.files)-1].text += line + "\n" }
			continue
		}
		to(line)
	}
	for _, m := range all {
		m.printed.stderr = trimmed(m.printed.stderr) // the line between two mistakes
	}
	return all
}

// String returns the mistake in the form that parseMistakes reads.
func (m *mistake) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n$ %s\n", m.name, m.command)
	for _, variable := range m.environ {
		b.WriteString(variable + "\n")
	}
	for _, f := range m.files {
		fmt.Fprintf(&b, "-- %s --\n%s", f.name, f.text)
	}
	if m.stdin != "" {
		b.WriteString("-- stdin --\n" + m.stdin)
	}
	if m.printed.stdout != "" {
		b.WriteString("-- stdout --\n" + m.printed.stdout)
	}
	fmt.Fprintf(&b, "-- stderr, exit code %d --\n%s", m.printed.exit, m.printed.stderr)
	return b.String()
}

func TestMistakesAreExplained(t *testing.T) {
	t.Parallel()
	areas, err := filepath.Glob("testdata/mistakes/*.txt")
	if err != nil || len(areas) == 0 {
		t.Fatal("there are no mistakes: ", err)
	}
	e := newEnvironment(t)
	seen := make(map[string]bool)
	for _, area := range areas {
		text := require.Value(os.ReadFile(area))(t)
		mistakes := parseMistakes(string(text))
		for _, m := range mistakes {
			assert.False(t, seen[m.name], m.name, "is there twice")
			seen[m.name] = true
			t.Run(strings.TrimSuffix(filepath.Base(area), ".txt")+"/"+m.name, func(t *testing.T) {
				t.Parallel()
				got := e.make(t, m)
				if os.Getenv("UPDATE") != "" {
					m.printed = got
				} else if got != m.printed {
					t.Errorf("exit code %d, want %d\n--- standard output\n%s--- want\n%s--- standard error\n%s--- want\n%s",
						got.exit, m.printed.exit, got.stdout, m.printed.stdout, got.stderr, m.printed.stderr)
				}
			})
		}
		if os.Getenv("UPDATE") != "" {
			t.Cleanup(func() {
				var b strings.Builder
				for i, m := range mistakes {
					if i > 0 {
						b.WriteByte('\n')
					}
					b.WriteString(m.String())
				}
				require.NoError(t, os.WriteFile(area, []byte(b.String()), 0o600))
			})
		}
	}
	if least := 150; len(seen) < least {
		t.Errorf("there are %d mistakes, want %d", len(seen), least)
	}
}

// make makes a mistake in a new folder and returns its outcome.
func (e *environment) make(t *testing.T, m *mistake) outcome {
	t.Helper()
	folder := t.TempDir() + "/"
	names := slices.Concat([]string{home, folder}, e.names)
	place := strings.NewReplacer(names...)
	for _, f := range m.files {
		path := filepath.Join(folder, f.name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		var err error
		if strings.HasSuffix(f.name, "/") {
			err = os.Mkdir(path, 0o700)
		} else {
			// These are written out, because nobody sees them in a file.
			text := strings.NewReplacer(`\r`, "\r", `\t`, "\t", `\x00`, "\x00").Replace(place.Replace(f.text))
			if f.text == "an empty state\n" {
				text = e.state
			}
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		require.NoError(t, err)
	}
	var environ []string
	listens := strings.Contains(m.command, "/home/running") || slices.ContainsFunc(m.files, func(f sampleFile) bool { return strings.Contains(f.text, "admin:") })
	if !listens {
		environ = []string{"NDRBRIDGE_ADMIN_LISTEN=127.0.0.1:0"} // another bridge of this machine may have the usual port
	}
	for _, variable := range m.environ {
		environ = append(environ, place.Replace(variable))
	}
	args, err := words(place.Replace(m.command))
	if err != nil || len(args) == 0 || args[0] != "ndrbridge" {
		t.Fatalf("%s is not a command: %v", m.command, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr locked.Buffer
	c := &command{
		environ: append(environ, "GOGC=100"), stdin: strings.NewReader(m.stdin), stdout: &stdout, stderr: &stderr,
		defaults: []string{filepath.Join(folder, "ndrbridge.yaml")},
	}
	root := c.root()
	root.SetIn(c.stdin)
	exit := commandline.Run(ctx, root, args[1:], &stdout, &stderr)
	if ctx.Err() != nil {
		t.Error("it does not end")
	}
	for i := 0; i < len(names); i += 2 {
		names[i], names[i+1] = names[i+1], names[i]
	}
	return outcome{normalized(stdout.String(), names), normalized(stderr.String(), names), exit}
}

// variable are the parts of messages that differ from run to run.
var variable = []struct {
	pattern *regexp.Regexp
	shown   string
}{
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "2026-05-01T08:00:00Z"},
	{regexp.MustCompile(`until 20\d\d-\d\d-\d\d, \d+ days left, SHA-256 [0-9A-F:]+`), "until 2036-05-01, 3650 days left, SHA-256 9C:2E:01:34"},
	{regexp.MustCompile(`(expired on 2024-02-03, SHA-256) [0-9A-F:]+`), "$1 9C:2E:01:34"},
	{regexp.MustCompile(`which shows 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC`), "which shows 2026-05-01 08:00:00 UTC"},
	{regexp.MustCompile(` \(this process runs as [^)]*\(uid \d+\)\)`), " (this process runs as ana (uid 1000))"},
	{regexp.MustCompile(`go=go1[.0-9]+`), "go=go1.26"},
	{regexp.MustCompile(`this process runs as (uid \d+|\S+ \(uid \d+\))`), "this process runs as ana (uid 1000)"},
	{regexp.MustCompile(`(?m)^\d+ of \d+ tried\n`), ""},
	{regexp.MustCompile(` +\n`), "\n"},
}

func normalized(text string, names []string) string {
	text = strings.NewReplacer(names...).Replace(text)
	for _, v := range variable {
		text = v.pattern.ReplaceAllString(text, v.shown)
	}
	return trimmed(text)
}

// trimmed returns text with one line end at its end, unless it is empty.
func trimmed(text string) string {
	if text = strings.TrimRight(text, "\n"); text != "" {
		text += "\n"
	}
	return text
}

// words splits a command line into words. Quotes, single or double, keep one together.
func words(line string) (all []string, err error) {
	var word strings.Builder
	quote, within := rune(0), false
	for _, r := range line {
		switch {
		case r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, within = r, true
		case quote == 0 && r == ' ':
			if within {
				all = append(all, word.String())
			}
			word.Reset()
			within = false
		default:
			word.WriteRune(r)
			within = true
		}
	}
	if within {
		all = append(all, word.String())
	}
	if quote != 0 {
		err = fmt.Errorf("a quote is open: %s", line)
	}
	return all, err
}

func TestMistakesAreParsed(t *testing.T) {
	const text = "### a\n$ ndrbridge x 'y z'\nA=b\n-- f --\n1\n-- stdin --\n2\n-- stdout --\n3\n-- stderr, exit code 2 --\n4\n"
	all := parseMistakes(text)
	if len(all) != 1 || all[0].String() != text {
		t.Errorf("got %v", all)
	}
	args := require.Value(words(all[0].command))(t)
	assert.EqualSlices(t, args, []string{"ndrbridge", "x", "y z"})
}
