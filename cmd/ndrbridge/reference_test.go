package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// reference is the page that lists every command.
const reference = "../../docs/commands.md"

// The page is made of the commands themselves, and of what they print beside a
// stand-in appliance. UPDATE=1 writes it, where it differs in more than times and
// numbers.
func TestTheReferenceOfCommandsIsUpToDate(t *testing.T) {
	c := &command{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
	var examples map[string]string
	if !t.Run("its examples can be typed", func(t *testing.T) { examples = playExamples(t) }) {
		return
	}
	page := referenceOf(c.root(), examples)
	before, err := os.ReadFile(reference)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	differs := masked(page) != masked(string(before))
	switch {
	case !differs:
	case os.Getenv("UPDATE") == "":
		t.Errorf("docs/commands.md is stale: run make reference. From here on it differs:\n%s", difference(masked(string(before)), masked(page)))
	default:
		if err := os.WriteFile(reference, []byte(keepUnchanged(string(before), page)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// keepUnchanged returns the page with the sections of the page before that differ from its
// own in nothing but times and numbers.
func keepUnchanged(before, page string) string {
	const section = "\n## "
	old := make(map[string]string)
	for s := range strings.SplitSeq(before, section) {
		old[masked(s)] = s
	}
	sections := strings.Split(page, section)
	for i, s := range sections {
		sections[i] = cmp.Or(old[masked(s)], s)
	}
	return strings.Join(sections, section)
}

const referenceHead = `# Commands

This page is made by ` + "`make reference`" + ` of the commands' own help, and of what they print beside a
stand-in appliance.

The exit code is 0 for done, 1 for failed, 2 for wrong usage. ` + "`--help`" + ` teaches, on every
command. NDRBRIDGE_CONFIG saves the ` + "`--config`" + `.

`

// sharedFlags are documented once for all commands.
var sharedFlags = []string{"config", "admin", "token-file", "json", "help"}

// referenceOf is the page. examples are what commands print, by their paths.
func referenceOf(root *cobra.Command, examples map[string]string) string {
	var page bytes.Buffer
	page.WriteString(referenceHead)
	commands := below(root)
	page.WriteString("| command | |\n|---|---|\n")
	for _, cmd := range commands {
		fmt.Fprintf(&page, "| [`%s`](#%s) | %s |\n", cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"), cmd.Short)
	}
	page.WriteString("\n## Flags that many commands have\n\n" + block("text", flagsOf(commands, true)))
	page.WriteString("\nOf a command that has `--admin`: " + strings.Replace(helpOfControl, "It acts", "it acts", 1) + "\n")
	page.WriteString("\n`ndrbridge completion bash` and its like for other shells complete all of them, and the names of\n" +
		"sinks, appliances and streams.\n")
	for _, cmd := range commands {
		fmt.Fprintf(&page, "\n## %s\n\n%s", cmd.CommandPath(), paragraphs(cmp.Or(strings.TrimSuffix(cmd.Long, helpOfControl), cmd.Short+".")))
		if !cmd.HasSubCommands() {
			page.WriteString("\n" + block("text", cmd.UseLine()))
			if flags := flagsOf([]*cobra.Command{cmd}, false); flags != "" {
				page.WriteString("\n" + block("text", flags))
			}
		}
		if cmd.Example != "" {
			page.WriteString("\n" + block("sh", dedent(cmd.Example)))
		}
		if printed := examples[cmd.CommandPath()]; printed != "" {
			page.WriteString("\nFor example:\n\n" + block("console", printed))
		}
	}
	return page.String()
}

// below are the commands that people use, each in front of those below it.
func below(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, child := range cmd.Commands() {
		if child.Name() == "help" || child.Hidden {
			continue
		}
		all = append(all, child)
		if child.Name() != "completion" { // those are cobra's
			all = append(all, below(child)...)
		}
	}
	return all
}

// flagsOf returns the help of the flags of commands: the shared ones, or the others.
func flagsOf(commands []*cobra.Command, shared bool) string {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, cmd := range commands {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if flags.Lookup(f.Name) == nil && slices.Contains(sharedFlags, f.Name) == shared {
				flags.AddFlag(f)
			}
		})
	}
	return strings.TrimRight(flags.FlagUsages(), "\n")
}

// paragraphs are a command's own words, with what is set off by blanks as text.
func paragraphs(long string) string {
	var page []string
	for _, p := range strings.Split(strings.TrimSpace(long), "\n\n") {
		if strings.HasPrefix(p, "  ") {
			p = strings.TrimSuffix(block("text", dedent(p)), "\n")
		}
		page = append(page, p)
	}
	return strings.Join(page, "\n\n") + "\n"
}

func block(language, text string) string {
	return "```" + language + "\n" + strings.TrimRight(text, "\n") + "\n```\n"
}

func dedent(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n  ", "\n"), "  ")
}

var (
	consoles = regexp.MustCompile("(?s)```console\n.*?```")
	times    = regexp.MustCompile(`\b[0-9a-f]{32}\b|[0-9][0-9A-Za-z.:+-]*( ?[KMGT]?i?B\b)?`)
	blanks   = regexp.MustCompile(` {2,}`)
)

// masked is a page without what differs from run to run: the times and numbers that
// commands print, and how wide their columns are for them.
func masked(page string) string {
	return consoles.ReplaceAllStringFunc(page, func(console string) string {
		return blanks.ReplaceAllString(times.ReplaceAllString(console, "#"), "  ")
	})
}

// difference is where two pages part, and a little of what follows.
func difference(before, after string) string {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	const some = 8
	return "- " + strings.Join(a[i:min(i+some, len(a))], "\n- ") + "\n+ " + strings.Join(b[i:min(i+some, len(b))], "\n+ ")
}
